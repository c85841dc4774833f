"""What lost workers left half-made goes with the next sweep, and what somebody is at work in does not (SPEC J4)."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from loops import jobs
from loops.models import Preflight, Run, Setup, Workspace
from loops.runs.composition import command_records
from loops.services import setups
from loops.services.tasks import submit_task
from loops.storage import owners
from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.tools.sandbox.workspace_guard.interrupted import Record
from loops.tools.sandbox.workspace_guard.protected_files import guard
from loops.workspaces import copies, strays
from loops.workspaces import setups as kept
from tests import factories as make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4")]
DEAD = owners.me().replace(f":{os.getpid()}:", ":4194301:", 1)
"""A process of this machine that is not there."""


class Shop:
    """A workspace, orders about it in any state, and the folders that workers of them would have made."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.project, self.boss = make.project(), make.superuser("ana")
        self.workspace = Workspace.objects.create(
            project=self.project, name="shop", path=str(folder), setup_command="true"
        )

    def set_up(self, state: str, until: int = 60) -> Setup:
        """``until``: seconds from now."""
        Setup.objects.filter(state__in=Setup.OPEN).update(state="failed")
        row = setups.run(actor=self.boss, workspace=self.workspace)
        Setup.objects.filter(pk=row.pk).update(state=state, until=timezone.now() + timedelta(seconds=until))
        return row

    def tried(self, until: int = 60) -> Preflight:
        about = {"project": self.project, "asked_by": self.boss, "commands": ["true"]}
        return Preflight.objects.create(**about, state="running", until=timezone.now() + timedelta(seconds=until))

    def run(self, owner: str) -> Run:
        agent = make.agent(self.project)
        run = submit_task(actor=self.boss, project=self.project, agent=agent, workspace=self.workspace, goal="x").run
        Run.objects.filter(pk=run.pk).update(owner=owner, lease_until=timezone.now() + timedelta(minutes=1))
        return run


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    return Shop(tmp_path / "shop")


def left(*names: str) -> list[Path]:
    """Folders among those of runs, with something in them."""
    folders = [copies.made_root() / name for name in names]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "file").write_text("x")
    return folders


def there(folders: list[Path]) -> list[bool]:
    jobs.sweep()
    return [folder.exists() for folder in folders]


@pytest.mark.parametrize(
    ("state", "until", "stay"),
    [
        ("running", 60, [True] * 4),
        ("waiting", 60, [True] * 4),
        ("running", -1, [False] * 4),
        ("lost", 60, [False] * 4),
        ("stopped", 60, [False] * 4),
        ("ready", 60, [False, False, False, True]),
    ],
)
def test_of_a_set_up(shop: Shop, state: str, until: int, stay: list[bool]) -> None:
    """One whose worker is not heard of any more is ended too, though no run waits for it."""
    row = shop.set_up(state, until)
    folders = left(f"setup-{row.pk}", f"setup-{row.pk}-network", f"setup-{row.pk}-made", f"setups/{row.pk}")
    assert there(folders) == stay
    row.refresh_from_db()
    assert row.state == ("lost" if until < 0 else state)
    assert kept.folder(row) == folders[3]


def test_of_commands_that_were_tried(shop: Shop) -> None:
    assert there(left(f"preflight-{shop.tried().pk}", f"preflight-{shop.tried(-1).pk}")) == [True, False]


def test_of_the_copy_for_a_run(shop: Shop) -> None:
    """Until its worker is proven to be gone, or another one has made the copy."""
    mine, lost, nobody, done = (shop.run(owner) for owner in (owners.me(), DEAD, "", owners.me()))
    (copies.made_root() / str(done.pk)).mkdir()
    drafts = left(*(f".{run.pk}.0123abcd" for run in (mine, lost, nobody, done)))
    assert there(drafts) == [True, False, False, False]
    assert (copies.root() / str(done.pk)).is_dir()


def test_what_no_row_knows_goes_when_it_is_old(shop: Shop) -> None:
    folders = left(*(name.format(uuid.uuid4()) for name in ("setup-{}", "preflight-{}", ".{}.0123abcd", "setups/{}")))
    assert there(folders) == [True] * 4, "its row may come later"
    for folder in folders:
        os.utime(folder, (time.time() - strays.KEPT_S - 60,) * 2)
    assert there(folders) == [False] * 4


def test_nothing_else_goes(shop: Shop) -> None:
    folders = left("setups", str(uuid.uuid4()), "setup-mine", ".git", f"setup-{uuid.uuid4()}.kept")
    for folder in folders:
        os.utime(folder, (0, 0))
    assert there(folders) == [True] * 5


def test_what_was_written_down_about_a_command_in_it_goes_too(shop: Shop) -> None:
    """Else it lies there for ever: who cleans up after commands finds no folder."""
    row = shop.set_up("lost")
    (folder,) = left(f"setup-{row.pk}")
    others = {*Path(command_records()).glob("*.json")}
    with SafeDirectory(str(folder)) as root:
        Record(command_records(), root).begin(guard(root, (), True), "a run")
    (record,) = {*Path(command_records()).glob("*.json")} - others
    assert there([folder]) == [False]
    assert not record.exists()

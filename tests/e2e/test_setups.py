"""Workers that are lost in the middle of a set-up: real workers, the real sandbox, ``kill -9`` (SPEC J4)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.utils import timezone

from gates.models import Gate
from loops.models import Agent, Run, Setup, Workspace
from loops.services import setups
from loops.services.models import ensure_script
from loops.services.tasks import submit_task
from loops.workspaces import copies
from tests.e2e import plant as plants
from tests.factories import create_project
from tests.stack import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4", "J3")]
SLOWLY = (
    "mkdir -p .venv/bin && for n in $(seq 40); do echo file $n; echo $n > .venv/bin/$n; sleep 0.1; "
    "case $n in 12|30) sleep 20;; esac; done"
)
MOMENTS = ("file 1", "file 12", "file 30")
"""What its log says when the worker is killed."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "shop"
    (made / "src").mkdir(parents=True)
    (made / "src/shop.py").write_text("BOOKS = 3\n")
    (made / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
    (made / "run.sh").write_text("#!/bin/sh\n")
    (made / "run.sh").chmod(0o755)
    return made


@pytest.fixture
def plant(transactional_db: None, settings: Any) -> Iterator[plants.Plant]:
    settings.AGENTOPS_CELERY = plants.APP
    with plants.running() as running:
        yield running


def everything(folder: Path) -> dict[str, tuple[int, int, int, str]]:
    """Mode, owner, group and content of all that lies in it."""
    found = {}
    for path in sorted(folder.rglob("*")):
        at = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        found[str(path.relative_to(folder))] = (at.st_mode, at.st_uid, at.st_gid, content)
    return found


def test_a_worker_that_is_killed_in_the_middle_leaves_the_folder_as_it_was(folder: Path, plant: plants.Plant) -> None:
    """And the next one makes all of it, for the run that waits."""
    before = everything(folder)
    boss = get_user_model().objects.create_superuser("boss")
    project = create_project(actor=boss, name="Shop")
    workspace = Workspace.objects.create(
        project=project, name="shop", path=str(folder), allowed_by=boss, allowed_path=str(folder)
    )
    setups.state(actor=boss, workspace=workspace, stated=setups.Stated(command=SLOWLY, tests="true"))
    agent = Agent.objects.create(project=project, name="A", actor_model=ensure_script("asks_a_question", pace=0))
    run = submit_task(actor=boss, project=project, agent=agent, workspace=workspace, goal="Do it").run
    for moment in MOMENTS:
        wait_until(lambda said=moment: said in _log(), f"{moment!r} in the log")
        plant.kill()
        lost = Setup.objects.get(state="running")
        assert everything(folder) == before
        assert not copies.root().joinpath("setups", str(lost.pk)).exists(), "half of it is never there"
        Setup.objects.filter(pk=lost.pk).update(until=timezone.now())  # instead of a minute
        _look_again(run)
        plant.start()
        plants.app.send_task("loops.advance", kwargs={"run_id": str(run.pk)})
    wait_until(lambda: Setup.objects.filter(state="ready").exists(), "the set-up")
    _look_again(run)
    plants.app.send_task("loops.advance", kwargs={"run_id": str(run.pk)})
    wait_until(lambda: Gate.objects.filter(run=run).exists(), "the run's own question")
    run.refresh_from_db()
    assert len(list(Path(run.workspace_path, ".venv/bin").iterdir())) == 40
    assert everything(folder) == before
    assert [one.state for one in Setup.objects.order_by("pk")] == ["lost"] * len(MOMENTS) + ["ready"]


def _log() -> str:
    latest = Setup.objects.filter(state="running").first()
    return latest.log if latest is not None else ""


def _look_again(run: Run) -> None:
    """Instead of the seconds after which a run looks for its folder again."""
    Run.objects.filter(pk=run.pk, owner="").update(lease_until=None, wake_at=timezone.now())

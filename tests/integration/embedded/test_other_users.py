"""Another user of the machine sees nothing of the state folder, whoever runs AgentOps (SPEC I7, S4)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agentops.embedded.paths import Paths
from loops.models import Workspace
from loops.runs import drive
from loops.storage import owners
from loops.tools.sandbox import capability
from loops.tools.sandbox.capability import CONFINED, SandboxLevel
from loops.tools.sandbox.namespaces.user import OUTSIDE_UID
from loops.workspaces import copies
from tests.integration.services import world as worlds
from tests.unit.tools.harness import Desk

SOMEBODY = 61_002
pytestmark = [
    pytest.mark.spec("I7"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can try as somebody else"),
]


@pytest.fixture
def state() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ao-others-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        paths = Paths(Path(made) / "state")
        paths.make()
        yield paths.state


def tries(uid: int, *words: str) -> bool:
    """Does it succeed for that user?"""
    command = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *words]
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


def test_nobody_else_passes_through_the_state_folder(state: Path) -> None:
    (state / "note").write_text("x")
    (state / "note").chmod(0o644)
    assert not tries(SOMEBODY, "ls", str(state))
    assert not tries(SOMEBODY, "cat", str(state / "note")), "not even what is named and open to everybody"
    assert tries(OUTSIDE_UID, "cat", str(state / "note")), "the user of commands passes"
    assert not tries(OUTSIDE_UID, "ls", str(state)), "and cannot list"
    assert not tries(OUTSIDE_UID, "touch", str(state / "mine"))


@pytest.fixture
def world(settings: Any) -> Any:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    return worlds.make()


@pytest.mark.django_db(transaction=True)
def test_the_folder_of_a_run_is_closed_to_others_even_where_the_way_is_open(world: Any, settings: Any) -> None:
    with tempfile.TemporaryDirectory(prefix="ao-others-", dir="/tmp") as open_to_all:
        Path(open_to_all).chmod(0o755)
        settings.AGENTOPS_WORKSPACES = f"{open_to_all}/runs"
        source = Path(open_to_all) / "source"
        source.mkdir(mode=0o755)
        (source / "price.txt").write_text("secret")
        made = Workspace.objects.create(project=world.project, name="W", path=str(source))
        run = world.submit(workspace=made).run
        folder = Path(copies.prepare(run))
        assert tries(SOMEBODY, "cat", str(source / "price.txt")), "the control: the way is open"
        assert not tries(SOMEBODY, "ls", str(folder))
        assert not tries(SOMEBODY, "cat", str(folder / "price.txt"))


@pytest.mark.django_db(transaction=True)
def test_a_folder_that_was_left_open_is_closed_when_its_run_begins(world: Any, tmp_path: Path, settings: Any) -> None:
    """By a worker of an earlier version, which was lost before it began the run."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    run = world.submit().run
    (tmp_path / "runs").mkdir(mode=0o711)
    left = tmp_path / "runs" / str(run.pk)
    left.mkdir(mode=0o755)
    drive.drive(run.pk, owners.me())
    run.refresh_from_db()
    assert Path(run.workspace_path) == left
    assert left.stat().st_mode & 0o777 == 0o700


@pytest.mark.django_db
def test_the_folder_of_a_run_is_closed_as_soon_as_it_is_there(tmp_path: Path, settings: Any) -> None:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    world, seen = worlds.make(), []
    copies.prepare_with(world.submit().run, lambda draft: seen.append(draft.stat().st_mode & 0o777))
    assert seen == [0o700]


@pytest.mark.parametrize("level", [capability.FULL, CONFINED])
def test_commands_still_work_in_a_closed_folder(state: Path, level: int) -> None:
    desk = Desk(state, level=SandboxLevel(level, "tried"))
    desk.workspace.chmod(0o700)
    assert desk.shell("echo made > file && cat file").ok
    assert (desk.workspace / "file").read_text() == "made\n"

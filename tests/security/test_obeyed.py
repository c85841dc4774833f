"""What was approved is what runs: a change of the workspace between gate and run voids the approval (SPEC Q5)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loops.engine.values import Access, FailureKind
from loops.tools import obeyed
from loops.tools.limits import Limits
from loops.tools.matrix import AccessRule
from loops.tools.sandbox import levels
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("Q5")
MARK = "ran.txt"
TREE = {
    "Makefile": "test:\n\techo made > ran.txt\n",
    "package.json": '{"scripts": {"test": "echo ran > ran.txt"}}',
    "pyproject.toml": "[tool.pytest.ini_options]\n",
    "src/app/__init__.py": "VALUE = 1\n",
    "tests/test_app.py": "open('ran.txt', 'w').write('x')\n",
    "data/rows.csv": "a,b\n1,2\n",
    ".git/config": "[core]\n\tbare = false\n",
    ".git/HEAD": "ref: refs/heads/main\n",
    ".git/hooks/pre-commit": "#!/bin/sh\n",
    ".venv/bin/pytest": "#!/bin/sh\necho ran > ran.txt\n",
    "node_modules/tool/index.js": "1\n",
    "src/app/__pycache__/__init__.cpython-311.pyc": "compiled\n",
}
FILES = sorted(TREE)
COMMANDS = ("make test", "python3 -m unittest", "npm test", "git commit -qm x", ".venv/bin/pytest", "sh -c 'make test'")


def fill(desk: Desk) -> Path:
    """The same workspace each time, whatever was done to it before."""
    for found in desk.workspace.iterdir():
        if found.is_dir() and not found.is_symlink():
            shutil.rmtree(found)
        else:
            found.unlink()
    for name, text in TREE.items():
        place = desk.workspace / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)
    return desk.workspace


def rewritten(place: Path) -> None:
    place.write_text(place.read_text() + "#")


def swapped_in_place(place: Path) -> None:
    """As long as before, and as old."""
    was, text = place.stat(), place.read_text()
    place.write_text(text[:-2] + ("X" if text[-2] != "X" else "Y") + text[-1])
    os.utime(place, ns=(was.st_atime_ns, was.st_mtime_ns))


def removed(place: Path) -> None:
    place.unlink()


def made_executable(place: Path) -> None:
    place.chmod(0o755)


def made_a_link(place: Path) -> None:
    place.unlink()
    place.symlink_to("/etc/hostname")


def renamed(place: Path) -> None:
    place.rename(place.with_name("other-" + place.name))


CHANGES: tuple[Callable[[Path], None], ...] = (
    rewritten, swapped_in_place, removed, made_executable, made_a_link, renamed,
)  # fmt: skip
ADDED = (
    "conftest.py", "sitecustomize.py", "src/unittest.py", "GNUmakefile", ".npmrc", "tests/test_more.py",
    ".git/hooks/pre-push", ".venv/lib/site.py", "node_modules/other.js", "tests/__pycache__/test_app.cpython-311.pyc",
    ".gitattributes",
)  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("obeyed"), [AccessRule(Access.ASK)], level=levels.probe())


def is_refused(desk: Desk, command: str) -> Any:
    result = desk.shell(command)
    assert not result.ok
    assert result.kind is FailureKind.CRITICAL, result.error
    assert "changed since it was approved" in result.error
    assert not (desk.workspace / MARK).exists()
    return result


@settings(max_examples=60, suppress_health_check=list(HealthCheck), deadline=None)
@given(name=st.sampled_from(FILES), change=st.sampled_from(CHANGES), command=st.sampled_from(COMMANDS))
def test_whatever_changes_while_the_gate_is_open_voids_it(
    desk: Desk, name: str, change: Callable[[Path], None], command: str
) -> None:
    workspace = fill(desk)
    approved = desk.judge("run_command", command=command)
    assert approved.access is Access.ASK
    change(workspace / name)
    is_refused(desk, command)
    assert desk.judge("run_command", command=command).subject != approved.subject


@pytest.mark.parametrize("name", ADDED)
def test_whatever_is_added_voids_it(desk: Desk, name: str) -> None:
    workspace = fill(desk)
    approved = desk.judge("run_command", command="make test")
    (workspace / name).parent.mkdir(parents=True, exist_ok=True)
    (workspace / name).write_text("import os\n")
    folder = next((part for part in (".venv", "node_modules", "tests/__pycache__") if name.startswith(part)), name)
    assert folder in is_refused(desk, "make test").error
    assert desk.judge("run_command", command="make test").subject != approved.subject


def test_what_did_not_change_runs(desk: Desk) -> None:
    fill(desk)
    desk.judge("run_command", command="echo made > ran.txt")
    assert desk.shell("echo made > ran.txt").ok
    assert (desk.workspace / MARK).exists()


def test_what_nothing_is_executed_from_voids_nothing(desk: Desk) -> None:
    workspace = fill(desk)
    desk.judge("run_command", command="true")
    for name in (".pytest_cache/lastfailed", ".git/logs/HEAD", ".git/index", ".git/hooks/pre-push.sample"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("x")
    shutil.rmtree(workspace / ".pytest_cache")  # a folder of its own would be seen
    assert desk.shell("true").ok


def test_the_tests_of_a_project_are_bound_too(desk: Desk) -> None:
    workspace = fill(desk)
    approved = desk.judge("run_tests", command="python3 -m unittest")
    rewritten(workspace / "tests/test_app.py")
    assert desk.judge("run_tests", command="python3 -m unittest").subject != approved.subject
    fill(desk)
    desk.judge("run_tests", command="python3 -m unittest")
    rewritten(workspace / "tests/test_app.py")
    assert "tests/test_app.py" in desk.run("run_tests", command="python3 -m unittest").error


def test_the_card_says_what_is_covered_and_what_is_not(desk: Desk) -> None:
    fill(desk)
    covers = desk.judge("run_command", command="make test").view["covers"]
    assert covers["files"] >= len(TREE)
    assert covers["uncovered"] == [obeyed.NOT_LOOKED_AT]


def test_a_workspace_too_large_to_be_bound_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=levels.probe(), limits=Limits(snapshot_files=3))
    fill(desk)
    first, *_ = desk.judge("run_command", command="make test").view["covers"]["uncovered"]
    assert "more than 3 files" in first


def test_more_installed_files_than_are_looked_at_are_said_not_to_be_covered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(obeyed, "MOST_INSTALLED", 1)
    fill(desk)
    first, *_ = desk.judge("run_command", command="make test").view["covers"]["uncovered"]
    assert first == "installed packages and caches: more than 1 files"


def test_a_call_that_nobody_is_asked_about_costs_no_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(obeyed, "look", lambda workspace: pytest.fail("looked"))
    desk = Desk(tmp_path, [AccessRule(Access.ALLOW, operation="execute")], level=levels.probe(), matrix=())
    assert desk.judge("run_command", command="true").access is Access.ALLOW
    assert desk.shell("true").ok


def test_many_changed_files_are_counted(desk: Desk) -> None:
    workspace = fill(desk)
    desk.judge("run_command", command="make test")
    for number in range(15):
        (workspace / f"more-{number:02}.txt").write_text("x")
    assert "and 5 more" in is_refused(desk, "make test").error


def test_scripts_are_bound_where_the_workspace_is_too_large(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=levels.probe(), limits=Limits(snapshot_files=3))
    names = ("one.sh", "same.sh", "two.sh", "data.txt")
    for name in names:
        (desk.workspace / name).write_text("echo approved\n")
    command = "; ".join(f"bash {name}" for name in names[:3])
    desk.judge("run_command", command=command)
    for name in ("one.sh", "two.sh"):
        (desk.workspace / name).write_text("echo evil\n")
    assert "changed since it was approved: one.sh, two.sh;" in desk.shell(command).error

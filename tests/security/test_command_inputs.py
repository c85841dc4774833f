"""What was approved is what runs: a change of the workspace between gate and run voids the approval (SPEC Q5)."""

from __future__ import annotations

import asyncio
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loops.engine.values import Access, FailureKind
from loops.tools import command_inputs
from loops.tools.limits import Limits
from loops.tools.policy import AccessRule
from loops.tools.sandbox import capability
from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.tools.sandbox.workspace_guard.protected_files import guard
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("Q5")
MARK = "ran.txt"
OUTSIDE = tempfile.gettempdir()
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
    ".git/refs/heads/main": "0" * 40 + "\n",
    ".git/modules/lib/config": "[core]\n\tbare = false\n",
    "lib/.git/hooks/post-checkout": "#!/bin/sh\n",
    ".venv/bin/pytest": "#!/bin/sh\necho ran > ran.txt\n",
    "node_modules/tool/index.js": "1\n",
    "src/app/__pycache__/__init__.cpython-311.pyc": "compiled\n",
}
FILES = sorted(TREE)
FOLDERS = sorted({str(parent) for name in TREE for parent in Path(name).parents if ".git" not in parent.parts} - {"."})
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
    ".gitattributes", ".git/packed-refs", ".git/modules/lib/hooks/post-checkout", "lib/.git/config", "AGENTS.md",
    ".pytest_cache/run.sh", ".mypy_cache/run.sh", ".ruff_cache/run.sh",
)  # fmt: skip


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    return Desk(tmp_path_factory.mktemp("obeyed"), [AccessRule(Access.ASK)], level=capability.probe())


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


# --- anything at all, one after another -----------------------------------------------------------------------------


def made_a_hard_link_to_other_bytes(place: Path) -> None:
    descriptor, other = tempfile.mkstemp(dir=OUTSIDE)
    os.write(descriptor, b"other bytes\n")
    os.close(descriptor)
    place.unlink(missing_ok=True)
    os.link(other, place)
    Path(other).unlink()


def exchanged_with_another(place: Path) -> None:
    text = place.read_text()
    neighbour = place.with_name("neighbour")
    neighbour.write_text(text + "\n# other")
    neighbour.replace(place)


def swapped_for_a_link(folder: Path) -> None:
    """The same files are behind it, and whoever owns them may change them later."""
    aside = folder.with_name(f"{folder.name}-aside-{uuid4().hex[:6]}")
    folder.rename(aside)
    folder.symlink_to(aside.name)


def emptied(folder: Path) -> None:
    shutil.rmtree(folder)
    folder.mkdir()


def shut(folder: Path) -> None:
    folder.chmod(0o500)


def moved_into(folder: Path) -> None:
    within = folder / "moved"
    within.mkdir(exist_ok=True)
    for found in list(folder.iterdir()):
        if found != within:
            found.rename(within / found.name)


def added(folder: Path) -> None:
    (folder / f"more-{uuid4().hex[:6]}.py").write_text("import os\n")


def added_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / f"pipe-{uuid4().hex[:6]}")


OF_FILES = (*CHANGES, made_a_hard_link_to_other_bytes, exchanged_with_another)
OF_FOLDERS: tuple[Callable[[Path], None], ...] = (
    renamed, swapped_for_a_link, emptied, shut, moved_into, added, added_a_pipe,
)  # fmt: skip
ONE_CHANGE = st.one_of(
    st.tuples(st.sampled_from(FILES), st.sampled_from(OF_FILES)),
    st.tuples(st.sampled_from(FOLDERS), st.sampled_from(OF_FOLDERS)),
)


def tree(folder: Path) -> dict[str, object]:
    """What lies in a folder, found in another way than the product finds it."""
    found: dict[str, object] = {}
    for base, folders, files in os.walk(folder):
        for name in (*folders, *files):
            place = Path(base, name)
            mode = place.lstat().st_mode
            content = str(place.readlink()) if place.is_symlink() else place.read_bytes() if stat.S_ISREG(mode) else ""
            found[str(place.relative_to(folder))] = (mode, content)
    return found


@settings(max_examples=150, suppress_health_check=list(HealthCheck), deadline=None)
@given(changes=st.lists(ONE_CHANGE, min_size=1, max_size=4), command=st.sampled_from(COMMANDS))
def test_after_any_changes_nothing_runs_but_what_was_approved(
    desk: Desk, changes: list[tuple[str, Callable[[Path], None]]], command: str
) -> None:
    """Refused, or the workspace is as it was. Changes may undo each other, or no longer find what they would change."""
    workspace = fill(desk)
    approved = desk.judge("run_command", command=command)
    before = tree(workspace)
    for name, change in changes:
        with suppress(OSError):
            change(workspace / name)
    if tree(workspace) == before:
        return
    is_refused(desk, command)
    assert desk.judge("run_command", command=command).subject != approved.subject


@pytest.mark.parametrize("level", [capability.FULL, capability.CONFINED], ids=["namespaces", "landlock"])
def test_what_another_command_changes_while_this_one_waits_for_its_end_voids_it(tmp_path: Path, level: int) -> None:
    """Two runs in one folder: one command at a time lives there, and the other's may take half an hour."""
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=capability.SandboxLevel(level, "this one"))
    workspace = fill(desk)
    desk.judge("run_command", command="make test")
    held = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(held, fcntl.LOCK_EX)

    async def both() -> Any:
        mine = asyncio.create_task(desk.execute("run_command", command="make test"))
        await asyncio.sleep(0.3)  # it waits: whatever it looked at before, it looked at by now
        assert not mine.done()
        (workspace / "Makefile").write_text("test:\n\techo other > ran.txt\n")
        os.close(held)
        return await mine

    result = asyncio.run(both())
    assert result.kind is FailureKind.CRITICAL, result.error
    assert "changed since it was approved: Makefile" in result.error
    assert not (workspace / MARK).exists()


@pytest.mark.parametrize("name", ["~run.sh", "file:run.sh", "a\tb.sh", "~lib/run.sh"])
def test_a_script_whose_name_no_tool_accepts_is_bound_too(desk: Desk, name: str) -> None:
    workspace = fill(desk)
    (workspace / name).parent.mkdir(exist_ok=True)
    (workspace / name).write_text("echo mine\n")
    command = f"sh './{name}'"
    desk.judge("run_command", command=command)
    assert desk.shell(command).ok
    desk.judge("run_command", command=command)
    (workspace / name).write_text("echo evil > ran.txt\n")
    is_refused(desk, command)


def test_what_holds_the_place_of_protected_files_is_no_change(desk: Desk) -> None:
    """While a command of another run lives in the folder, its placeholders stand there."""
    workspace = fill(desk)
    desk.judge("run_command", command="make test")
    with SafeDirectory(str(workspace)) as beneath:
        fcntl.flock(beneath.fd, fcntl.LOCK_EX)  # as a command does while it lives there
        guarded = guard(beneath, Limits().protected)
        assert (workspace / "AGENTS.md").exists()
        approved = desk.judge("run_command", command="make test")
        guarded.restore(beneath)
    assert not (workspace / "AGENTS.md").exists()
    assert approved.subject["workspace"] == desk.judge("run_command", command="make test").subject["workspace"]
    assert desk.shell("make test").ok


def test_another_folder_in_the_place_of_the_workspace_runs_nothing(desk: Desk) -> None:
    workspace = fill(desk)
    desk.judge("run_command", command="make test")
    other = workspace.with_name("other")
    shutil.copytree(workspace, other, symlinks=True)
    (other / "Makefile").write_text("test:\n\ttouch ran.txt\n")
    aside = workspace.rename(workspace.with_name("aside"))
    workspace.symlink_to(other.name)
    try:
        is_refused(desk, "make test")
        assert not (other / MARK).exists()
    finally:
        workspace.unlink()
        aside.rename(workspace)
        shutil.rmtree(other)


def test_a_large_file_that_was_written_to_voids_it_whatever_its_time_says(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=capability.probe(), limits=Limits(snapshot_file_bytes=8))
    large = fill(desk) / "data" / "large.bin"
    large.write_bytes(b"approved bytes")
    was = large.stat()
    desk.judge("run_command", command="make test")
    large.write_bytes(b"other    bytes")
    os.utime(large, ns=(was.st_atime_ns, was.st_mtime_ns))
    is_refused(desk, "make test")


@pytest.mark.parametrize("name", ADDED)
def test_whatever_is_added_voids_it(desk: Desk, name: str) -> None:
    workspace = fill(desk)
    approved = desk.judge("run_command", command="make test")
    (workspace / name).parent.mkdir(parents=True, exist_ok=True)
    (workspace / name).write_text("import os\n")
    parts = (".venv", "node_modules", "tests/__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache")
    folder = next((part for part in parts if name.startswith(part)), name)
    assert folder in is_refused(desk, "make test").error
    assert desk.judge("run_command", command="make test").subject != approved.subject


@pytest.mark.parametrize("name", [".venv", "node_modules", ".pytest_cache", "tests/__pycache__", "app/.git"])
def test_a_link_is_bound_whatever_its_name(desk: Desk, name: str) -> None:
    """What it led to when somebody looked is what runs, although folders of that name are bound in another way."""
    workspace = fill(desk)
    place = workspace / name
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to("good")
    approved = desk.judge("run_command", command="make test")
    place.unlink()
    place.symlink_to("evil")
    assert name in is_refused(desk, "make test").error
    assert desk.judge("run_command", command="make test").subject != approved.subject


def test_what_did_not_change_runs(desk: Desk) -> None:
    cache = fill(desk) / ".pytest_cache/lastfailed"
    cache.parent.mkdir(exist_ok=True)
    cache.write_text("{}")
    desk.judge("run_command", command="echo made > ran.txt")
    assert desk.shell("echo made > ran.txt").ok
    assert (desk.workspace / MARK).exists()


def test_what_nothing_is_executed_from_voids_nothing(desk: Desk) -> None:
    workspace = fill(desk)
    desk.judge("run_command", command="true")
    for name in (".git/logs/HEAD", ".git/index", ".git/hooks/pre-push.sample"):
        (workspace / name).parent.mkdir(parents=True, exist_ok=True)
        (workspace / name).write_text("x")
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
    assert covers["uncovered"] == [command_inputs.NOT_LOOKED_AT]
    assert "outside the workspace" in command_inputs.NOT_LOOKED_AT
    assert "what git keeps besides settings, hooks and branches" in command_inputs.NOT_LOOKED_AT


def test_a_workspace_too_large_to_be_bound_says_so(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=capability.probe(), limits=Limits(snapshot_files=3))
    fill(desk)
    first, *_ = desk.judge("run_command", command="make test").view["covers"]["uncovered"]
    assert "more than 3 files" in first


def test_more_installed_files_than_are_looked_at_are_said_not_to_be_covered(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_inputs, "MOST_INSTALLED", 1)
    fill(desk)
    first, *_ = desk.judge("run_command", command="make test").view["covers"]["uncovered"]
    assert first == "installed packages and caches: more than 1 files"


def test_a_call_that_nobody_is_asked_about_costs_no_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command_inputs, "look", lambda workspace: pytest.fail("looked"))
    desk = Desk(tmp_path, [AccessRule(Access.ALLOW, operation="execute")], level=capability.probe(), matrix=())
    assert desk.judge("run_command", command="true").access is Access.ALLOW
    assert desk.shell("true").ok


def test_many_changed_files_are_counted(desk: Desk) -> None:
    workspace = fill(desk)
    desk.judge("run_command", command="make test")
    for number in range(15):
        (workspace / f"more-{number:02}.txt").write_text("x")
    assert "and 5 more" in is_refused(desk, "make test").error


def test_scripts_are_bound_where_the_workspace_is_too_large(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.ASK)], level=capability.probe(), limits=Limits(snapshot_files=3))
    names = ("one.sh", "same.sh", "two.sh", "data.txt")
    for name in names:
        (desk.workspace / name).write_text("echo approved\n")
    command = "; ".join(f"bash {name}" for name in names[:3])
    desk.judge("run_command", command=command)
    for name in ("one.sh", "two.sh"):
        (desk.workspace / name).write_text("echo evil\n")
    assert "changed since it was approved: one.sh, two.sh;" in desk.shell(command).error

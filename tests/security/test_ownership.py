"""Whose a file is stays so, whatever a worker that is root does in a folder of people (SPEC I7)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from loops.tools.sandbox import capability
from loops.tools.sandbox.namespaces.user import OUTSIDE_UID
from loops.workspaces import permissions
from tests.unit.tools.harness import Desk

ALICE = 61_001
pytestmark = [
    pytest.mark.spec("I7"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root could give files away"),
]


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ao-owner-", dir="/tmp") as made:
        yield Path(made)


@pytest.fixture
def alices(folder: Path) -> Desk:
    """A workspace that is used in place, with a file that is also called something else elsewhere."""
    desk = Desk(folder, level=capability.probe(), made=False)
    (desk.workspace / "sub").mkdir()
    for name in ("notes.md", "sub/code.py", "twice"):
        (desk.workspace / name).write_text("hers\n")
    os.link(desk.workspace / "twice", folder / "elsewhere")
    for path in (desk.workspace, *desk.workspace.rglob("*")):
        os.chown(path, ALICE, ALICE, follow_symlinks=False)
    return desk


def owners(folder: Path) -> dict[str, tuple[int, int, int, int]]:
    paths = (folder, *folder.rglob("*"))
    found = {str(path.relative_to(folder)): path.lstat() for path in paths}
    return {name: (at.st_uid, at.st_gid, at.st_mode, at.st_nlink) for name, at in found.items()}


def test_a_command_in_a_folder_of_somebody_else_gives_nothing_away(alices: Desk, folder: Path) -> None:
    before = owners(folder)
    assert alices.shell("cat notes.md").ok
    assert owners(folder) == before


def test_a_file_tool_leaves_a_file_to_whoever_has_it(alices: Desk, folder: Path) -> None:
    assert alices.run("write_file", path="notes.md", content="changed").ok
    assert alices.run("write_file", path="new/file.md", content="new").ok
    found = owners(alices.workspace)
    assert {uid for uid, *_ in found.values()} == {ALICE}
    assert owners(folder)["elsewhere"][3] == 2


def test_what_has_another_name_is_never_given_away(folder: Path) -> None:
    """Not even in a folder that AgentOps made: the other name may be one of the system's."""
    desk = Desk(folder, level=capability.probe())
    outside = folder / "outside"
    outside.write_text("of root")
    os.link(outside, desk.workspace / "inside")
    (desk.workspace / "own").write_text("made by the copy")
    assert desk.shell("true").ok
    assert outside.stat().st_uid == 0
    assert (desk.workspace / "own").stat().st_uid == OUTSIDE_UID


def test_a_folder_in_which_commands_may_not_write_is_said_with_what_lets_them(alices: Desk) -> None:
    said = permissions.why_no_access_for_commands(alices.workspace)
    assert f"may not write in {alices.workspace}" in said
    assert f"setfacl -R -m u:{OUTSIDE_UID}:rwX" in said
    alices.workspace.chmod(0o777)
    assert permissions.why_no_access_for_commands(alices.workspace) == ""
    assert alices.shell("touch made && rm made").ok

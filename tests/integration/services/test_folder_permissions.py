"""A folder that AgentOps may not use is said with what would let it in: before a run, and never left out of a copy."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentops.embedded.process import nobody
from agentops.embedded.root.user_access import User, _asked_as
from loops.models import Project, Run, Workspace
from loops.workspaces import copies, folder_copy, permissions

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can ask as somebody else")


def asked(question: Callable[[], str]) -> str:
    """What a process of `nobody` answers."""
    return _asked_as(User("nobody", *nobody()), question)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ao-rights-", dir="/tmp") as made:
        Path(made).chmod(0o755)
        (Path(made) / "shop/src").mkdir(parents=True)
        (Path(made) / "shop/src/code.py").write_text("1")
        yield Path(made) / "shop"


@as_root
@pytest.mark.spec("I7")
def test_what_may_be_read_may_be_copied_and_to_be_changed_it_must_be_writable(folder: Path) -> None:
    assert asked(lambda: permissions.why_no_access(folder, change=False)) == ""
    assert asked(lambda: permissions.why_no_access(folder, change=True)) == (
        f"AgentOps runs as nobody, who may not write in {folder}: `chown -R nobody {folder}` lets them, and so does "
        f"`setfacl -R -m u:nobody:rwX,d:u:nobody:rwX {folder}` where it stays somebody else's."
    )
    os.chown(folder, *nobody())
    assert asked(lambda: permissions.why_no_access(folder, change=True)) == ""
    os.chown(folder, 0, 0)
    folder.chmod(0o700)
    assert f"may not read {folder}: `chown -R nobody {folder}`" in asked(
        lambda: permissions.why_no_access(folder, change=False)
    )


@as_root
@pytest.mark.spec("I7")
def test_a_folder_above_that_lets_nobody_pass_is_named(folder: Path) -> None:
    folder.parent.chmod(0o700)
    assert asked(lambda: permissions.why_no_access(folder, change=False)) == (
        f"AgentOps runs as nobody, who may not enter {folder.parent}, where {folder} lies: "
        f"`setfacl -m u:nobody:x {folder.parent}` lets them pass."
    )


def test_a_folder_that_is_not_here_lacks_nothing(folder: Path) -> None:
    assert permissions.why_no_access(folder / "elsewhere", change=True) == ""
    assert permissions.why_no_access(folder, change=True) == ""


@as_root
@pytest.mark.spec("X5")
@pytest.mark.parametrize("closed", ["src", "src/code.py"])
def test_what_cannot_be_read_is_never_left_out_of_a_copy(folder: Path, closed: str) -> None:
    (folder.parent / "copy").mkdir(mode=0o777)
    (folder.parent / "copy").chmod(0o777)
    (folder / closed).chmod(0o600)

    def copied() -> str:
        try:
            folder_copy.Copy(folder, folder.parent / "copy").run()
        except folder_copy.WorkspaceUnusable as error:
            return str(error)
        return "copied"

    assert f"may not read {Path(closed).name} in {folder}: " in asked(copied)


@pytest.fixture
def closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """To the eyes of this process, which may be root's."""
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: real(path, mode) and not (str(path) == str(folder) and mode & os.W_OK)
    )
    return folder


@pytest.mark.django_db
@pytest.mark.spec("I7", "X5")
def test_a_run_in_such_a_folder_ends_with_that_sentence(closed: Path) -> None:
    workspace = Workspace(name="Shop", path=str(closed), copy_for_each_run=False, project=Project(slug="p"))
    with pytest.raises(folder_copy.WorkspaceUnusable, match="who may not write in"):
        copies.existing(workspace, Run())

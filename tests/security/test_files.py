"""File tools cannot leave the workspace, hang, or write what people's tools obey (SPEC I7; attack list C and row 19).

Each wall has a control: with the wall taken down the same attack succeeds, so the test can fail.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from loops.engine.values import Access, FailureKind
from loops.tools.execution import explain
from loops.tools.fence import Fence
from loops.tools.limits import ON_SIGHT, PROTECTED, Limits
from loops.tools.sandbox import safe_paths
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.workspace import Workspace
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I7")
SECRET = "the secret outside"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(tmp_path)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    (tmp_path / "ws-1-evil").mkdir()
    (tmp_path / "ws-1-evil" / "secret.txt").write_text(SECRET)
    return desk


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _refused(desk: Desk, path: str) -> None:
    """Denied by the judgement, refused by the execution, for reading and for writing."""
    for name, more in (("read_file", {}), ("write_file", {"content": "x"}), ("delete_file", {}), ("list_files", {})):
        assert desk.judge(name, path=path, **more).access is Access.DENY, name
        result = desk.run(name, path=path, **more)
        assert not result.ok, name
        assert SECRET not in result.content


@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "a/../../outside/secret.txt",
        "../ws-1-evil/secret.txt",
        "/etc/passwd",
        "/workspace/../outside/secret.txt",
        "/workspaces",
        "~/.ssh/id_rsa",
        "~root/x",
        "file:///etc/passwd",
        "http://example.org/x",
        "a\0b",
        "a\nb",
        "a" * 5_000,
        "b" * 300,
        "\ud800",
        "",
    ],
)
def test_paths_that_are_not_inside(desk: Desk, path: str) -> None:
    """Rows 23 and 26."""
    _refused(desk, path)


def test_links_that_leave(desk: Desk) -> None:
    """Row 24: a link, a chain of links, a linked folder, a magic link of /proc."""
    ws = desk.workspace
    (ws / "link").symlink_to("../outside/secret.txt")
    (ws / "two").symlink_to("link")
    (ws / "folder").symlink_to("../outside")
    (ws / "absolute").symlink_to(ws.parent / "outside")
    (ws / "proc").symlink_to("/proc/self/root")
    (ws / "inside").mkdir()
    (ws / "loop").symlink_to("loop")
    for path in ("link", "two", "folder/secret.txt", "absolute/secret.txt", "proc/etc/passwd", "loop"):
        assert desk.judge("read_file", path=path).access is Access.DENY, path
        result = desk.run("read_file", path=path)
        assert (result.ok, result.kind) == (False, FailureKind.CRITICAL), path
        assert not desk.run("write_file", path=path, content="x").ok
    assert not desk.run("write_file", path="folder/new.txt", content="x").ok
    assert not desk.run("move_file", path="link", target="inside/y").ok
    assert not desk.run("make_directory", path="folder/new").ok
    assert _names(ws.parent / "outside") == ["secret.txt"]
    assert (ws.parent / "outside" / "secret.txt").read_text() == SECRET
    assert SECRET not in desk.run("search_files", pattern="secret").content


def test_control_the_same_links_lead_out_when_the_kernel_is_not_asked(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    (desk.workspace / "link").symlink_to("../outside/secret.txt")
    (desk.workspace / "folder").symlink_to("../outside")
    monkeypatch.setattr(SafeDirectory.opened.__wrapped__, "__kwdefaults__", {"resolve": 0})  # type: ignore[attr-defined]
    assert desk.run("read_file", path="link").content == SECRET
    assert desk.run("write_file", path="folder/new.txt", content="x").ok
    assert (desk.workspace.parent / "outside" / "new.txt").exists()


def test_links_that_stay_are_followed(desk: Desk) -> None:
    (desk.workspace / "real").mkdir()
    (desk.workspace / "real" / "a.txt").write_text("inside")
    (desk.workspace / "link").symlink_to("real")
    assert desk.run("read_file", path="link/a.txt").content == "inside"


@contextmanager
def _swapping(workspace: Path) -> Iterator[None]:
    """Turn ``d`` into a folder and into a link to the outside, as fast as possible."""
    (workspace / "d").mkdir()
    (workspace / "d" / "secret.txt").write_text("harmless")
    (workspace / "link").symlink_to("../outside")
    stop = threading.Event()

    def swap() -> None:
        libc = safe_paths._libc
        while not stop.is_set():  # RENAME_EXCHANGE: at every moment there is one or the other
            libc.renameat2(-100, os.fsencode(workspace / "d"), -100, os.fsencode(workspace / "link"), 2)

    threads = [threading.Thread(target=swap) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _race(workspace: Path, reads: int, resolve: int) -> tuple[int, int]:
    """(reads that reached the secret, reads that reached the harmless file)."""
    escaped = harmless = 0
    with SafeDirectory(str(workspace)) as root, _swapping(workspace):
        for _ in range(reads):
            with suppress(OSError, PathRefused), root.opened("d/secret.txt", os.O_RDONLY, resolve=resolve) as file:
                text = os.read(file, 100)
                escaped += text == SECRET.encode()
                harmless += text == b"harmless"
    return escaped, harmless


def test_a_racing_link_never_wins(desk: Desk) -> None:
    """Row 25."""
    escaped, harmless = _race(desk.workspace, 100_000, safe_paths.GUARDED)
    assert escaped == 0
    assert harmless > 0


def test_control_a_racing_link_wins_without_the_flags(desk: Desk) -> None:
    escaped, harmless = _race(desk.workspace, 20_000, 0)
    assert escaped > 0
    assert harmless > 0


def test_racing_writes_stay_inside(desk: Desk) -> None:
    with _swapping(desk.workspace):
        for number in range(300):
            desk.run("write_file", path=f"d/new{number}.txt", content="x")
    assert _names(desk.workspace.parent / "outside") == ["secret.txt"]


def test_only_regular_files_are_read(desk: Desk) -> None:
    """Row 28: refused, and none of them hangs."""
    ws = desk.workspace
    os.mkfifo(ws / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(ws / "s"))
    if os.geteuid() == 0:
        os.mknod(ws / "device", 0o020666, os.makedev(1, 5))
    (ws / "folder").mkdir()
    for path in ("fifo", "s", "folder", *(["device"] if os.geteuid() == 0 else [])):
        assert not desk.run("read_file", path=path).ok, path
        assert not desk.run("write_file", path=path, content="x").ok, path
        desk.judge("write_file", path=path, content="x")
    assert not [hit for hit in desk.run("search_files", pattern=".").content.split("\n") if "fifo" in hit]
    server.close()


def test_a_file_with_other_names_is_not_written(desk: Desk) -> None:
    (desk.workspace / "a").write_text("one")
    os.link(desk.workspace / "a", desk.workspace.parent / "outside" / "also-a")
    result = desk.run("write_file", path="a", content="two")
    assert "hard links" in result.error
    assert (desk.workspace.parent / "outside" / "also-a").read_text() == "one"


@pytest.mark.parametrize(
    "path",
    [
        *PROTECTED,
        *ON_SIGHT,
        ".git/hooks/pre-commit",
        ".git/config",
        ".GIT/hooks/x",
        "agents.md",
        "lib/AGENTS.md",
        ".claude/settings.json",
        "./.mcp.json",
        "/workspace/.mcp.json",
    ],
)
def test_what_steers_agents_is_never_written(desk: Desk, path: str) -> None:
    """Row 19: also when it does not exist yet."""
    assert desk.judge("write_file", path=path, content="x").access is Access.DENY
    assert not desk.run("write_file", path=path, content="x").ok
    assert not desk.run("make_directory", path=path).ok
    (desk.workspace / "mine").write_text("x")
    assert not desk.run("move_file", path="mine", target=path).ok


def test_protection_is_not_passed_by_a_link_or_a_move_of_the_parent(desk: Desk) -> None:
    (desk.workspace / ".git" / "hooks").mkdir(parents=True)
    (desk.workspace / "alias").symlink_to(".git")
    assert not desk.run("write_file", path="alias/hooks/pre-commit", content="x").ok
    assert desk.judge("write_file", path="alias/hooks/pre-commit", content="x").access is Access.DENY
    assert not desk.run("move_file", path=".git", target="elsewhere").ok
    assert not desk.run("delete_file", path=".git/hooks").ok


def test_control_without_the_list_the_same_write_succeeds(tmp_path: Path) -> None:
    desk = Desk(tmp_path, limits=Limits(protected=()))
    assert desk.run("write_file", path="AGENTS.md", content="x").ok


def test_quota_of_bytes_and_of_files(tmp_path: Path) -> None:
    """Row 29: a sparse file counts with its full size."""
    desk = Desk(tmp_path, limits=Limits(workspace_bytes=1_000_000, workspace_files=50, file_bytes=600_000))
    assert "limit of 600000" in desk.run("write_file", path="big", content="x" * 600_001).error
    with (desk.workspace / "sparse").open("wb") as file:
        file.truncate(5 << 30)
    assert "quota reached" in desk.run("write_file", path="a", content="x").error
    assert "the limit is 600000" in desk.run("read_file", path="sparse").error


def test_many_small_files(tmp_path: Path) -> None:
    desk = Desk(tmp_path, limits=Limits(workspace_files=50))
    results = [desk.run("write_file", path=f"f{number}", content="x") for number in range(60)]
    assert sum(result.ok for result in results) == 50
    assert "quota reached" in results[-1].error


def test_a_very_deep_tree_is_not_a_hiding_place(tmp_path: Path) -> None:
    desk = Desk(tmp_path)
    here = os.open(desk.workspace, os.O_RDONLY)
    for _ in range(150):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)
    assert desk.run("list_files").ok
    assert "quota reached" in desk.run("write_file", path="a", content="x").error


def test_a_failed_write_leaves_the_old_file_and_nothing_else(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    (desk.workspace / "a").write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", fail)
    result = desk.run("write_file", path="a", content="new")
    assert result.error == "No space left on device: a"
    assert _names(desk.workspace) == ["a"]
    assert (desk.workspace / "a").read_text() == "old"


@dataclass(frozen=True)
class Intruder(Fence):
    """Somebody else puts a folder where the file should go, in the last moment before it goes there."""

    folder: Path = Path()

    @contextmanager
    def armed(self) -> Iterator[None]:
        self.folder.mkdir(exist_ok=True)
        yield


@pytest.mark.spec("F1")
def test_the_same_failed_write_always_reads_the_same(tmp_path: Path) -> None:
    """Or a circle of them would look like progress."""
    said = []
    for _ in range(2):
        with Workspace(str(tmp_path), Limits(), fence=Intruder(folder=tmp_path / "a")) as workspace:
            with pytest.raises(IsADirectoryError) as failed:
                workspace.write("a", b"x")
            said.append(explain(failed.value, "write_file").error)
        (tmp_path / "a").rmdir()
    assert said == ["Is a directory: a"] * 2
    assert _names(tmp_path) == []

"""The folder of a workspace is another one by the time a command begins: it reaches nothing but what was opened
(SPEC I7). Somebody who may write beside the folder swaps it for a link while commands start in it, at both levels.

``RACES=2000`` tries as many commands as `make attacks` does.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from loops.tools.sandbox import runner
from loops.tools.sandbox.capability import CONFINED, FULL, SandboxLevel
from loops.tools.sandbox.command import environment
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from tests.unit.tools.harness import Desk, reachable

pytestmark = pytest.mark.spec("I7")
RACES = int(os.environ.get("RACES", "60"))
SECRET, OWN = "secret of the installation", "of the workspace"
LEVELS = [SandboxLevel(FULL, "bubblewrap"), SandboxLevel(CONFINED, "landlock")]
READS = "cat file; cat .git/hooks/file .venv/file; echo written > left"
# Waits between two swaps, about as long as a start takes; RENAME_EXCHANGE leaves no moment without either.
SWAPS = """
import ctypes, os, random, sys, time
libc, one, other = ctypes.CDLL(None), *map(os.fsencode, sys.argv[1:])
print("swaps", flush=True)
while os.getppid() != 1:
    libc.renameat2(-100, one, -100, other, 2)
    time.sleep(random.random() * 0.02)
"""


@pytest.fixture(params=LEVELS, ids=lambda level: level.name)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    made = Desk(reachable(tmp_path), level=request.param, made=False)
    filled(made.workspace, OWN)
    outside = tmp_path / "outside"
    outside.mkdir()
    filled(outside, SECRET)
    return made


def filled(folder: Path, text: str) -> None:
    for place in (folder, folder / ".git/hooks", folder / ".venv"):
        place.mkdir(parents=True, exist_ok=True)
        (place / "file").write_text(text)
        for name in (place, place / "file"):
            name.chmod(0o777)
    (folder / ".git").chmod(0o777)


@contextmanager
def swapped(one: Path, other: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, "-c", SWAPS, str(one), str(other)], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"swaps\n"
            yield
        finally:
            process.kill()


def said(desk: Desk) -> str:
    result = desk.shell(READS)
    return result.content + result.error + str(result.data)


@pytest.mark.parametrize("part", [".", ".git/hooks", ".venv"])
def test_a_folder_that_is_swapped_for_a_link_lets_nothing_out(desk: Desk, tmp_path: Path, part: str) -> None:
    outside, link = tmp_path / "outside", tmp_path / "link"
    link.symlink_to(outside / part)
    place = desk.workspace / part
    with swapped(place, link):
        for _ in range(RACES if part == "." else RACES // 3):
            assert SECRET not in said(desk)
            assert not (outside / "left").exists()
    if place.is_symlink():
        place.unlink()
        link.rename(place)
    assert OWN in said(desk), "what is at its place again is worked in"


def test_a_folder_that_is_swapped_at_the_last_moment_is_not_reached(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same race at the one moment that counts, after the folder was looked at and before it is mounted."""

    def swap_before(extra: Mapping[str, str]) -> dict[str, str]:
        desk.workspace.rename(tmp_path / "before")
        desk.workspace.symlink_to(tmp_path / "outside")
        return environment(extra)

    monkeypatch.setattr(runner, "environment", swap_before)
    heard = said(desk)
    assert SECRET not in heard
    assert "replaced" in heard
    assert not (tmp_path / "outside/left").exists()


def test_ordinary_work_goes_on_in_a_folder_that_stays(desk: Desk) -> None:
    result = desk.shell("cat file && echo more >> file && mkdir -p a/b && cd a/b && echo x > y", directory=".")
    assert result.ok, result.error
    assert (desk.workspace / "file").read_text() == f"{OWN}more\n"
    assert desk.run("run_command", command="cat y", directory="a/b").content.splitlines()[-1:] == ["x"]


def test_a_command_holds_none_of_our_descriptors(desk: Desk) -> None:
    """By one of a folder it could reach what lies above."""
    result = desk.shell("ls -l /proc/self/fd | grep -c -e workspace -e ws-1 -e outside")
    assert result.content.strip().splitlines()[-1:] == ["0"] or not result.ok


def test_a_folder_that_is_not_at_its_place_any_more_is_refused(tmp_path: Path) -> None:
    (tmp_path / "ws").mkdir()
    with SafeDirectory(str(tmp_path / "ws")) as opened:
        opened.check_place()
        (tmp_path / "ws").rename(tmp_path / "before")
        with pytest.raises(PathRefused, match="was replaced"):
            opened.check_place()
        (tmp_path / "ws").symlink_to(tmp_path / "before")
        with pytest.raises(PathRefused, match="was replaced"):
            opened.check_place()

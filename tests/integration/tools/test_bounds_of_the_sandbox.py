"""Each ceiling of the sandbox, met by a real command: what the model and people read of it (SPEC X5, I7)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from loops.engine.values import ToolResult
from loops.engine.verification.environment import obstacle
from loops.tools.limits import MIB, Limits
from loops.tools.sandbox import capability
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("X5", "I7")
THREADS = "import threading, time\nfor _ in range(60): threading.Thread(target=time.sleep, args=(20,)).start()"
HUNGRY = "import time\nkept = [b'x' * 2**20 for _ in range(200)]\ntime.sleep(60)"


def shell(folder: Path, command: str, **limits: Any) -> ToolResult:
    assert capability.probe().level == capability.FULL, capability.probe().warning
    return Desk(folder, level=capability.probe(), limits=Limits(**limits)).shell(command)


def python(code: str) -> str:
    return f'python3 -c "{code}"'


CEILINGS: list[tuple[str, dict[str, Any], str]] = [
    (python("kept = [open('/dev/null') for _ in range(100)]"), {"open_files": 64}, "64 open files for each process"),
    (python(THREADS), {"processes": 33}, "33 processes and threads at a time"),
    (python("bytearray(2**29)"), {"address_space_bytes": 256 * MIB}, "256 MiB of address space for each process"),
    ("head -c 5000000 /dev/zero > $TMPDIR/x", {"tmp_bytes": 2 * MIB}, "2 MiB in $TMPDIR"),
    (python("while True: pass"), {"cpu_s": 1}, "processor time used up"),
    ("head -c 5000000 /dev/zero > x", {"largest_file_bytes": 2 * MIB}, "file too large"),
]


@pytest.mark.parametrize(("command", "limits", "said"), CEILINGS)
def test_a_command_that_meets_a_ceiling_says_which(
    tmp_path: Path, command: str, limits: dict[str, Any], said: str
) -> None:
    result = shell(tmp_path, command, **limits)
    assert not result.ok
    assert said in result.content


STOPS: list[tuple[str, dict[str, Any], str]] = [
    ("yes | head -c 3000000; sleep 60", {"kept_bytes": MIB}, "stopped: more than 1048576 bytes of output"),
    (python(HUNGRY), {"memory_bytes": 64 * MIB}, "bytes of memory, the limit is 67108864"),
    ("head -c 3000000 /dev/zero > x; sleep 60", {"workspace_bytes": MIB}, "its quota is 1048576"),
    ("touch $(seq 50); sleep 60", {"workspace_files": 20}, "the workspace has more than 20 files"),
]


@pytest.mark.parametrize(("command", "limits", "said"), STOPS)
def test_a_command_that_is_stopped_says_why(tmp_path: Path, command: str, limits: dict[str, Any], said: str) -> None:
    result = shell(tmp_path, command, **limits)
    assert result.exit_code == -1
    assert said in result.error
    assert said in result.content


def test_a_command_that_fails_for_itself_blames_no_ceiling(tmp_path: Path) -> None:
    assert "the sandbox gives" not in shell(tmp_path, "echo no such thing >&2; exit 3").content
    good = shell(tmp_path, "echo Too many open files")
    assert good.ok
    assert "the sandbox gives" not in good.content


SAYS_FULL = "echo 'OSError: [Errno 28] No space left on device' >&2; exit 1"


def test_a_person_is_asked_about_a_disk_that_is_full_and_not_about_its_words(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", megabytes=8) as disk:
        desk = Desk(disk, level=capability.probe(), limits=Limits(disk_reserve_bytes=MIB))
        said = obstacle(desk.shell(SAYS_FULL))
        found = obstacle(desk.shell("head -c 20000000 /dev/zero > x"))
        (desk.workspace / "x").unlink()
        again = desk.shell("head -c 2000000 /dev/zero > x")
    assert said is None, "the words stand in what a test prints"
    assert found is not None
    assert (found.code, found.todo) == ("disk_full", "Make room on the disk of the workspace.")
    assert again.ok


def test_a_disk_counts_as_full_where_less_than_its_reserve_is_left(tmp_path: Path) -> None:
    assert obstacle(shell(tmp_path, SAYS_FULL, disk_reserve_bytes=0)) is None
    assert obstacle(shell(tmp_path, SAYS_FULL, disk_reserve_bytes=1 << 60)) is not None
    assert obstacle(shell(tmp_path, "exit 1", disk_reserve_bytes=1 << 60)) is None


@contextmanager
def small_disk(place: Path, *, megabytes: int) -> Iterator[Path]:
    place.mkdir()
    options = ["-t", "tmpfs", "-o", f"size={megabytes}m,mode=755"]
    if subprocess.run(["mount", *options, "tmpfs", place], check=False, capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)


def test_tests_that_may_have_run_unseen_are_said(tmp_path: Path) -> None:
    result = shell(tmp_path, "bash -c 'bash -c \"bash -c bash\\ -c\\ pytest\"'")
    said = "[not counted: tests that this command may run in what is in more than 3 shells within one another]"
    assert result.content.split("\n")[1] == said
    assert "not counted" not in shell(tmp_path, "bash -c 'echo hello'").content


def test_documents_that_a_command_names_beyond_the_bound_are_said(tmp_path: Path) -> None:
    names = " ".join(f"--junitxml=r{number}.xml" for number in range(19))
    result = shell(tmp_path, f"pytest --version {names}")
    assert "[not counted: 3 of the documents that the command names]" in result.content

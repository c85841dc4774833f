"""Part of every run of `make clock`: its clock is moved indeed, for every process, and waits last as long as ever.

The machine's real time is reckoned from what the kernel says of its start.
"""

from __future__ import annotations

import ctypes
import importlib.util
import multiprocessing
import os
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.clock.offset import Offset

NEAR_S = 20.0
"""Of a busy machine."""
CLOCK = "import time; print(time.time())"


def wanted() -> float:
    """What every clock has to say now."""
    booted = re.search(r"^btime (\d+)$", Path("/proc/stat").read_text(), re.MULTILINE)
    assert booted is not None
    up = float(Path("/proc/uptime").read_text().split()[0])
    return int(booted[1]) + up + Offset.of_this_run().read() / 1e9


def is_moved(says: float) -> bool:
    return abs(says - wanted()) < NEAR_S


def test_this_process_is_moved() -> None:
    assert is_moved(time.time())


@pytest.mark.parametrize(
    "ask",
    [
        lambda: subprocess.check_output([sys.executable, "-c", CLOCK], env={}),
        lambda: subprocess.check_output([sys.executable, "-c", CLOCK], cwd="/", preexec_fn=os.setsid),
        lambda: subprocess.check_output(["/usr/bin/env", "-i", "/bin/sh", "-c", "date +%s"]),
        lambda: subprocess.check_output([sys.executable, "-c", "import os; os.system('date +%s')"]),
    ],
    ids=["without an environment", "with ours", "of a child of another program", "of the library's own"],
)
def test_a_child_is_moved(ask: Callable[[], bytes]) -> None:
    assert is_moved(float(ask()))


def test_the_servers_are_moved(db: None) -> None:
    from django.conf import settings
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT extract(epoch FROM clock_timestamp())")
        assert is_moved(float(cursor.fetchone()[0]))
    with redis.Redis.from_url(settings.REDIS_URL) as broker:
        seconds, _ = broker.time()  # type: ignore[misc]
        assert is_moved(float(seconds))


def test_the_site_is_moved(live_site: str) -> None:
    with urllib.request.urlopen(f"{live_site}/login/") as answer:
        page, date = answer.read(), answer.headers["Date"]
    expires = [header for name, header in answer.headers.items() if name == "Set-Cookie"]
    assert page
    said = date or re.search(r"expires=([^;]+)", expires[0])[1]  # type: ignore[index]
    later = 0 if date else 31_449_600
    assert is_moved(parsedate_to_datetime(said).timestamp() - later)


def test_nobody_sees_how() -> None:
    assert "LD_PRELOAD" not in os.environ
    for look in (["env"], ["cat", "/proc/self/environ"], ["sh", "-c", "cat /proc/$$/environ"]):
        assert b"LD_PRELOAD" not in subprocess.check_output(look, env={"PATH": os.environ["PATH"]})


def test_a_file_that_is_made_now_looks_made_now(tmp_path: Path) -> None:
    file = tmp_path / "made"
    file.touch()
    status = file.stat()
    assert is_moved(status.st_mtime)
    assert is_moved(status.st_ctime)
    said = subprocess.check_output(["/usr/bin/stat", "-c", "%Y", file])
    assert is_moved(float(said))


def test_a_time_that_a_file_is_given_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "old"
    file.touch()
    moment = time.time_ns() - 3 * 86_400 * 10**9 - 123_456_789
    os.utime(file, ns=(0, moment))
    assert (file.stat().st_atime_ns, file.stat().st_mtime_ns) == (0, moment)


def test_a_file_of_before_keeps_its_time() -> None:
    """Else every compiled module would be stale."""
    compiled = Path(importlib.util.cache_from_source(os.__file__)).read_bytes()
    assert int.from_bytes(compiled[8:12], "little") == int(Path(os.__file__).stat().st_mtime)


WAITS: dict[str, Callable[[], Any]] = {
    "sleep": lambda: time.sleep(0.3),
    "condition": lambda: _wait(threading.Condition()),
    "lock": lambda: _locked().acquire(timeout=0.3),
    "semaphore of the day": lambda: multiprocessing.Semaphore(0).acquire(timeout=0.3),
    "deadline of the day": lambda: _sleep_until(time.time() + 0.3),
}


@pytest.mark.parametrize("wait", WAITS)
def test_a_wait_lasts_as_long_as_ever(wait: str) -> None:
    began = time.monotonic()
    WAITS[wait]()
    assert 0.29 < time.monotonic() - began < NEAR_S


def _wait(condition: threading.Condition) -> None:
    with condition:
        condition.wait(0.3)


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class _Timespec(ctypes.Structure):
    _fields_ = [("seconds", ctypes.c_long), ("ns", ctypes.c_long)]


def _sleep_until(moment: float) -> None:
    until = _Timespec(int(moment), int(moment % 1 * 1e9))
    ctypes.CDLL(None).clock_nanosleep(time.CLOCK_REALTIME, 1, ctypes.byref(until), None)

"""The points themselves: off they do nothing, armed they end the process at the named time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from loops.crash_points import CrashPoint, moments, reach

pytestmark = pytest.mark.spec("A4")
PASS_TWICE = (
    "from loops.crash_points import *; p = CrashPoint.AFTER_INTENT; reach(p); print('one', flush=True); reach(p)"
)


def passed(at: str) -> tuple[int, str]:
    child = subprocess.run(
        [sys.executable, "-c", PASS_TWICE], env=os.environ | {"AGENTOPS_CRASH_AT": at}, capture_output=True, text=True
    )
    return child.returncode, child.stdout.strip()


def test_nothing_happens_unless_a_point_is_armed() -> None:
    for point in CrashPoint:
        reach(point)
    assert moments(["PhaseEntered", "ToolIntended", "ToolCompleted"]).inside == ()
    assert len(CrashPoint) == 20


@pytest.mark.parametrize(
    ("at", "ends"),
    [
        ("AFTER_INTENT", (-signal.SIGKILL, "")),
        ("AFTER_INTENT:2", (-signal.SIGKILL, "one")),
        ("AFTER_INTENT:2:SIGTERM", (-signal.SIGTERM, "one")),
        ("AFTER_INTENT:3", (0, "one")),
        ("BEFORE_INTENT", (0, "one")),
    ],
)
def test_an_armed_point_ends_the_process_at_its_turn(at: str, ends: tuple[int, str]) -> None:
    assert passed(at) == ends


def test_a_point_that_does_not_exist_is_refused() -> None:
    assert passed("NOWHERE")[0] == 1

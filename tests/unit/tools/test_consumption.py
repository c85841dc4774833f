"""When a command is ended for what nobody can see: only when the disk misses it, and only who may hold it (SPEC I7)."""

from __future__ import annotations

import pytest

from loops.tools.limits import GIB, MIB, Limits
from loops.tools.sandbox.usage.consumption import Used, out_of_sight

pytestmark = pytest.mark.spec("I7")
LIMITS = Limits()
QUOTAS = LIMITS.workspace_bytes + LIMITS.tmp_bytes
PLAIN, MAPS, SENDS = Used(), Used(only_mapped=True), Used(sockets=True)
ROOMY, NEARLY_FULL = 500 * GIB, 100 * MIB


@pytest.mark.parametrize(
    ("used", "lost", "free"),
    [
        pytest.param(MAPS, QUOTAS + 1, ROOMY, id="maps what has no name"),
        pytest.param(SENDS, QUOTAS + 1, NEARLY_FULL, id="may send it, and the disk is nearly full"),
    ],
)
def test_a_command_that_may_hold_what_the_disk_misses_is_ended(used: Used, lost: int, free: int) -> None:
    assert f"the disk lost {lost} bytes" in out_of_sight(used, {1: free + lost}, {1: free}, LIMITS)


@pytest.mark.parametrize(
    ("used", "lost", "free"),
    [
        pytest.param(PLAIN, 400 * GIB, NEARLY_FULL, id="a neighbour filled the disk"),
        pytest.param(SENDS, 400 * GIB, ROOMY, id="a neighbour writes beside a program with sockets"),
        pytest.param(MAPS, QUOTAS, NEARLY_FULL, id="a library was replaced, and the workspace grew as far as it may"),
        pytest.param(SENDS, -GIB, NEARLY_FULL, id="somebody made room"),
    ],
)
def test_ordinary_work_is_not(used: Used, lost: int, free: int) -> None:
    assert out_of_sight(used, {1: free + lost}, {1: free}, LIMITS) == ""


def test_each_disk_that_a_command_may_write_to_counts() -> None:
    """Its workspace and its temporary folder: what the one gained does not hide what the other lost."""
    before = {1: ROOMY, 2: ROOMY}
    assert out_of_sight(MAPS, before, {1: ROOMY + GIB, 2: ROOMY - QUOTAS - 1}, LIMITS)
    assert out_of_sight(SENDS, before, {1: ROOMY, 2: NEARLY_FULL}, LIMITS)

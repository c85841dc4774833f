"""The short form of ``make faults``: every promise under a few real faults, each on a stand of its own processes."""

from __future__ import annotations

import subprocess
import time

import pytest

from tests.faults import groups, lean
from tests.faults.__main__ import SUITE
from tests.faults.outcome import Found, Outcome, TimedOut, first_harm

SPEC = {
    "P1": ["A4", "J4"],
    "P2": ["J2"],
    "P3": ["J2"],
    "P4": ["J3"],
    "P5": ["J2", "J3"],
    "P6": ["J4"],
    "P7": ["J4"],
    "P8": ["J3"],
    "P9": ["J6"],
    "P12": ["J5"],
    "P13": ["O2"],
    "P16": ["K1", "I8"],
    "P19": ["J3"],
    "P20": ["J4"],
    "P21": ["J4"],
    "P22": ["J4"],
    "P23": ["J4"],
    "P24": ["J4", "R4", "X3"],
}
PATIENCE_S = 1_180.0


@pytest.mark.xdist_group("faults")  # one process of the suite waits for them
@pytest.mark.timeout(PATIENCE_S + 20)
@pytest.mark.parametrize(
    "promise", [pytest.param(promise, marks=pytest.mark.spec(*rows)) for promise, rows in SPEC.items()]
)
def test_promise_holds_under_faults_and_fails_without_its_guard(promise: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (outcome := groups.outcome(promise)) is None and time.monotonic() < deadline:
        assert not groups.is_over(promise) or groups.outcome(promise), groups.log(promise)
        time.sleep(0.1)
    assert outcome is not None, groups.log(promise)
    assert not outcome["late"], outcome["told"]
    assert outcome["faults"] > 0, outcome["told"]
    assert not outcome["harm"], outcome["told"]
    assert outcome["control"], f"the test proves nothing: with its guard off it did not fail\n{outcome['told']}"


def test_every_promise_of_the_suite_is_in_the_short_form() -> None:
    assert {promise for names in SUITE for promise in names.split()} == set(SPEC)
    assert sorted(promise for group in groups.GROUPS for promise in group) == sorted(SPEC)


def test_a_time_out_proves_nothing() -> None:
    sleeper = subprocess.Popen(["sleep", "600"])
    with pytest.raises(TimedOut):
        lean.wait(sleeper.pid, 0.05)
    sleeper.wait()
    assert Outcome("P1", faults=1, control="it failed").held
    assert not Outcome("P1", faults=1, control="it failed", late="a child").held


def test_a_control_fails_by_the_harm_that_its_guard_keeps_off() -> None:
    late, true = Found(lost=["1: has not ended"]), Found(doubled=["1: charge fee happened 2 times"])
    assert first_harm(lambda: late, "happened", 2) == ""
    assert first_harm(lambda: true, "happened", 2) == "charge fee happened 2 times"

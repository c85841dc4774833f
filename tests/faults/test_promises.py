"""The short form of ``make faults``: every promise under a few real faults, each on a stand of its own processes."""

from __future__ import annotations

import time

import pytest

from tests.faults import groups
from tests.faults.__main__ import SUITE

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
}
PATIENCE_S = 280.0


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
    assert outcome["faults"] > 0, outcome["told"]
    assert not outcome["harm"], outcome["told"]
    assert outcome["control"], f"the test proves nothing: with its guard off it did not fail\n{outcome['told']}"


def test_every_promise_of_the_suite_is_in_the_short_form() -> None:
    assert {promise for names in SUITE for promise in names.split()} == set(SPEC)
    assert sorted(promise for group in groups.GROUPS for promise in group) == sorted(SPEC)

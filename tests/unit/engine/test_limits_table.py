"""One table of limits, and nothing beside it."""

from __future__ import annotations

from dataclasses import fields

import pytest

from gates.policy import payloads
from loops.engine.encoding.codec import from_plain
from loops.engine.ends.reasons import END_REASONS
from loops.engine.measures import limits as guards
from loops.engine.state.limits import DEFAULTS, EXTENDABLE, FIELD_OF, LIMITS, Limits
from loops.engine.state.thresholds import Thresholds
from tests.unit.engine.test_limits import state


@pytest.mark.spec("D1", "D2")
@pytest.mark.parametrize("name", LIMITS)
def test_every_row_is_complete(name: str) -> None:
    row = LIMITS[name]
    assert row.label
    assert row.low <= getattr(DEFAULTS, name) <= row.high <= guards.LARGEST_BOUND
    assert bool(row.shown_as) == (row.scale > 1)
    assert not row.never_at_zero or row.low == 0
    assert not row.extendable or row.unit


@pytest.mark.spec("D1")
def test_every_limit_that_asks_a_person_is_measured_extended_and_ends_runs() -> None:
    assert set(EXTENDABLE) == set(guards.usage(state())) == set(payloads.LIMITS) == set(guards.LABELS)
    assert {guards.REASON_OF[name] for name in EXTENDABLE} == {
        reason.code for reason in END_REASONS if reason.gate == "limit_reached"
    }


@pytest.mark.spec("A3", "F1")
def test_thresholds_of_detectors_that_are_gone_are_read_and_mean_nothing() -> None:
    gone = {"identical_errors": 9, "circles": {"identical_errors": 0, "known_results": 0, "similar_steps": 5}}
    assert from_plain(Limits, gone) == Limits(circles=Thresholds(similar_steps=5))


@pytest.mark.spec("D2")
def test_what_people_may_not_set_has_no_row() -> None:
    others = {one.name for one in fields(Limits)} - set(LIMITS)
    assert others == {
        "max_model_attempts",
        "circles",
        "calls_per_reply",
        "warn_at",
        "max_second_opinions",
        "max_depth",
    }
    assert set(FIELD_OF.values()) == set(LIMITS)

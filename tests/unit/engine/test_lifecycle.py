"""The transition table: complete, reachable, and strict."""

from __future__ import annotations

import itertools

import pytest

from loops.engine import facts as f
from loops.engine.apply import ImpossibleFact, apply
from loops.engine.ends.reasons import END_REASONS
from loops.engine.state.lifecycle import (
    LABELS,
    TABLE,
    TERMINAL,
    Event,
    Phase,
    UndefinedTransition,
    transition,
)
from tests.fakes import World

ENDS = {Event.BUDGET_EXCEEDED: Phase.FAIL, Event.TIMEOUT: Phase.FAIL, Event.ERROR: Phase.FAIL, Event.HALTED: Phase.HALT}
WORKING = [phase for phase in Phase if phase not in TERMINAL]
UNDEFINED = [pair for pair in itertools.product(Phase, Event) if pair not in TABLE]


@pytest.mark.spec("A1")
@pytest.mark.parametrize("phase", WORKING)
def test_every_working_phase_has_its_four_ends(phase: Phase) -> None:
    assert {event: transition(phase, event) for event in ENDS} == ENDS


@pytest.mark.spec("A1")
def test_nothing_leaves_a_terminal_phase() -> None:
    assert not {phase for phase, _ in TABLE} & TERMINAL


@pytest.mark.spec("A1")
def test_every_phase_can_be_reached_and_left_for_commit() -> None:
    arrows = [(phase, after) for (phase, _), after in TABLE.items()]
    assert _reachable(Phase.PLAN, arrows) == set(Phase)
    back = _reachable(Phase.COMMIT, [(after, phase) for phase, after in arrows])
    assert back == {Phase.COMMIT, *WORKING}


def _reachable(start: Phase, arrows: list[tuple[Phase, Phase]]) -> set[Phase]:
    found = {start}
    while new := {after for phase, after in arrows if phase in found} - found:
        found |= new
    return found


@pytest.mark.spec("A1", "C6")
def test_only_verification_leads_to_commit() -> None:
    assert [pair for pair, after in TABLE.items() if after is Phase.COMMIT] == [(Phase.VERIFY, Event.QUALITY_GATE_PASS)]


@pytest.mark.spec("A1")
@pytest.mark.parametrize(("phase", "event"), UNDEFINED)
def test_undefined_pairs_are_errors(phase: Phase, event: Event) -> None:
    with pytest.raises(UndefinedTransition, match=f"{phase}.*{event}"):
        transition(phase, event)


@pytest.mark.spec("A1")
@pytest.mark.parametrize("event", [event for event in Event if (Phase.PLAN, event) not in TABLE])
def test_an_undefined_transition_leaves_the_state_alone(event: Event) -> None:
    state = World().state
    before = repr(state)
    with pytest.raises(UndefinedTransition):
        apply(state, f.PhaseEntered(phase=Phase.ACT, event=event, came_from=Phase.PLAN))
    assert repr(state) == before


@pytest.mark.spec("A1")
def test_a_transition_names_where_it_goes_and_came_from() -> None:
    state = World().state
    for phase, came_from in [(Phase.ACT, Phase.PLAN), (Phase.DECOMPOSE, Phase.ACT)]:
        with pytest.raises(ImpossibleFact):
            apply(state, f.PhaseEntered(phase=phase, event=Event.PLAN_READY, came_from=came_from))


@pytest.mark.spec("A1", "A2")
def test_every_phase_has_a_label_of_its_own() -> None:
    assert set(LABELS) == set(Phase)
    assert len(set(LABELS.values())) == len(Phase)
    assert all(LABELS.values())


@pytest.mark.spec("A1")
def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        TABLE[Phase.COMMIT, Event.REPLAN] = Phase.PLAN  # type: ignore[index]


@pytest.mark.spec("A5", "D1")
def test_reasons_end_by_events_every_working_phase_has() -> None:
    assert {reason.event for reason in END_REASONS} - {Event.QUALITY_GATE_PASS} <= set(ENDS)

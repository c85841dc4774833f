"""What stands before a request to a model, line by line of its table: what makes it speak, and in which order."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine.decide import decide
from loops.engine.effects import CallModel, CheckConfidence, Effect, End, OpenGate, PruneContext, Record, TryCriteria
from loops.engine.encoding.fingerprints import mark, result_mark
from loops.engine.state.failure import Recovery
from loops.engine.state.lifecycle import Phase
from loops.engine.state.limits import Limits
from loops.engine.state.loop_escalation import LoopEscalation
from loops.engine.state.measures import Confidence, WindowMeasures
from loops.engine.state.recovery import RecoveryState
from loops.engine.state.run import RunState
from loops.engine.state.spec import ConfidenceTerms, Criterion
from loops.engine.state.step_window import Seen
from loops.engine.strategies.before_request import BEFORE, next_effect
from tests.fakes import spec

SPEC = replace(spec(windows={"scripted": 10_000}), confidence=ConfidenceTerms(every_steps=99))
TRYING = replace(SPEC, criteria=(Criterion("It works", "pytest"),), tries_criteria=True)
CALM = RunState(
    spec=SPEC, limits=Limits(max_steps=100, max_seconds=100, confirm_after=50, reflect_after=3), phase=Phase.ACT, step=4
)
"""Nothing stands before the next request."""
AGAIN = tuple(Seen(step, action=mark("read a"), outcome=result_mark("alpha")) for step in (2, 3, 4))

Spoken = type[f.Fact] | type[Effect] | str
CASES: dict[str, tuple[str, dict[str, Any], Spoken]] = {
    "ask_about_limit": ("D3", {"reached": "max_steps"}, "limit_reached"),
    "try_criteria": ("E1", {"spec": TRYING}, TryCriteria),
    "give_up": ("E3", {"recovering": RecoveryState(next=Recovery.BACKTRACK, why="look: no file")}, f.Backtracked),
    "break_or_ask": ("F3", {"loop_found": "again", "circle": LoopEscalation(method="x", steps=(1, 2))}, f.LoopBroken),
    "look_for_loops": ("F1", {"recent": AGAIN}, f.LoopDetected),
    "escalate": ("E1", {"recovering": RecoveryState(next=Recovery.ESCALATE, why="look: a breach")}, "escalation"),
    "after_failure": ("E4", {"recovering": RecoveryState(next=Recovery.FAIL_GRACEFULLY, why="look: gone")}, End),
    "warn": ("U1", {"context_tokens": 8_100}, f.ContextWarned),
    "make_room": ("U1", {"context_tokens": 9_900, "windowing": WindowMeasures(warned=True)}, PruneContext),
    "notice_limit": ("D1", {"active_us": 100_000_000}, f.LimitReached),
    "check_confidence": ("G2", {"confidence": Confidence(asked=True)}, CheckConfidence),
    "confirm_long_task": ("D4", {"step": 50}, "long_task"),
    "warn_of_limit": ("D3", {"active_us": 80_000_000}, f.LimitWarned),
    "force_reflection": ("E4", {"recovering": RecoveryState(errors_in_row=3)}, f.ReflectionForced),
    "wait_out": ("E2", {"recovering": RecoveryState(wait_for=1, why="look: busy")}, f.BackoffStarted),
}
"""By the name of the step: the row that it keeps, what makes it speak, and the fact, effect or gate it asks for."""
MARKED = [pytest.param(name, marks=pytest.mark.spec(CASES[name][0]), id=name) for name in CASES]


def spoken(effect: Effect | None) -> Spoken | None:
    match effect:
        case None:
            return None
        case Record(facts):
            return type(facts[0])
        case OpenGate():
            return effect.kind
        case _:
            return type(effect)


def test_every_step_of_the_table_has_a_case() -> None:
    assert list(CASES) == [step.__name__ for step in BEFORE]


@pytest.mark.spec("D1")
def test_where_nothing_is_to_be_done_the_model_is_asked() -> None:
    assert next_effect(CALM) is None
    assert isinstance(decide(CALM), CallModel)


@pytest.mark.parametrize("name", MARKED)
def test_it_is_done_before_the_model_is_asked(name: str) -> None:
    _, changes, expected = CASES[name]
    state = replace(CALM, **changes)
    assert spoken(next_effect(state)) == expected
    assert spoken(decide(state)) == expected


@pytest.mark.spec("D1")
def test_of_everything_at_once_each_has_its_turn() -> None:
    """Taken away one by one in the order of the table: whatever is left, the first of it is done."""
    recovering = {"next": Recovery.BACKTRACK, "why": "look: no file", "errors_in_row": 3, "wait_for": 1}
    breach = {"next": Recovery.ESCALATE, "why": "look: a breach"}
    everything = {name: value for _, changes, _ in reversed(CASES.values()) for name, value in changes.items()}
    gone: dict[str, dict[str, Any]] = {
        "ask_about_limit": {"reached": ""},
        "try_criteria": {"tried": ()},
        "give_up": {"recovering": RecoveryState(**recovering | breach)},
        "break_or_ask": {"loop_found": "", "circle": CALM.circle},
        "look_for_loops": {"recent": ()},
        "escalate": {"recovering": RecoveryState(**recovering | {"next": Recovery.FAIL_GRACEFULLY})},
        "after_failure": {"recovering": RecoveryState(errors_in_row=3, wait_for=1, why="look: busy")},
        "warn": {"windowing": WindowMeasures(warned=True)},
        "make_room": {"context_tokens": 0},
        "notice_limit": {"active_us": 80_000_000},
        "check_confidence": {"confidence": CALM.confidence},
        "confirm_long_task": {"step": 4},
        "warn_of_limit": {"active_us": 0},
        "force_reflection": {"recovering": RecoveryState(wait_for=1, why="look: busy")},
        "wait_out": {"recovering": RecoveryState()},
    }
    state = replace(CALM, **everything | {"recovering": RecoveryState(**recovering), "windowing": WindowMeasures()})
    state = replace(state, context_tokens=9_900, active_us=100_000_000, step=50)
    for name, (_, _, expected) in CASES.items():
        assert spoken(next_effect(state)) == expected, name
        state = replace(state, **gone[name])
    assert next_effect(state) is None

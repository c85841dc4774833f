"""Mail that comes too late, or to the wrong run, is read and means nothing."""

from __future__ import annotations

import pytest

from loops.engine import facts as f
from loops.engine.ports import Signal
from tests.fakes import World, done, says


@pytest.mark.spec("Q5")
def test_a_decision_on_another_gate_is_passed_over() -> None:
    world = World([says("", ("ask_question", {"question": "Which?"})), done()])
    assert world.drive() == "gate:question"
    answer = {"gate": "another", "verdict": "respond", "payload": {"answer": "that one"}}
    world.journal.inbox.append(Signal("m1", "decision", answer, "ana"))
    assert world.drive() == "gate:question"
    assert not world.journal.of(f.GateDecided)
    assert not world.journal.inbox

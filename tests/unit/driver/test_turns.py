"""A model whose server answers one call at a time: the run waits for its turn without a worker (SPEC E6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.driver import Ports
from loops.engine import facts as f
from loops.engine.apply import ImpossibleFact, apply
from loops.engine.values import ModelRole
from tests.fakes import World, done, says

pytestmark = pytest.mark.spec("E6")


class Line:
    """Port Turns. ``before``: how many come first each time that is asked; after that nobody does."""

    def __init__(self, *before: int) -> None:
        self.before, self.told = list(before), list[str]()

    def take(self, model: str) -> int:
        return self.before.pop(0) if self.before else 0

    def parked(self) -> None:
        self.told.append("parked")

    def leave(self) -> None:
        self.told.append("left")


class Waiting(World):
    def __init__(self, line: Line, answers: Any) -> None:
        super().__init__(answers)
        self.line = line

    def ports(self) -> Ports:
        return replace(super().ports(), turns=self.line)


def test_a_run_whose_turn_it_is_not_sends_nothing_and_holds_no_worker() -> None:
    world = Waiting(Line(2, 2, 1), [done()])
    assert (world.drive(), world.drive()) == ("turn", "turn")
    assert [fact.before for fact in world.journal.of(f.TurnAwaited)] == [2], "it says once that it waits"
    assert world.journal.of(f.ModelRequested) == []
    assert world.line.told == ["parked", "parked"], "it keeps its place"
    assert world.drive() == "ended"
    assert len(world.journal.of(f.ModelRequested)) == len(world.journal.of(f.TurnTaken)) == 1


def test_a_turn_is_given_back_after_each_answer() -> None:
    world = Waiting(Line(), [says("", ("look", {"at": 1})), done()])
    world.drive()
    assert world.line.told.count("left") >= 2


@pytest.mark.spec("A4")
def test_nobody_waits_for_a_turn_while_an_answer_is_open() -> None:
    world = Waiting(Line(), [says("", ("ask_question", {"question": "?"}))])
    assert world.drive() == "gate:question"
    with pytest.raises(ImpossibleFact, match="still open"):
        apply(world.state, f.TurnAwaited(role=ModelRole.ACTOR, model="m", at=world.state.last_at))

"""A model that sums up what is left out of a conversation: asked once, paid for, no reason to stop when it fails."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.apply import replay
from loops.engine.values import FailureKind, ModelReply, ModelRequest, Usage
from tests.fakes import World, says
from tests.unit.engine.test_context_window import WINDOW, Honest, a_run


def with_summariser(answer: Any, **more: Any) -> World:
    honest = Honest(40, window=WINDOW)

    def model(request: ModelRequest) -> Any:
        return answer if request.role == "summariser" else honest(request)

    world = a_run(model, roles={"actor": "scripted", "summariser": "small"}, **more)
    world.summary_prompt = lambda goal: (f"Sum up: {goal}", "summarise:1")  # type: ignore[attr-defined]
    ports = world.ports
    world.ports = lambda: replace(ports(), summary_prompt=world.summary_prompt)  # type: ignore[method-assign,attr-defined]
    return world


@pytest.mark.spec("U1", "S3")
def test_a_configured_model_sums_up_what_goes() -> None:
    world = with_summariser(says("Done: looked about.", usage=Usage(700, 30, cost_microusd=9)))
    assert world.drive() == "ended"
    fact = next(each for each in world.journal.of(f.ContextPruned) if each.dropped_messages)
    assert (fact.method, fact.model, fact.usage.total_tokens) == ("summarised", "small", 730)
    assert fact.summary.endswith("Done: looked about.")
    asked = next(request for request in world.models.requests if request.role == "summariser")
    assert asked.system == "Sum up: Do it"
    assert "result: 0 yyy" in str(asked.messages)
    kinds = world.journal.kinds()
    at = kinds.index("SummaryRequested")
    assert kinds[at + 1] == "ContextPruned"
    actors = sum(each.usage.cost_microusd or 0 for each in world.journal.of(f.ModelAnswered))
    sums = sum(each.usage.cost_microusd or 0 for each in world.journal.of(f.ContextPruned))
    assert world.state.cost_microusd == actors + sums


@pytest.mark.spec("U1", "E6")
@pytest.mark.parametrize(
    "answer", [p.ModelError("down", kind=FailureKind.TRANSIENT, code="x"), says("  "), says("w" * 50_000)]
)
def test_a_model_that_cannot_sum_up_is_no_reason_to_stop(answer: Any) -> None:
    world = with_summariser(answer)
    assert world.drive() == "ended"
    assert world.state.end_reason == "no_criteria"
    fact = next(each for each in world.journal.of(f.ContextPruned) if each.dropped_messages)
    assert fact.method == "dropped"
    assert fact.why_no_model
    assert "# Earlier work" in fact.summary


@pytest.mark.spec("U1", "A4")
def test_a_summary_is_not_asked_for_beyond_the_token_budget() -> None:
    rich = with_summariser(says("Done."))
    rich.drive()
    before = replay(rich.journal.facts[: rich.journal.kinds().index("SummaryRequested")])
    enough_for_one_answer = before.tokens + before.context_tokens + 600
    poor = with_summariser(says("Done."), limits={"max_tokens": enough_for_one_answer})
    poor.drive()
    assert "SummaryRequested" not in poor.journal.kinds()
    assert [fact.method for fact in poor.journal.of(f.ContextPruned)][-1] == "dropped"
    assert poor.state.tokens <= enough_for_one_answer


class Killed(BaseException):
    """The worker is gone."""


@pytest.mark.spec("U1", "J2")
def test_a_summary_that_was_lost_with_its_worker_is_not_paid_for_again() -> None:
    deaths = iter([True])

    async def dies_once() -> ModelReply:
        if next(deaths, False):
            raise Killed
        return says("Done.")

    honest = Honest(14, window=WINDOW)
    asked: list[ModelRequest] = []

    def model(request: ModelRequest) -> Any:
        if request.role != "summariser":
            return honest(request)
        asked.append(request)
        return dies_once()

    world = with_summariser(None)
    world.models = type(world.models)(model)
    with pytest.raises(Killed):
        world.drive()
    assert world.journal.kinds()[-1] == "SummaryRequested"
    assert world.drive() == "ended"
    kinds = world.journal.kinds()
    lost = kinds.index("SummaryRequested")
    made = kinds.index("ContextPruned", lost)
    pruning = world.journal.facts[made]
    assert "SummaryRequested" not in kinds[lost + 1 : made]
    assert isinstance(pruning, f.ContextPruned)
    assert (pruning.method, pruning.model) == ("dropped", "")

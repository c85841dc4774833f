"""Confidence: when it is judged, how high it may be at most, and that a person is asked below the threshold (G2)."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.driver import interrupts
from loops.engine import facts as f
from loops.engine.apply import replay
from loops.engine.confidence import score as confidence_score
from loops.engine.confidence.bands import HIGH, LOW, MEDIUM, band
from loops.engine.effects import OpenGate
from loops.engine.ports import ModelError
from loops.engine.state.lifecycle import Phase
from loops.engine.state.limits import Limits
from loops.engine.state.measures import Confidence, Measured, StepSeen
from loops.engine.state.run import RunState
from loops.engine.state.spec import ConfidenceTerms
from loops.engine.state.thresholds import OFF
from loops.engine.values import FailureKind, ModelRole, ToolResult, Usage
from loops.orchestrator import Orchestrator
from loops.tools.builtin import completion
from tests import fakes
from tests.fakes import Tools, World, done, says

pytestmark = pytest.mark.spec("G2")
LOOK = ("look", {"at": "it"})
LIMITS = {"max_steps": 40, "warn_at": 2.0, "circles": OFF, "max_failures": 100}


class Judged(World):
    """A run that is judged every three steps; ``opinions`` are the answers of the confidence role."""

    def __init__(self, answers: Any, opinions: Any = (), tools: Tools | None = None, **changes: Any) -> None:
        terms = changes.pop("terms", ConfidenceTerms(3, 0.5, by_model=True))
        limits = LIMITS | changes.pop("limits", {})
        self.opinions, self.answers = iter(opinions), iter(answers)
        super().__init__(self.answer, tools, limits=limits, confidence=terms, **changes)

    def answer(self, request: Any) -> Any:
        return next(self.opinions) if request.role is ModelRole.CONFIDENCE else next(self.answers)

    def ports(self) -> Any:
        orchestrator = Orchestrator(tools=self.tools, models=self.models, gatekeeper=self.gatekeeper)
        return replace(super().ports(), orchestrator=orchestrator)

    @property
    def checks(self) -> list[f.ConfidenceChecked]:
        return self.journal.of(f.ConfidenceChecked)

    @property
    def asked(self) -> int:
        return sum(request.role is ModelRole.CONFIDENCE for request in self.models.requests)


def says_of_itself(score: Any, **more: Any) -> Any:
    return says(json.dumps({"confidence": score, "reason": "so it seems", **more}))


def looks(times: int, text: str = "I look.") -> list[Any]:
    return [says(text, LOOK)] * times


def wonders(times: int) -> list[Any]:
    """It asks, and says in the field for it that it is uncertain."""
    return [says("", ("ask_question", {"question": "Which?", "unsure": "Sijui ni faili gani."}))] * times


def answered(world: Judged) -> str:
    """Drive on, with an answer to each question."""
    while (why := world.drive()) == "gate:question":
        world.decide("respond", answer="The first.")
    return why


# --- when -------------------------------------------------------------------------------------------------------------


def test_it_is_judged_every_few_steps_and_journalled_before_and_after() -> None:
    world = Judged([*looks(7), done()], [says_of_itself(0.9)] * 2)
    assert world.drive() == "ended"
    assert [(check.step, check.trigger, check.raw_score) for check in world.checks] == [
        (3, "every_steps", 0.9),
        (6, "every_steps", 0.9),
    ]
    kinds = world.journal.kinds()
    first = kinds.index("ConfidenceChecked")
    assert kinds[first - 1] == "ConfidenceRequested"
    assert any(flush[-1] == "ConfidenceRequested" for flush in world.journal.flushes), "not durable before it was sent"
    assert world.checks[0].model == "scripted"


def test_switched_off_nobody_is_asked() -> None:
    world = Judged([*wonders(9), done()], terms=ConfidenceTerms(0, 0.5, by_model=True))
    assert answered(world) == "ended"
    assert not world.checks
    assert not world.asked


def test_the_agents_own_doubt_has_it_judged_early_but_not_in_every_step() -> None:
    """In any language: it has a field for it."""
    terms = ConfidenceTerms(100, 0.5, by_model=True)
    world = Judged([*wonders(6), done()], [says_of_itself(0.9)] * 9, terms=terms)
    assert answered(world) == "ended"
    assert [(check.step, check.trigger) for check in world.checks] == [
        (2, "uncertain"),
        (4, "uncertain"),
        (6, "uncertain"),
    ]


def test_its_text_is_not_searched_for_doubt() -> None:
    terms = ConfidenceTerms(100, 0.5, by_model=True)
    world = Judged([*looks(6, "I am not sure why this fails."), done()], terms=terms)
    assert world.drive() == "ended"
    assert not world.checks


@pytest.mark.spec("C3")
def test_the_tools_that_end_a_step_have_a_field_for_doubt_and_no_others() -> None:
    for tool in completion.TOOLS:
        assert "unsure" in tool.spec.parameters["properties"]  # type: ignore[operator]
        assert "unsure" not in tool.spec.parameters["required"]  # type: ignore[operator]
    world = World([says("", ("look", {"unsure": "x"})), says("", ("ask_question", {"question": "?", "unsure": 7}))])
    world.drive()
    assert world.state.unsure == ""


def test_a_person_may_have_it_judged_at_any_time() -> None:
    world = Judged([*looks(2), done()], [says_of_itself(0.8)], terms=ConfidenceTerms(0, 0.5, by_model=True))
    world.send("check_confidence")
    assert world.drive() == "ended"
    assert [(check.step, check.trigger) for check in world.checks] == [(0, "request")]
    assert world.journal.of(f.ConfidenceAsked)[0].by == "ana"


def test_asking_after_the_end_means_nothing() -> None:
    world = Judged([done()])
    assert world.drive() == "ended"
    world.send("check_confidence")
    world.drive()
    assert not world.journal.of(f.ConfidenceAsked)


# --- how high at most -------------------------------------------------------------------------------------------------

FAILS = Tools({"look": lambda arguments: ToolResult(ok=False, content="", error="no such file")})


def test_a_model_cannot_lift_its_score_above_what_was_measured() -> None:
    tried = [says("", ("look", {"at": name})) for name in ("a", "b", "c")]
    limits = {"max_failures": 4, "circles": OFF}
    world = Judged(tried, [says_of_itself(1.0)], FAILS, limits=limits, terms=ConfidenceTerms(3, 0.6, by_model=True))
    assert world.drive() == "gate:low_confidence"
    check = world.checks[0]
    assert check.raw_score == 1.0
    assert check.score == check.ceiling < 0.6
    assert check.features["failures_in_row"] == 0.75


@given(
    st.dictionaries(st.sampled_from(sorted(confidence_score.WEIGHTS)), st.floats(0, 1)),
    st.none() | st.floats(0, 1),
)
def test_no_self_rating_is_above_the_ceiling(found: dict[str, float], raw: float | None) -> None:
    ceiling = confidence_score.ceiling_of(found, confidence_score.WEIGHTS)
    assert confidence_score.LOWEST_CEILING <= ceiling <= 1
    assert confidence_score.score_of(ceiling, raw) <= ceiling
    for name in found:
        worse = {**found, name: 1.0}
        assert confidence_score.ceiling_of(worse, confidence_score.WEIGHTS) <= ceiling + 1e-4, (
            f"a worse {name} raised it"
        )


def test_a_stored_score_can_be_computed_again_from_what_is_stored_with_it() -> None:
    world = Judged([*looks(6), done()], [says_of_itself(0.97), says_of_itself(0.6)])
    world.drive()
    for check in world.checks:
        ceiling = confidence_score.ceiling_of(check.features, check.weights)
        assert ceiling == check.ceiling
        assert confidence_score.score_of(ceiling, check.raw_score) == check.score
        assert check.version == confidence_score.VERSION


def state_with(**changes: Any) -> RunState:
    state = replay([f.RunStarted(spec=fakes.spec(), system="", prompt_version="", tools_sha256="", at=1)])
    return replace(state, **changes)


def failed(step: int, signature: str) -> StepSeen:
    return StepSeen(step, success=False, error="e", signature=signature)


LATEST = (failed(1, "a"), failed(2, "b"), failed(3, "b"), failed(4, "b"))
FEATURES: dict[str, tuple[dict[str, Any], dict[str, float]]] = {
    "nothing": ({}, {}),
    "failures": ({"latest": LATEST[:2]}, {"failures_in_row": 0.6667}),
    "more failures than there may be": ({"latest": LATEST}, {"failures_in_row": 1.0}),
    "failures before an approach was given up": (
        {"latest": LATEST[:2], "failures_in_row": 1},
        {"failures_in_row": 0.6667},
    ),
    "the same error": ({"latest": LATEST}, {"same_error": 1.0}),
    "different errors": ({"latest": LATEST[:2]}, {"same_error": 0.0}),
    "a success in between": ({"latest": (*LATEST, StepSeen(5, success=True))}, {"same_error": 0.0}),
    "no progress": ({"step": 5}, {"no_progress": 0.5}),
    "progress lately": ({"step": 5, "measured": Measured(risen_at=4)}, {"no_progress": 0.1}),
    "failing tests": ({"measured": Measured(passed=3, failed=1)}, {"tests_failing": 0.25}),
    "repairs": ({"repairs": 3}, {"repairs": 1.0}),
    "half of a budget": ({"tokens": 250_000}, {"budget": 0.0}),
    "nearly all of a budget": ({"tokens": 450_000}, {"budget": 0.5}),
}


@pytest.mark.parametrize("name", FEATURES)
def test_each_feature_is_measured_from_the_state(name: str) -> None:
    changes, expected = FEATURES[name]
    state = state_with(**{key: value for key, value in changes.items() if key != "latest"})
    latest = changes.get("latest", ())
    found = confidence_score.features(replace(state, confidence=replace(state.confidence, latest=latest)))
    assert {key: found[key] for key in expected} == expected
    if not expected:
        assert confidence_score.ceiling_of(found, confidence_score.WEIGHTS) == 1.0


# --- a model that does not answer, or not as asked --------------------------------------------------------------------

GONE = ModelError("no key", kind=FailureKind.UNRECOVERABLE, code="auth")


@pytest.mark.parametrize(
    ("answer", "problem"),
    [(GONE, "auth"), (says("I feel fine"), "no JSON object"), (says('{"confidence": 7}'), "no confidence")],
)
def test_without_a_readable_opinion_what_was_measured_holds_and_it_says_so(answer: Any, problem: str) -> None:
    world = Judged([*looks(3), done()], [answer])
    assert world.drive() == "ended"
    check = world.checks[0]
    assert (check.method, check.raw_score, check.score) == ("measured", None, check.ceiling)
    assert problem in check.problem


def test_without_a_model_it_is_only_measured() -> None:
    world = Judged([*looks(3), done()], terms=ConfidenceTerms(3, 0.5))
    assert world.drive() == "ended"
    assert (world.checks[0].method, world.asked) == ("measured", 0)


def test_what_it_costs_counts_against_the_budgets() -> None:
    spent = Usage(input_tokens=700, output_tokens=50, cost_microusd=900)
    world = Judged([*looks(3), done()], [says('{"confidence": 0.9}', usage=spent)])
    world.drive()
    assert world.state.tokens == 4 * 120 + 750
    assert world.state.cost_microusd == 4 * 50 + 900


def test_with_little_left_of_the_budget_no_model_is_asked() -> None:
    world = Judged([*looks(3), done()], limits={"max_tokens": 12_000})
    world.drive()
    assert world.asked == 0
    assert "budget" in world.checks[0].problem


# --- people -----------------------------------------------------------------------------------------------------------


def low(**more: Any) -> Judged:
    world = Judged([*looks(9), done()], [says_of_itself(0.2), *[says_of_itself(0.9)] * 5], **more)
    assert world.drive() == "gate:low_confidence"
    return world


def test_below_the_threshold_a_person_is_asked_with_everything_it_comes_from() -> None:
    gate = low().gatekeeper.opened[0]
    assert (gate.kind, gate.confidence, gate.risk) == ("low_confidence", 0.2, "medium")
    assert gate.view["score"] == 0.2
    assert (gate.view["band"], gate.view["calibrated"]) == ("low", False)
    assert gate.view["why"] == "so it seems"
    assert [step["step"] for step in gate.view["latest_steps"]] == [1, 2, 3]  # type: ignore[index, union-attr]
    assert set(gate.view["features"]) == set(confidence_score.WEIGHTS)  # type: ignore[arg-type]


def test_it_is_said_in_words_and_that_it_is_not_calibrated() -> None:
    """A number would be read as a probability, which nobody has measured."""
    gate = low().gatekeeper.opened[0]
    assert gate.title == "Low confidence (uncalibrated): so it seems"
    assert "uncalibrated" in gate.reasons[0]
    assert not any(sign.isdigit() for text in (gate.title, *gate.reasons) for sign in text)


def test_what_was_measured_stands_in_the_title_where_no_model_judged() -> None:
    failed = tuple(StepSeen(step, success=False, signature="e") for step in (1, 2, 3))
    judged = Confidence(score=0.4, method="measured", low=True, reason="the same, all of it", latest=failed)
    gate = confidence_score.check_confidence(replace(Judged([]).state, limits=Limits(), confidence=judged))
    assert isinstance(gate, OpenGate)
    assert gate.title == "Low confidence (uncalibrated): steps failed in a row; the same error came again"


@pytest.mark.parametrize(
    ("score", "threshold", "said"),
    [(0.49, 0.5, LOW), (0.5, 0.5, MEDIUM), (0.79, 0.5, MEDIUM), (0.8, 0.5, HIGH), (0.85, 0.9, LOW), (0.1, 0.0, MEDIUM)],
)
def test_what_a_person_is_asked_about_is_low(score: float, threshold: float, said: str) -> None:
    assert band(score, threshold) == said


def test_at_the_threshold_nobody_is_asked() -> None:
    world = Judged([*looks(3), done()], [says_of_itself(0.5)])
    assert world.drive() == "ended"


def test_an_approval_lets_it_go_on_and_asks_again_after_as_many_steps() -> None:
    world = low()
    world.decide("approve")
    assert world.drive() == "ended"
    assert [check.step for check in world.checks] == [3, 6, 9]
    assert len(world.gatekeeper.opened) == 1


def test_doubt_right_after_an_approval_does_not_ask_again_at_once() -> None:
    world = Judged([*wonders(6), done()], [says_of_itself(0.2), says_of_itself(0.9)])
    assert answered(world) == "gate:low_confidence"
    assert world.checks[-1].step == 2
    world.decide("approve")
    assert answered(world) == "ended"
    assert [check.step for check in world.checks] == [2, 5]


def test_an_answer_guides_the_agent() -> None:
    world = low()
    world.decide("respond", answer="Look into the other folder.")
    assert world.drive() == "ended"
    assert "Look into the other folder." in str(world.models.requests[-1].messages)


@pytest.mark.parametrize("verdict", ["reject", "expire"])
def test_a_rejection_ends_the_run_for_this_reason(verdict: str) -> None:
    world = low()
    world.decide(verdict, reason="give up")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "low_confidence")


@pytest.mark.spec("K1")
@pytest.mark.parametrize(("kind", "why"), [("stop", "ended"), ("pause", "paused")])
def test_a_stop_or_pause_drops_the_question_and_it_is_asked_again(
    kind: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "LOOK_EVERY_S", 0)

    async def forever() -> Any:
        world.send(kind)
        await asyncio.sleep(3600)

    opinions: list[Any] = [forever, says_of_itself(0.9), says_of_itself(0.9)]
    world = Judged([*looks(4), done()])
    world.answer = lambda request: (  # type: ignore[method-assign]
        (first() if callable(first := opinions.pop(0)) else first)
        if request.role is ModelRole.CONFIDENCE
        else next(world.answers)
    )
    world.models._next = world.answer
    assert world.drive() == why
    assert not world.checks
    world.send("resume")
    assert world.drive() == "ended"
    assert [check.raw_score for check in world.checks] == [0.9]
    assert len(world.journal.of(f.ConfidenceRequested)) == 2


@pytest.mark.spec("J4")
def test_a_worker_lost_while_it_was_judged_costs_only_the_question() -> None:
    world = Judged([*looks(4), done()], [says_of_itself(0.9)])
    world.drive()
    at = world.journal.kinds().index("ConfidenceRequested") + 1
    again = Judged([*looks(1), done()], [says_of_itself(0.8)])
    again.journal.facts = world.journal.facts[:at]
    assert again.drive() == "ended"
    assert [check.raw_score for check in again.checks] == [0.8]


@pytest.mark.spec("G1")
def test_the_models_estimate_of_progress_is_the_last_resort_and_counts_little() -> None:
    world = Judged([*looks(4), done()], [says_of_itself(0.9, progress=0.95)])
    world.drive()
    steps = world.journal.of(f.StepCompleted)
    assert [(step.progress, step.progress_method) for step in steps[:4]] == [(0.0, "none")] * 3 + [(0.3, "model")]


def test_what_a_judge_reads_is_bounded() -> None:
    world = Judged([*looks(4, "x" * 100_000), done()], [says_of_itself(0.9)], goal="g" * 200_000)
    world.drive()
    asked = next(request for request in world.models.requests if request.role is ModelRole.CONFIDENCE)
    size = len(asked.system) + len(str(asked.messages))
    assert size // 3 + asked.max_tokens < confidence_score.ROOM

"""A model breaks the tie where no rule is sure: asked once, bounded, paid for, recorded beside the rule, or silent."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from loops.driver import Ports, interrupts
from loops.driver import failures as asking
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.apply import ImpossibleFact, apply, replay
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.failures import second_opinion
from loops.engine.failures.llm_classifier import question
from loops.engine.measures.context_budget import CAUTIOUS
from loops.engine.state.failure import (
    Failure,
    Recovery,
    Source,
)
from loops.engine.state.run import RunState
from loops.engine.state.thresholds import OFF
from loops.engine.values import FailureKind, ModelReply, ModelRequest, ModelRole, ToolResult, Usage
from loops.llm import prompts
from tests.fakes import Tools, World, done, says

FREE = {"max_failures": 99, "max_steps": 60, "max_attempts": 20, "reflect_after": 0, "circles": OFF}
ODD = ("blorb seven", "the flange is loose", "no tea left in the pot", "Kaputt.", "ERR_PLONK")
"""Errors that no rule knows."""
TRANSIENT, SYSTEMATIC = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC
UNRECOVERABLE, CRITICAL = FailureKind.UNRECOVERABLE, FailureKind.CRITICAL
PRICE = Usage(300, 10, cost_microusd=7)


def verdict(kind: str) -> ModelReply:
    return says(json.dumps({"kind": kind}), usage=PRICE)


class Judged(World):
    """A tool that fails with the given errors, one a step and then no more; the answers of the model that breaks ties,
    each a reply, an error to raise, or a function to await."""

    def __init__(self, errors: Iterable[str], answers: Iterable[Any], *, judge: str = "small", **more: Any) -> None:
        self.errors, self.answers = list(errors), iter(answers)
        self.steps = itertools.count()
        limits = FREE | more.pop("limits", {})
        roles = {"actor": "scripted", **({"classifier": judge} if judge else {})}
        failing = (ToolResult(ok=False, content="", error=error) for error in self.errors)
        tools = Tools({"look": lambda arguments: next(failing)})
        super().__init__(self._answer, tools, limits=limits, **more)
        self.spec = replace(self.spec, models=roles)
        self.journal.facts[0] = replace(self.journal.facts[0], spec=self.spec)  # type: ignore[call-arg]

    def ports(self) -> Ports:
        return replace(super().ports(), classifier_prompt=("Sort it.", "classify:1"))

    def _answer(self, request: ModelRequest) -> Any:
        if request.role is ModelRole.CLASSIFIER:
            answer = next(self.answers)
            return answer() if callable(answer) else answer
        number = next(self.steps)
        return says("I look.", ("look", {"at": number})) if number < len(self.errors) else done()

    @property
    def asked(self) -> list[ModelRequest]:
        return [request for request in self.models.requests if request.role is ModelRole.CLASSIFIER]

    @property
    def classes(self) -> list[f.FailureClassified]:
        return self.journal.of(f.FailureClassified)

    @property
    def given(self) -> list[f.ClassificationGiven]:
        return self.journal.of(f.ClassificationGiven)


@pytest.fixture
def _looking_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "LOOK_EVERY_S", 0)


# --- asked, and what follows ----------------------------------------------------------------------------------------


@pytest.mark.spec("E1", "S3")
def test_what_no_rule_is_sure_of_is_settled_by_the_model_and_both_are_on_record() -> None:
    world = Judged(ODD[:1], [verdict("transient")])
    assert world.drive() == "ended"
    (fact,) = world.classes
    assert (fact.kind, fact.decision, fact.certain) == (TRANSIENT, Recovery.CONTINUE, False)
    assert (fact.rule, fact.rule_kind, fact.model, fact.model_kind) == ("unknown", SYSTEMATIC, "small", TRANSIENT)
    assert fact.problem == ""
    (asked,) = world.asked
    assert (asked.model, asked.system) == ("small", "Sort it.")
    assert json.loads(str(asked.messages[0]["content"][0]["text"]))["error"].strip() == ODD[0]  # type: ignore[index, call-overload]
    requested = world.journal.of(f.ClassificationRequested)
    assert [(one.call_id, one.model, one.prompt_version) for one in requested] == [("c1.0", "small", "classify:1")]
    assert len(world.journal.of(f.BackoffStarted)) == 1  # as after any failure that passes


@pytest.mark.spec("E1")
def test_what_is_recorded_before_the_question_is_durable_before_it() -> None:
    seen: list[str] = []

    async def looking() -> ModelReply:
        seen.extend(world.journal.kinds())
        return verdict("systematic")

    world = Judged(ODD[:1], [looking])
    world.drive()
    assert seen[-1] == "ClassificationRequested"


@pytest.mark.spec("E1", "A4", "N4")
def test_the_run_pays_for_the_answer() -> None:
    world = Judged(ODD[:1], [verdict("systematic")])
    free = Judged(ODD[:1], [], judge="")
    world.drive(), free.drive()
    assert world.state.tokens - free.state.tokens == PRICE.total_tokens
    assert world.state.cost_microusd - free.state.cost_microusd == 7
    assert not world.state.cost_unknown


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    ("said", "gate"), [("systematic", False), ("unrecoverable", True), ("critical", True), ("transient", False)]
)
def test_a_person_is_asked_before_a_run_ends_on_the_word_of_a_model(said: str, gate: bool) -> None:
    world = Judged(ODD[:1], [verdict(said)])
    assert world.drive() == ("gate:escalation" if gate else "ended")


# --- not asked ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("E1", "S3")
def test_nobody_is_asked_unless_a_model_is_named_for_it() -> None:
    """The actor's model stands in for other roles, and never for this one."""
    world = Judged(ODD[:2], [], judge="")
    assert world.drive() == "ended"
    assert not world.journal.of(f.ClassificationRequested)
    assert [(fact.kind, fact.rule_kind, fact.problem) for fact in world.classes] == [(SYSTEMATIC, None, "")] * 2


@pytest.mark.spec("E1")
@pytest.mark.parametrize(
    "failure", ["deadlock detected", "no such file", "'../x' leads outside the workspace or through a link"]
)
def test_where_a_rule_is_sure_nobody_is_asked(failure: str) -> None:
    """Control: the same run with an error that no rule knows asks."""
    sure, unsure = Judged([failure], [verdict("transient")]), Judged(ODD[:1], [verdict("transient")])
    sure.drive(), unsure.drive()
    assert (len(sure.asked), len(unsure.asked)) == (0, 1)
    assert sure.classes[0].certain
    assert sure.classes[0].rule_kind is None


@pytest.mark.spec("E1")
def test_the_same_failure_is_asked_about_once_and_the_answer_remembered() -> None:
    world = Judged([ODD[0], ODD[1], ODD[0], ODD[0]], [verdict("transient"), verdict("systematic")])
    world.drive()
    assert len(world.asked) == 2
    assert [fact.model_kind for fact in world.classes] == [TRANSIENT, SYSTEMATIC, TRANSIENT, TRANSIENT]


@pytest.mark.spec("E1", "A6")
@pytest.mark.parametrize(("most", "asked"), [(0, 0), (2, 2), (10, 4)])
def test_so_many_questions_and_no_more(most: int, asked: int) -> None:
    answers = [verdict("transient")] * 4
    world = Judged(ODD[:4], answers, limits={"max_second_opinions": most})
    world.drive()
    assert len(world.asked) == asked
    assert [fact.kind for fact in world.classes] == [TRANSIENT] * asked + [SYSTEMATIC] * (4 - asked)
    for fact in world.classes[asked:]:
        assert (fact.model, fact.problem) == ("", f"{most} failures of this run were put to a model before")


@pytest.mark.spec("E1", "A4")
def test_what_is_left_of_the_tokens_has_to_be_enough_for_it() -> None:
    rich = Judged(ODD[:1], [verdict("transient")])
    rich.drive()
    before = replay(rich.journal.facts[: rich.journal.kinds().index("ClassificationRequested")])
    asked = question(before.calls[0].failure)  # type: ignore[arg-type]
    room = len(asked) / CAUTIOUS + second_opinion.PROMPT_TOKENS + second_opinion.ANSWER_TOKENS
    enough = int(before.tokens + before.context_tokens + room) + 1
    for tokens, questions in ((enough, 1), (enough - 2, 0)):
        world = Judged(ODD[:1], [verdict("transient")], limits={"max_tokens": tokens})
        world.drive()
        assert len(world.asked) == questions
        assert world.state.tokens <= tokens
    assert "budget" in world.classes[0].problem


@pytest.mark.spec("E1", "A4")
def test_who_has_spent_everything_asks_nobody() -> None:
    """An answer of the actor costs 50."""
    for most, questions in ((50, 0), (51, 1)):
        world = Judged(ODD[:1], [verdict("transient")], limits={"max_cost_microusd": most})
        world.drive()
        assert len(world.asked) == questions


def test_the_room_that_is_asked_for_is_enough() -> None:
    longest = question(Failure(Source.TOOL, "\U0001f4a5" * 10_000, tool="\x00" * 200, code="\x00" * 200))
    assert len(prompts.load("classify").text.encode()) / CAUTIOUS < second_opinion.PROMPT_TOKENS
    assert len(longest) == len(longest.encode())
    assert len(longest) < 40_000


@pytest.mark.spec("E1")
def test_a_run_that_is_ending_or_out_of_time_asks_nobody() -> None:
    world = Judged(ODD[:1], [verdict("transient")])
    world.drive()
    state = replay(world.journal.facts[: world.journal.kinds().index("ClassificationRequested")])
    assert second_opinion.due(state) is not None
    assert second_opinion.due(replace(state, fatal="escalated")) is None
    assert second_opinion.due(replace(state, active_us=state.limits.max_seconds * 1_000_000)) is None


# --- no answer, or none of use --------------------------------------------------------------------------------------


async def for_ever() -> ModelReply:
    await asyncio.sleep(3600)
    raise AssertionError("nobody waits so long")


@pytest.mark.spec("E1", "E6")
@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says("It is transient, I think."), "not one of the four classes"),
        (says('{"kind": "harmless"}'), "not one of the four classes"),
        (says("", ("look", {"at": "x"})), "not one of the four classes"),
        (p.ModelError("over\nloaded", kind=TRANSIENT, code="overloaded_error"), "overloaded_error: over loaded"),
        (for_ever, "did not answer within 0 s"),
    ],
    ids=["prose", "another class", "a call", "an error", "silence"],
)
def test_what_goes_wrong_with_it_leaves_the_rule_and_says_why(
    answer: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "LONGEST_S", 0 if answer is for_ever else asking.LONGEST_S)
    world = Judged([ODD[0], ODD[0]], [answer])
    assert world.drive() == "ended"
    assert len(world.asked) == 1  # and not again for the same failure
    for fact in world.classes:
        assert (fact.kind, fact.rule_kind, fact.model, fact.model_kind) == (SYSTEMATIC, SYSTEMATIC, "small", None)
        assert why in fact.problem
    assert [call.name for call in world.tools.ran] == ["look", "look"]


# --- workers and people come between --------------------------------------------------------------------------------


class Killed(BaseException):
    """The worker is gone."""


@pytest.mark.spec("E1", "J2", "J4")
def test_a_question_that_was_lost_with_its_worker_is_not_paid_for_again() -> None:
    async def dies() -> ModelReply:
        raise Killed

    world = Judged(ODD[:2], [dies, verdict("transient")])
    with pytest.raises(Killed):
        world.drive()
    assert world.journal.kinds()[-1] == "ClassificationRequested"
    assert world.drive() == "ended"
    assert len(world.asked) == 2  # the other one is of the other failure
    first, second = world.classes
    assert (first.kind, first.model_kind, second.kind) == (SYSTEMATIC, None, TRANSIENT)
    assert "cut short" in first.problem
    assert len(world.tools.ran) == 2


@pytest.mark.spec("E1", "J2")
def test_an_answer_that_was_not_written_down_is_lost_and_nothing_else() -> None:
    """A worker dies in the very commit that would have kept the answer."""
    world = Judged(ODD[:1], [verdict("transient"), verdict("transient")])
    append = world.journal.append

    def torn(entries: Any, within: Any = ()) -> None:
        if any(isinstance(fact, f.ClassificationGiven) for fact, _ in entries):
            world.journal.append = append  # type: ignore[method-assign]
            raise Killed
        append(entries, within)

    world.journal.append = torn  # type: ignore[method-assign]
    with pytest.raises(Killed):
        world.drive()
    assert not world.given
    assert world.drive() == "ended"
    assert len(world.asked) == 1
    assert [(fact.kind, fact.model_kind) for fact in world.classes] == [(SYSTEMATIC, None)]


@pytest.mark.spec("E1", "K1")
@pytest.mark.usefixtures("_looking_all_the_time")
@pytest.mark.parametrize(("kind", "why"), [("stop", "ended"), ("pause", "paused")])
def test_a_stop_or_pause_does_not_wait_for_it(kind: str, why: str) -> None:
    async def meanwhile() -> ModelReply:
        world.send(kind)
        return await for_ever()

    world = Judged(ODD[:1], [meanwhile])
    assert world.drive() == why
    assert not world.given
    world.send("resume")
    assert world.drive() == "ended"
    assert len(world.asked) == 1
    assert "cut short" in world.classes[0].problem


@pytest.mark.spec("E1", "K3")
def test_a_fork_asks_for_itself() -> None:
    world = Judged(ODD[:1], [verdict("transient")])
    world.drive()
    upto = world.journal.kinds().index("FailureClassified")
    state = replay(world.journal.facts[:upto])
    assert state.second_opinions
    reused = replace(state, reusing=state.spec.run_id)
    forked = apply(reused, f.Forked(run_id=state.spec.run_id, seq=upto, step=1, at=state.last_at))
    assert forked.second_opinions == ()
    assert second_opinion.due(forked) is not None


# --- facts ----------------------------------------------------------------------------------------------------------


@pytest.mark.spec("A3", "J2")
def test_answers_to_questions_that_nobody_asked_are_refused() -> None:
    world = Judged(ODD[:1], [verdict("transient")])
    world.drive()
    kinds = world.journal.kinds()
    requested = world.journal.of(f.ClassificationRequested)[0]
    given = world.given[0]
    before = replay(world.journal.facts[: kinds.index("ClassificationRequested")])
    asked = apply(before, requested)
    for state, fact in ((before, given), (asked, requested), (apply(asked, given), given)):
        with pytest.raises(ImpossibleFact):
            apply(state, fact)
    with pytest.raises(ImpossibleFact):
        apply(asked, f.ClassificationGiven(fingerprint="another", model="small"))


@pytest.mark.spec("A3")
def test_facts_and_states_of_before_there_was_a_second_opinion_load() -> None:
    new = {"rule_kind", "model", "model_kind", "problem"}
    world = Judged(ODD[:1], [], judge="")
    world.drive()
    plain = {name: value for name, value in to_plain(world.classes[0]).items() if name not in new}
    assert from_plain(f.FailureClassified, plain) == world.classes[0]
    state = to_plain(world.state)
    assert not state.pop("second_opinions", ())
    assert from_plain(RunState, state) == world.state

"""A world in which everything goes wrong: models, tools, people and workers follow a drawn plan, again and again.

What a run may never do is asserted where it would happen: in the model, in the tools, in the journal. ``Endless`` says
that the run passed the bound that its limits, its messages and its crashes allow.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from loops.driver import Driver
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.apply import apply, replay
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.ends.reasons import EXPLANATIONS
from loops.engine.ends.reports import REPORT_KINDS
from loops.engine.measures.limits import SMALLEST_ANSWER
from loops.engine.state.lifecycle import TERMINAL, Phase
from loops.engine.state.limits import Limits
from loops.engine.state.run import RunState
from loops.engine.state.spec import ConfidenceTerms, Criterion
from loops.engine.state.thresholds import OFF, Thresholds
from loops.engine.values import Access, FailureKind, ModelReply, ModelRequest, StopReason, ToolCall, ToolResult, Usage
from tests import fakes
from tests.unit.engine import in_a_row

PATIENCE = 3
"""How often a person answers ``converse`` or resumes a stopped run before giving up on it."""
TOOLS = {"look": Access.ALLOW, "write": Access.ALLOW, "send": Access.ASK, "wipe": Access.DENY}
RETRIABLE = {"look"}
CALLS = (
    ("look", {"at": "it"}),
    ("write", {"path": "a", "text": "b"}),
    ("send", {"to": "x"}),
    ("wipe", {}),
    ("nonsense", {"a": 1}),
    ("task_completion", {"result": "done"}),
    ("task_completion", {}),
    ("ask_question", {"question": "Which?"}),
    ("converse", {"message": "hello"}),
    ("look", {"at": "there"}),
    ("look", {"at": "elsewhere"}),
)


FAILURES = {
    "fail": ToolResult(ok=False, content="", error="no such file 12", exit_code=1),
    "passes": ToolResult(ok=False, content="", error="deadlock detected"),
    "hopeless": ToolResult(ok=False, content="", error="the project is gone", kind=FailureKind.UNRECOVERABLE),
    "breach": ToolResult(ok=False, content="", error="it tried to get out", kind=FailureKind.CRITICAL),
}
"""Outcomes of a tool that said no."""
MANY = len(CALLS)
"""More calls in one answer than are allowed."""


DEFAULTS = Limits()


class Killed(BaseException):
    """The worker is gone."""


class Endless(AssertionError):
    """The run passed its bound."""


@dataclass(frozen=True)
class Answer:
    """One answer of the model. ``says``: calls, text, empty, cut, refusal, pause, context, transient, fatal, slow."""

    says: str = "calls"
    calls: tuple[int, ...] = (0,)
    tokens: int = 20
    seconds: float = 0.0
    priced: bool = True


@dataclass(frozen=True)
class Plan:
    """What everybody does. Sequences start over when they end, so that a short one is a habit."""

    answers: Sequence[Answer] = (Answer(),)
    outcomes: Sequence[str] = ("ok",)
    verdicts: Sequence[tuple[str, Mapping[str, Any]]] = (("reject", {}),)
    worlds: Sequence[p.Verified] = (p.Verified.UNKNOWN,)
    voids: Sequence[bool] = (False,)
    mail: Mapping[int, str] = field(default_factory=dict)
    crashes: frozenset[int] = frozenset()
    limits: Limits = DEFAULTS
    steady: bool = False
    """The same conversation always gets the same answer, also after a crash."""
    checked: bool = False
    tries: bool = False
    """The commands of the criteria run before the first request too."""
    final_review: str = "never"
    judged_every: int = 0


class World(fakes.World):
    """One run under a plan. ``live`` goes on until it has ended for good, and returns its last state."""

    def __init__(self, plan: Plan) -> None:
        criteria = [Criterion("it works", "check")] if plan.checked else []
        super().__init__(criteria=[], final_review=plan.final_review)
        self.plan = plan
        terms = ConfidenceTerms(plan.judged_every, 0.9)
        self.spec = replace(self.spec, limits=plan.limits, criteria=tuple(criteria), confidence=terms)
        self.spec = replace(self.spec, tries_criteria=plan.tries)
        self.ticks, self.crashed, self.resumed, self.replied = 0, 0, 0, 0
        self.effects: Counter[str] = Counter()
        self.answers = itertools.cycle(plan.answers)
        self.outcomes = itertools.cycle(plan.outcomes)
        self.verdicts = itertools.cycle(plan.verdicts)
        self.worlds = itertools.cycle(plan.worlds)
        self.journal = Journal(self)
        self.tools = Tools(self)
        self.models = Models(self)
        self.gatekeeper = Gatekeeper(itertools.cycle(plan.voids))
        started = f.RunStarted(
            spec=self.spec, system="Be good.", prompt_version="p", tools_sha256="t", at=self.micros()
        )
        self.journal.begin(started)

    def micros(self) -> int:
        return int(self.clock.now() * 1e6)

    def tick(self) -> None:
        """A point where mail can arrive and a worker can die."""
        self.ticks += 1
        if kind := self.plan.mail.get(self.ticks):
            wish = kind == "wish"
            self.send("message" if wish else kind, text="please stop" if wish else f"note {self.ticks}")
        if self.ticks in self.plan.crashes:
            self.crashed += 1
            raise Killed

    @property
    def bound(self) -> int:
        """Requests that the limits granted so far, the messages and what went wrong from outside allow."""
        messages = len(self.journal.of(f.MessageReceived))
        outside = self.crashed + len(self.journal.of(f.ModelInterrupted)) + len(self.journal.of(f.RunResumed))
        steps = self.journal.granted["max_steps"] * (messages + 1)
        return steps * self.plan.limits.max_model_attempts + outside + 1

    def live(self) -> RunState:
        with asyncio.Runner() as runner:
            for _ in range(400):
                why = self._shift(runner)
                if why == "over":
                    return self.journal.states[-1]
        raise Endless(f"still {why} after 400 shifts")

    def _shift(self, runner: asyncio.Runner) -> str:
        """One worker's time with the run, and what a person does when it rests."""
        driver = self.driver()
        try:
            why = runner.run(driver.drive())
        except Killed:
            state = self.journal.states[-1]
            taken = f.RunTakenOver(epoch=self.crashed, worker="next", at=self.micros())
            self.journal.begin(taken, apply(state, taken))
            assert self.fresh() == (self.journal.states[-1], self.journal.transcript)
            return "crashed"
        assert driver.state == self.journal.states[-1]
        return self._after(why)

    def _after(self, why: str) -> str:
        if self.journal.inbox and why != "ended":
            return why
        match why.partition(":")[0]:
            case "gate":
                verdict, payload = next(self.verdicts)
                self.decide(verdict, reason="so" if verdict == "reject" else "", **payload)
            case "paused":
                self.send("resume")
            case "message":
                self.replied += 1
                self.send("message" if self.replied <= PATIENCE else "stop", text=f"reply {self.replied}")
            case "timer":
                self.clock.time += 600
            case "ended":
                return self._ended(why)
        return why

    def _ended(self, why: str) -> str:
        if self.journal.states[-1].phase is not Phase.HALT or self.resumed >= PATIENCE:
            return "over"
        self.resumed += 1
        self.send("resume")
        return why

    def fresh(self) -> tuple[RunState, Transcript]:
        """What a worker knows that has nothing but the journal."""
        transcript = Transcript()
        for fact in self.journal.facts:
            transcript = extend(transcript, fact)
        return replay(self.journal.facts), transcript

    def driver(self) -> Driver:
        return Driver(self.ports(), self.journal.states[-1], self.journal.transcript)


class Journal(fakes.Journal):
    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.states: list[RunState] = []
        self.transcript = Transcript()
        self.granted: Counter[str] = Counter()

    def begin(self, fact: f.Fact, state: RunState | None = None) -> None:
        """Write without a chance of dying: what is outside of the driver."""
        state = state or replay([fact])
        super().append([(fact, state)])
        self._keep(fact, state)

    def append(self, entries: Any, within: Any = ()) -> None:
        self.world.tick()
        super().append(entries, within)
        for fact, state in entries:
            self._keep(fact, state)
        self.world.tick()

    def _keep(self, fact: f.Fact, state: RunState) -> None:
        self.states.append(state)
        self.transcript = extend(self.transcript, fact)
        for name in ("max_steps", "max_tokens"):
            self.granted[name] = max(self.granted[name], getattr(state.limits, name))
        assert state.tokens <= self.granted["max_tokens"], "the token budget was passed"


class Models(fakes.Models):
    def __init__(self, world: World) -> None:
        super().__init__(())
        self.world = world

    async def call(self, request: ModelRequest, on_event: Callable[[Any], None]) -> ModelReply:
        self.requests.append(request)
        if len(self.requests) > self.world.bound:
            raise Endless(f"{len(self.requests)} requests")
        self._within_limits(request)
        check_conversation(request.messages)
        self.world.tick()
        answer = self._next_answer(request)
        self.world.clock.time += answer.seconds
        for _ in range(5 if answer.says == "slow" else 0):
            await asyncio.sleep(0)
        return reply_of(answer, request, len(self.requests))

    def _next_answer(self, request: ModelRequest) -> Answer:
        if not self.world.plan.steady:
            return next(self.world.answers)
        said = sum(message["role"] == "assistant" for message in request.messages)
        return self.world.plan.answers[said]

    def _within_limits(self, request: ModelRequest) -> None:
        """The guards once more, in other words: nobody may ask a model beyond a limit."""
        before, state = self.world.journal.states[-2:]
        limits = before.limits
        assert isinstance(self.world.journal.facts[-1], f.ModelRequested)
        assert state.steps_used <= limits.max_steps, "a step beyond max_steps"
        assert before.active_us < limits.max_seconds * 1_000_000, "a step beyond max_seconds"
        assert before.failures_in_row < limits.max_failures, "a step beyond max_failures"
        assert before.cost_microusd < limits.max_cost_microusd, "a step beyond max_cost_usd"
        assert before.tokens + before.context_tokens + request.max_tokens <= limits.max_tokens, "beyond max_tokens"
        assert request.max_tokens >= SMALLEST_ANSWER, "too little is left of max_tokens"


def reply_of(answer: Answer, request: ModelRequest, number: int) -> ModelReply:
    """An honest count of tokens (four characters each) and never more than the request allows."""
    if answer.says in {"transient", "fatal"}:
        kind = FailureKind.TRANSIENT if answer.says == "transient" else FailureKind.UNRECOVERABLE
        raise p.ModelError("no", kind=kind, code="x", retry_after_s=answer.seconds or None)
    stops = {"refusal": StopReason.REFUSAL, "pause": StopReason.PAUSE_TURN, "cut": StopReason.MAX_TOKENS}
    stop = stops.get(answer.says) or (StopReason.CONTEXT_EXCEEDED if answer.says == "context" else None)
    text = "" if answer.says == "empty" else f"thought {number}"
    calls = [] if answer.says in {"text", "empty", "pause"} else calls_of(answer.calls)
    reply = fakes.says(text, *calls, stop=stop)
    if answer.says == "cut":
        reply = replace(reply, calls=tuple(replace(call, arguments={}, error="cut off") for call in reply.calls))
    spoken = len(json.dumps(list(reply.blocks))) // 4 + 1
    said = min(request.max_tokens, max(spoken, answer.tokens))
    usage = Usage(size(request) // 4, said, cost_microusd=50 if answer.priced else None)
    return replace(reply, usage=usage)


def calls_of(numbers: Sequence[int]) -> list[tuple[str, Mapping[str, Any]]]:
    return [CALLS[each] for number in numbers for each in ((0, 1, 0, 4) * 3 if number == MANY else (number,))]


def size(request: ModelRequest) -> int:
    return len(request.system) + sum(len(str(block)) for message in request.messages for block in texts(message))


def texts(message: Mapping[str, Any]) -> list[Any]:
    return [block.get("text") or block.get("content") or block.get("input") or "" for block in message["content"]]


def check_conversation(messages: Sequence[Mapping[str, Any]]) -> None:
    """Roles take turns, and every call's results are the first thing said after it, in order (SPEC U1)."""
    roles = [message["role"] for message in messages]
    assert roles == [("user", "assistant")[number % 2] for number in range(len(roles))], roles
    for said, heard in itertools.pairwise(messages):
        calls = [block["id"] for block in said["content"] if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in heard["content"] if block["type"] == "tool_result"]
        assert results == calls
        assert all(block["type"] == "tool_result" for block in heard["content"][: len(calls)])


class Tools(fakes.Tools):
    def __init__(self, world: World) -> None:
        super().__init__(dict.fromkeys(TOOLS), TOOLS)
        self.world = world
        self.retriable = RETRIABLE
        self._specs = super().specs()

    def specs(self) -> Any:
        return self._specs

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        self._permitted(call)
        self._different(call)
        self.world.tick()
        self.effects_of(call)
        outcome = next(self.world.outcomes)
        if outcome == "slow":
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        self.world.tick()
        if outcome in FAILURES:
            return FAILURES[outcome]
        content = "x" * 6000 if outcome == "huge" else f"seen {context.step}"
        return ToolResult(ok=True, content=content, exit_code=0)

    def effects_of(self, call: ToolCall) -> None:
        self.world.effects[call.id] += 1
        if call.name in {"write", "send"}:
            assert self.world.effects[call.id] <= 1 + self._let_again(call), f"{call.name} took effect twice"

    def _different(self, call: ToolCall) -> None:
        """Nothing is executed that failed before, unless something has changed since or it fails for something that
        passes: found out from the journal alone, in other words than the engine's (SPEC E2)."""
        decided = self.world.journal.of(f.GateDecided)
        by_person = any(fact.call_id == call.id and fact.verdict == "approve_with_edits" for fact in decided)
        if call.name == "run_command" or by_person:
            return
        attempts = self.world.plan.limits.max_attempts
        found = failed_before(self.world.journal.facts, call)
        assert all(kind is FailureKind.TRANSIENT for kind in found), f"{call.name} was tried again as it was"
        assert len(found) < attempts, f"{call.name} was tried {len(found) + 1} times"

    def _let_again(self, call: ToolCall) -> int:
        """How often a person said that it was not done, and to run it again; people may be wrong."""
        decided = self.world.journal.of(f.GateDecided)
        mine = [fact for fact in decided if fact.kind == "in_doubt" and fact.call_id == call.id]
        return sum(fact.verdict == "approve" and fact.payload.get("outcome") != "done" for fact in mine)

    def _permitted(self, call: ToolCall) -> None:
        """Durable before it starts: an INTENT without outcome, and for an asked call a person's approval."""
        journal = self.world.journal
        if call.name == "run_command":
            assert isinstance(journal.facts[-1], f.ChecksStarted)
            return
        state = journal.states[-1]
        assert state.call(call.id).status == "intended", f"{call.name} ran without an intent"
        if TOOLS[call.name] is not Access.ALLOW:
            gates = {fact.gate for fact in journal.of(f.ToolIntended) if fact.call_id == call.id}
            verdicts = {fact.gate: fact.verdict for fact in journal.of(f.GateDecided)}
            if TOOLS[call.name] is Access.DENY:
                assert any(verdicts.get(gate) == "approve" for gate in gates), "a denied call ran without a grant"
            assert any(verdicts.get(gate) in {"approve", "approve_with_edits", "respond", "extend"} for gate in gates)
            assert gates & set(self.world.gatekeeper.consumed)

    async def verify(self, call: ToolCall, context: p.CallContext) -> p.Verified:
        """The world is honest when it knows."""
        truth = p.Verified.DONE if self.world.effects[call.id] else p.Verified.NOT_DONE
        return truth if next(self.world.worlds) is not p.Verified.UNKNOWN else p.Verified.UNKNOWN


def failed_before(facts: Sequence[f.Fact], call: ToolCall) -> list[FailureKind | None]:
    """Classes of the failures of this very call since anything changed; None where none is known yet."""
    asked = {fact.call_id: (fact.tool, fact.arguments) for fact in facts if isinstance(fact, f.ToolIntended)}
    kinds = {fact.call_id: fact.kind for fact in facts if isinstance(fact, f.FailureClassified)}
    limits = {fact.gate: fact.detail.get("limit") for fact in facts if isinstance(fact, f.GateOpened)}
    found: list[FailureKind | None] = []
    best = 0.0
    for fact in facts:
        if isinstance(fact, f.StepCompleted) and fact.progress > best:
            best, found = fact.progress, []
        if isinstance(fact, f.MessageReceived) or _let_on(fact, limits):
            found = []
        failed = isinstance(fact, f.ToolCompleted) and not fact.result.ok and fact.call_id != call.id
        if failed and asked.get(fact.call_id) == (call.name, call.arguments):  # type: ignore[attr-defined]
            found.append(kinds.get(fact.call_id))  # type: ignore[attr-defined]
    return found


def _let_on(fact: f.Fact, limits: Mapping[str, object]) -> bool:
    """A person knew of the failures, or of the circle, and let the run go on."""
    if not isinstance(fact, f.GateDecided) or fact.verdict not in {
        "approve",
        "approve_with_edits",
        "respond",
        "extend",
    }:
        return False
    return fact.kind in {"escalation", "checks_not_run", "loop_detected"} or limits.get(fact.gate) == "max_failures"


class Gatekeeper(fakes.Gatekeeper):
    def __init__(self, voids: Any) -> None:
        super().__init__()
        self._voids = voids

    def consume(self, gate_id: str, subject: Mapping[str, Any]) -> p.Within:
        def use(cursor: Any) -> None:
            if next(self._voids):
                raise p.ApprovalVoid("it changed")
            assert gate_id not in self.consumed, "an approval was used twice"
            self.consumed.append(gate_id)

        return use


def check_end(world: World, state: RunState) -> None:
    """What holds for every run that is over (SPEC A4, A5)."""
    journal = world.journal
    assert state.is_ended
    assert state.end_reason in EXPLANATIONS
    ends = [fact for fact in journal.of(f.PhaseEntered) if fact.phase in TERMINAL]
    reports = journal.of(f.RunEnded)
    assert [(end.phase, REPORT_KINDS[end.phase]) for end in ends] == [(r.phase, r.report_kind) for r in reports]
    assert all(report.report["reason"] == report.reason in EXPLANATIONS for report in reports)
    assert len(world.archive.committed) == (state.phase is Phase.COMMIT)
    messages = journal.of(f.MessageReceived)
    assert state.step <= journal.granted["max_steps"] * (len(messages) + 1)
    limits = world.plan.limits
    assert in_a_row.longest(journal.facts, limits.max_failures) <= in_a_row.bound(limits), "too many failures in a row"
    assert world.fresh() == (state, journal.transcript)
    transcript = journal.transcript
    heard = json.dumps([dict(message) for message in transcript.messages]) + "\n".join(transcript.extra)
    assert all(message.text in heard for message in messages)


# --- plans ----------------------------------------------------------------------------------------------------------

_SAYS = (
    ["calls"] * 16 + ["slow"] * 8 + ["text", "empty", "cut", "pause", "transient"] * 2 + ["refusal", "context", "fatal"]
)
_ANSWERS = st.builds(
    Answer,
    says=st.sampled_from(_SAYS),
    calls=st.lists(st.sampled_from([*range(len(CALLS)), 0, 1, 1, 2, MANY]), min_size=1, max_size=3).map(tuple),
    tokens=st.sampled_from([5, 20, 20, 400, 10**9]),
    seconds=st.sampled_from([0.0, 0.0, 0.0, 0.5, 20.0]),
    priced=st.booleans(),
)
_OUTCOMES = ["ok", "ok", "fail", "fail", "passes", "hopeless", "breach", "huge", "slow"]
_NUMBERS = st.sampled_from([1, 3, 6, 0, -1, 2.5, True, None, "many", float("nan"), float("inf"), 1e300, 10**400])
_LARGE = st.sampled_from([30_000, 1, 0, -5, float("nan"), float("inf"), 1e300, "x"])
_PAYLOADS = st.one_of(
    st.just({}),
    st.builds(lambda n: {"max_steps": n}, _NUMBERS.filter(lambda n: n not in (1e300, float("inf")))),
    st.builds(lambda n, m: {"max_tokens": n, "max_seconds": m, "max_cost_usd": m}, _LARGE, _LARGE),
    st.sampled_from(
        [
            {"answer": "a"},
            {"answer": None},
            {"arguments": {"to": "y"}},
            {"arguments": "no"},
            {"outcome": "done"},
            {"outcome": "not_done"},
            {"outcome": 7},
            {"result": "better"},
            {"result": 3, "nonsense": [1, None, {}]},
        ]
    ),
)
_VERDICTS = ["approve", "approve", "approve_with_edits", "reject", "respond", "extend", "extend", "expire", "perhaps"]
_TICKS = st.sampled_from(range(1, 60))

plans: st.SearchStrategy[Plan] = st.builds(
    Plan,
    answers=st.lists(_ANSWERS, min_size=2, max_size=6),
    outcomes=st.lists(st.sampled_from(_OUTCOMES), min_size=1, max_size=4),
    verdicts=st.lists(st.tuples(st.sampled_from(_VERDICTS), _PAYLOADS), min_size=2, max_size=4),
    worlds=st.lists(st.sampled_from(p.Verified), min_size=1, max_size=3),
    voids=st.lists(st.booleans(), min_size=1, max_size=3),
    mail=st.dictionaries(
        _TICKS, st.sampled_from(["message", "pause", "stop", "resume", "check_confidence", "wish"]), max_size=5
    ),
    crashes=st.frozensets(_TICKS, max_size=4),
    limits=st.builds(
        Limits,
        max_steps=st.sampled_from([8, 6, 5, 4, 3, 2, 1]),
        max_seconds=st.sampled_from([600, 600, 600, 30]),
        max_failures=st.sampled_from([4, 9, 2, 1]),
        max_tokens=st.sampled_from([500_000, 500_000, 20_000, 1_000]),
        max_cost_microusd=st.sampled_from([5_000_000, 5_000_000, 120]),
        max_repairs=st.sampled_from([2, 1, 0]),
        max_model_attempts=st.sampled_from([3, 2, 1]),
        max_extensions=st.integers(0, 2),
        max_attempts=st.sampled_from([3, 2, 1]),
        reflect_after=st.sampled_from([3, 2, 1, 0]),
        max_backtracks=st.sampled_from([5, 2, 1]),
        confirm_after=st.sampled_from([0, 0, 2, 4]),
        circles=st.sampled_from([Thresholds(), Thresholds(repeated_result=2, similar_steps=2), OFF]),
    ),
    checked=st.booleans(),
    tries=st.booleans(),
    final_review=st.sampled_from(["never", "always", "unless_verified"]),
    judged_every=st.sampled_from([0, 1, 2]),
)

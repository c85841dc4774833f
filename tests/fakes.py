"""Ports in memory, for the engine's own tests. The contract suite holds them to the real ones."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from loops.driver import Driver, Ports
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.apply import initial
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.decide import replay
from loops.engine.encoding.canonical import encode
from loops.engine.state.limits import Limits
from loops.engine.state.remark import Remark
from loops.engine.state.run import RunState
from loops.engine.state.spec import AgentRef, Criterion, RunSpec
from loops.engine.values import (
    Access,
    Compensation,
    ModelReply,
    ModelRequest,
    Reversibility,
    StopReason,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)

ANY_OBJECT: Mapping[str, Any] = {"type": "object"}
RUN_ID = "01900000-0000-7000-8000-000000000001"


class Clock:
    """Moves on by a thousandth of a second at each look, and over every sleep at once."""

    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        self.time += 0.001
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


class Journal:
    """Facts in a list; mail in a list."""

    def __init__(self) -> None:
        self.facts: list[f.Fact] = []
        self.flushes: list[tuple[str, ...]] = []
        self.inbox: list[p.Signal] = []
        self.released: list[tuple[int, bool]] = []
        self.lost = False
        self.hung: list[str] = []
        self.words = 0

    def append(self, entries: Sequence[tuple[f.Fact, RunState]], within: Sequence[p.Within] = ()) -> None:
        if self.lost:
            raise p.LeaseLost("another owner")
        written, inbox = len(self.facts), self.inbox
        self.facts.extend(fact for fact, _ in entries)
        try:
            for write in within:
                write(None)
        except BaseException:
            del self.facts[written:]
            self.inbox = inbox
            raise
        self.flushes.append(tuple(type(fact).__name__ for fact, _ in entries))

    def renew(self) -> None:
        if self.lost:
            raise p.LeaseLost("another owner")

    def lease_ends(self) -> float:
        return math.inf

    def hang(self, what: str) -> None:
        self.hung.append(what)

    def told_to_end(self) -> None:
        self.words += 1

    def mail_kinds(self) -> frozenset[str]:
        return frozenset(mail.kind for mail in self.inbox)

    def mail(self) -> Sequence[p.Signal]:
        return list(self.inbox)

    def read(self, mail: Sequence[p.Signal]) -> p.Within:
        def forget(cursor: Any) -> None:
            self.inbox = [item for item in self.inbox if item not in mail]

        return forget

    def release(self, *, wake_at: int = 0, runnable: bool = False) -> None:
        if not self.lost:
            self.released.append((wake_at, runnable or bool(self.inbox)))

    def history(self, kinds: Sequence[str]) -> Sequence[f.Fact]:
        return [fact for fact in self.facts if type(fact).__name__ in kinds]

    def kinds(self) -> list[str]:
        return [type(fact).__name__ for fact in self.facts]

    def of(self, kind: type[Any]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]


class Models:
    """Answers from a list, or from a function of the request; an exception in the list is raised."""

    def __init__(self, answers: Iterable[Any] | Callable[[ModelRequest], Any]) -> None:
        self._next = answers if callable(answers) else self._from(iter(answers))
        self.requests: list[ModelRequest] = []

    @staticmethod
    def _from(answers: Any) -> Callable[[ModelRequest], Any]:
        return lambda request: next(answers)

    async def call(self, request: ModelRequest, on_event: Callable[[Any], None]) -> ModelReply:
        self.requests.append(request)
        answer = self._next(request)
        if isinstance(answer, Exception):
            raise answer
        if asyncio.iscoroutine(answer):
            answer = await answer
        on_event(TextDelta(answer.text))
        return answer


class Tools:
    """Tools by name as plain functions ``arguments -> ToolResult | str``; access by name, allow unless said."""

    def __init__(self, functions: Mapping[str, Any], access: Mapping[str, Access] | None = None) -> None:
        self.functions = dict(functions)
        self.access = dict(access or {})
        self.ran: list[ToolCall] = []
        self.world: dict[str, p.Verified] = {}
        self.retriable: set[str] = set()
        self.tree = ""
        """Name of the workspace as it is; "" where none can be told."""
        self.remarked: tuple[Remark, ...] = ()
        self.undo: dict[str, Compensation] = {}
        """How a call of a tool is undone; what stands here is COMPENSABLE, all else PURE."""

    def specs(self) -> Sequence[ToolSpec]:
        names = (*self.functions, "task_completion", "ask_question", "converse")
        return [
            ToolSpec(
                name=name,
                description=name,
                parameters=ANY_OBJECT,
                reversibility=Reversibility.COMPENSABLE if name in self.undo else Reversibility.PURE,
                retriable=name in self.retriable,
                loop_breaking=name in {"task_completion", "ask_question", "converse"},
            )
            for name in names
        ]

    async def judge(self, call: ToolCall, context: p.CallContext) -> p.Judgement:
        if call.name not in {spec.name for spec in self.specs()}:
            return p.Judgement(call.id, Access.DENY, (f"unknown tool {call.name}",), invalid=True)
        access = self.access.get(call.name, Access.ALLOW)
        kind = "tool_approval" if access is Access.ASK else ""
        subject = {"tool": call.name, "arguments": dict(call.arguments)}
        grantable = access is Access.DENY
        more = {
            "operation": call.name,
            "grantable": grantable,
            "alternatives": ("look (allowed)",) if grantable else (),
        }
        return p.Judgement(call.id, access, ("rule",), gate_kind=kind, policy_version="v1", subject=subject, **more)

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        function = self.functions.get(call.name)
        if function is None or (self.access.get(call.name) is Access.DENY and not context.grant):
            return ToolResult(ok=False, content="", error=f"{call.name} may not run")
        self.ran.append(call)
        try:
            result = function(call.arguments)
            if asyncio.iscoroutine(result):
                result = await result
        except Exception as error:
            return ToolResult(ok=False, content=str(error), error=str(error))
        return ToolResult(ok=True, content=result) if isinstance(result, str) else result

    async def look(self, call: ToolCall, context: p.CallContext) -> Mapping[str, Any]:
        return {}

    def obeyed(self, context: p.CallContext) -> str:
        return ""

    def stands(self, context: p.CallContext) -> Mapping[str, Any]:
        return {"tree": self.tree} if self.tree else {"why_not": "it is too large"}

    async def verify(self, call: ToolCall, context: p.CallContext) -> p.Verified:
        return self.world.get(call.name, p.Verified.UNKNOWN)

    async def plan_undo(self, call: ToolCall, context: p.CallContext) -> Compensation | None:
        return self.undo.get(call.name)

    async def learn_undo(self, call: ToolCall, context: p.CallContext, planned: Compensation) -> Compensation | None:
        return None

    def changed_otherwise(self, context: p.CallContext, start: str, recorded: Mapping[str, str]) -> Compensation | None:
        return None

    async def remarks(
        self, context: p.CallContext, changes: Mapping[str, tuple[str, str]], goal: str
    ) -> tuple[Remark, ...]:
        return self.remarked


class Gatekeeper:
    """Takes every gate that was opened for approved, once; ``void`` is why the next approval does not hold."""

    def __init__(self) -> None:
        self.opened: list[p.GateRequest] = []
        self.consumed: list[str] = []
        self.withdrawn: list[str] = []
        self.void: str = ""
        self._live: set[str] = set()

    def open(self, request: p.GateRequest) -> p.Within:
        def insert(cursor: Any) -> None:
            if all(request.id != other.id for other in self.opened):
                self.opened.append(request)
                self._live.add(request.id)

        return insert

    def consume(self, gate_id: str, subject: Mapping[str, Any]) -> p.Within:
        def use(cursor: Any) -> None:
            if self.void:
                raise p.ApprovalVoid(self.void)
            if gate_id in self.consumed:
                raise p.ApprovalVoid("the approval was already used")
            if gate_id not in self._live:
                raise p.ApprovalVoid("no such approval")
            self.consumed.append(gate_id)

        return use

    def withdraw(self, run_id: str, reason: str) -> p.Within:
        def close(cursor: Any) -> None:
            self.withdrawn.append(reason)
            self._live.clear()

        return close


class Archive:
    def __init__(self) -> None:
        self.committed: list[Mapping[str, Any]] = []

    def commit(self, state: RunState, report: Mapping[str, Any], at: int) -> p.Within:
        return lambda cursor: self.committed.append(report)


class Feed:
    def __init__(self) -> None:
        self.deltas: list[dict[str, Any]] = []

    def delta(self, **piece: Any) -> None:
        self.deltas.append(piece)


def spec(**changes: Any) -> RunSpec:
    """A small task; criteria may be given as (text, command) pairs."""
    criteria = tuple(Criterion(*pair) for pair in changes.pop("criteria", ()))
    made = RunSpec(
        run_id=RUN_ID,
        task_id="task",
        project_id="project",
        agent=AgentRef("agent", "general", "Agent"),
        goal="Do it",
        workspace="/w",
        criteria=criteria,
        final_review="never",
    )
    return replace(made, **changes)


class World:
    """A run with its ports; ``drive`` goes on until it rests, as a worker would."""

    def __init__(self, models: Any = (), tools: Tools | None = None, **changes: Any) -> None:
        self.clock, self.journal, self.gatekeeper = Clock(), Journal(), Gatekeeper()
        self.archive, self.feed = Archive(), Feed()
        self.models = Models(models)
        self.tools = tools or Tools({"look": lambda arguments: "seen"})
        limits = changes.pop("limits", None)
        self.spec = spec(**changes)
        if limits:
            self.spec = replace(self.spec, limits=replace(Limits(), **limits))
        self.ids = (f"01900000-0000-7000-8000-{number:012d}" for number in itertools.count(100))
        started = f.RunStarted(
            spec=self.spec, system="Be good.", prompt_version="p", tools_sha256="t", at=int(self.clock.now() * 1e6)
        )
        self.journal.append([(started, initial(started))])

    @property
    def state(self) -> RunState:
        return replay(self.journal.facts)

    def ports(self) -> Ports:
        return Ports(
            self.journal,
            self.models,
            self.tools,
            self.gatekeeper,
            self.archive,
            self.feed,
            self.clock,
            lambda: next(self.ids),
        )

    def driver(self) -> Driver:
        """A driver that knows nothing but the journal, as after a restart."""
        transcript = Transcript()
        for fact in self.journal.facts:
            transcript = extend(transcript, fact)
        return Driver(self.ports(), self.state, transcript)

    def drive(self) -> str:
        return asyncio.run(self.driver().drive())

    def send(self, kind: str, by: str = "ana", **payload: Any) -> None:
        self.journal.inbox.append(p.Signal(f"m{len(self.journal.facts)}-{kind}", kind, payload, by))

    def decide(self, verdict: str, reason: str = "", **payload: Any) -> None:
        gate = self.gatekeeper.opened[-1]
        self.send("decision", gate=gate.id, verdict=verdict, reason=reason, payload=payload)


async def hanging() -> None:
    """Something that is to be ended by others."""
    await asyncio.sleep(20)
    raise AssertionError("nobody ended what hangs")


def says(
    text: str = "", *calls: tuple[str, Mapping[str, Any]], stop: StopReason | None = None, **more: Any
) -> ModelReply:
    """An answer with ``calls`` given as (name, arguments)."""
    made = tuple(ToolCall(f"p{i}", name, arguments) for i, (name, arguments) in enumerate(calls))
    blocks = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": c.id, "name": c.name, "input": dict(c.arguments)} for c in made]
    default = StopReason.TOOL_USE if calls else StopReason.END_TURN
    usage = more.pop("usage", Usage(input_tokens=100, output_tokens=20, cost_microusd=50))
    return ModelReply(
        tuple(blocks), text, more.pop("thinking", ""), made, stop or default, usage, "fake", "fake-1", **more
    )


def page(arguments: Mapping[str, Any]) -> str:
    """What a look at these arguments shows: another text for each, as in work that gets on."""
    digest = hashlib.sha256(encode(dict(arguments))).hexdigest()
    return " ".join(digest[at : at + 8] for at in range(0, len(digest), 8))


def done(result: str = "finished") -> ModelReply:
    return says("", ("task_completion", {"result": result}))

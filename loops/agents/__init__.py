"""The names of decision 83 over the engine: execution loops, BaseAgent and its Orchestrator (SPEC B1, B2, B6).

Nothing here decides or runs anything by itself. A loop is a registered strategy under the driver, and an agent leads
the same driver effect by effect: every model call and every tool call is journalled, guarded and bounded as in any run,
and there is no way from a prompt to a response beside it. No framework here.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from loops.agents.stepped_driver import NotAllowed, SteppedDriver
from loops.driver import Driver, Ports
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine import prompts, strategies
from loops.engine.apply import apply, initial
from loops.engine.confidence import score
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.decide import decide
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.state.lifecycle import Phase
from loops.engine.state.remark import Remark
from loops.engine.state.run import RunState
from loops.engine.state.spec import RunSpec
from loops.engine.values import Compensation, Json, ToolCall, ToolResult, ToolSpec
from loops.orchestrator import Orchestrator

STATUSES = {Phase.COMMIT: "completed", Phase.FAIL: "failed", Phase.HALT: "halted"}

__all__ = [
    "AgentContext",
    "BaseAgent",
    "ExecutionLoop",
    "ExecutionResult",
    "LoopMetadata",
    "LoopRunner",
    "Orchestrator",
    "Validation",
    "execution_loop",
]


# --- execution loops ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AgentContext:
    """Where an agent works. ``state`` and ``transcript`` are those of a run that was begun before; None begins one.
    ``shared``: its worker has other runs, so long waits and the end of the worker give the run back."""

    ports: Ports
    system: str = ""
    prompt_version: str = ""
    sandbox_level: int = 0
    state: RunState | None = None
    transcript: Transcript | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True)
class LoopMetadata:
    """Of one stretch of work. A turn is one answer of the model."""

    turns: int
    tool_calls: int
    tokens_per_turn: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ExecutionResult:
    """``status``: completed, failed, halted, waiting (for ``waiting_for``), or lost to another worker.

    ``report`` is the artifact of the terminal state. ``state`` and ``transcript`` let the same run be taken up again.
    """

    status: str
    result: str
    report: Mapping[str, Json]
    metadata: LoopMetadata
    waiting_for: str
    state: RunState
    transcript: Transcript


class ExecutionLoop(Protocol):
    """One way of working on a task, chosen by name."""

    async def execute_task(self, context: AgentContext, task: RunSpec, tools: p.Tools) -> ExecutionResult:
        """Work until the task is over or something outside has to happen."""
        ...

    def get_loop_type(self) -> str: ...


class LoopRunner:
    """Any registered strategy as an ExecutionLoop."""

    def __init__(self, loop_type: str) -> None:
        self._loop_type = strategies.get(loop_type).name

    def get_loop_type(self) -> str:
        return self._loop_type

    async def execute_task(self, context: AgentContext, task: RunSpec, tools: p.Tools) -> ExecutionResult:
        """Drive the run until it rests, ends, or is lost."""
        context = replace(context, ports=replace(context.ports, tools=tools))
        ledger, state = _begin(context, replace(task, loop=self._loop_type))
        ports = replace(context.ports, journal=ledger)
        driver = Driver(ports, state, ledger.transcript, sandbox_level=context.sandbox_level, slice_s=math.inf)
        why = await driver.drive()
        return ledger.result(driver.state, why)


def execution_loop(name: str) -> ExecutionLoop:
    """The loop for the configuration key ``execution_loop``. Raises UnknownLoop naming the ones there are."""
    return LoopRunner(name)


class _Ledger:
    """A journal that also remembers what this stretch of work wrote."""

    def __init__(self, journal: p.Journal, transcript: Transcript) -> None:
        self._journal = journal
        self.transcript = transcript
        self.facts: list[f.Fact] = []

    def append(self, entries: Sequence[tuple[f.Fact, RunState]], within: Sequence[p.Within] = ()) -> None:
        self._journal.append(entries, within)
        for fact, _ in entries:
            self.facts.append(fact)
            self.transcript = extend(self.transcript, fact)

    def renew(self) -> None:
        self._journal.renew()

    def lease_ends(self) -> float:
        return self._journal.lease_ends()

    def hang(self, what: str) -> None:
        self._journal.hang(what)

    def told_to_end(self) -> None:
        self._journal.told_to_end()

    def history(self, kinds: Sequence[str]) -> Sequence[f.Fact]:
        return self._journal.history(kinds)

    def mail_kinds(self) -> frozenset[str]:
        return self._journal.mail_kinds()

    def mail(self) -> Sequence[p.Signal]:
        return self._journal.mail()

    def read(self, mail: Sequence[p.Signal]) -> p.Within:
        return self._journal.read(mail)

    def release(self, *, wake_at: int = 0, runnable: bool = False) -> None:
        self._journal.release(wake_at=wake_at, runnable=runnable)

    def result(self, state: RunState, why: str) -> ExecutionResult:
        over = why == "ended"
        reports = [fact.report for fact in self.facts if isinstance(fact, f.RunEnded)]
        return ExecutionResult(
            status=STATUSES[state.phase] if over else "lost" if why == "lost" else "waiting",
            result=state.result or "",
            report=reports[-1] if over and reports else {},
            metadata=self._metadata(),
            waiting_for="" if over or why == "lost" else why,
            state=state,
            transcript=self.transcript,
        )

    def _metadata(self) -> LoopMetadata:
        tokens = tuple(fact.usage.total_tokens for fact in self.facts if isinstance(fact, f.ModelAnswered))
        ran = sum(1 for fact in self.facts if isinstance(fact, f.ToolIntended) and fact.attempt == 1)
        return LoopMetadata(len(tokens), ran, tokens)


def _begin(context: AgentContext, task: RunSpec) -> tuple[_Ledger, RunState]:
    """The first fact of a new run, or where the old one stands."""
    if context.state is not None and context.transcript is not None:
        return _Ledger(context.ports.journal, context.transcript), context.state
    ledger = _Ledger(context.ports.journal, Transcript())
    started = f.RunStarted(
        at=int(context.ports.clock.now() * 1e6),
        spec=task,
        system=context.system,
        prompt_version=context.prompt_version,
        tools_sha256=sha256([to_plain(spec) for spec in context.ports.tools.specs()]),
        sandbox_level=context.sandbox_level,
        prompts=prompts.TODAY.versions(),
        wording=prompts.FOLDED.contents(),
    )
    state = initial(started)
    ledger.append([(started, state)])
    return ledger, state


# --- agents ---------------------------------------------------------------------------------------------------------


class _Routed:
    """The ports Tools and Gatekeeper as an agent has them: every call goes through its orchestrator."""

    def __init__(self, orchestrator: Orchestrator, gatekeeper: p.Gatekeeper) -> None:
        self._orchestrator, self._gatekeeper = orchestrator, gatekeeper

    def specs(self) -> Sequence[ToolSpec]:
        return self._orchestrator.tools.specs()

    async def judge(self, call: ToolCall, context: p.CallContext) -> p.Judgement:
        return await self._orchestrator.tools.judge(call, context)

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        return await self._orchestrator.execute_tool(call, context, on_output)

    async def look(self, call: ToolCall, context: p.CallContext) -> Mapping[str, Json]:
        return await self._orchestrator.tools.look(call, context)

    def obeyed(self, context: p.CallContext) -> str:
        return self._orchestrator.tools.obeyed(context)

    def stands(self, context: p.CallContext) -> Mapping[str, Json]:
        return self._orchestrator.tools.stands(context)

    async def verify(self, call: ToolCall, context: p.CallContext) -> p.Verified:
        return await self._orchestrator.tools.verify(call, context)

    async def plan_undo(self, call: ToolCall, context: p.CallContext) -> Compensation | None:
        return await self._orchestrator.tools.plan_undo(call, context)

    async def learn_undo(self, call: ToolCall, context: p.CallContext, planned: Compensation) -> Compensation | None:
        return await self._orchestrator.tools.learn_undo(call, context, planned)

    def changed_otherwise(self, context: p.CallContext, start: str, recorded: Mapping[str, str]) -> Compensation | None:
        return self._orchestrator.tools.changed_otherwise(context, start, recorded)

    async def remarks(
        self, context: p.CallContext, changes: Mapping[str, tuple[str, str]], goal: str
    ) -> tuple[Remark, ...]:
        return await self._orchestrator.tools.remarks(context, changes, goal)

    def open(self, request: p.GateRequest) -> p.Within:
        return self._orchestrator.create_gate(request)

    def consume(self, gate_id: str, subject: Mapping[str, Json]) -> p.Within:
        return self._gatekeeper.consume(gate_id, subject)

    def withdraw(self, run_id: str, reason: str) -> p.Within:
        return self._gatekeeper.withdraw(run_id, reason)


@dataclass(frozen=True, slots=True)
class Validation:
    """How a step went, by the facts it left."""

    success: bool
    error: str
    progress: float
    progress_method: str


class BaseAgent(ABC):
    """An agent works on a task in a loop; ``run_task`` writes the loop, the methods below are its parts.

        async with self._working_on(task) as state:
            while not self._should_terminate(state):
                effect = self._plan_next_step(state)
                facts = await self._execute_step_with_retry(effect, state)
                state = self._update_state(state, facts)
        return self._finalize_result()

    There is no part that asks a model and hands out its answer: an answer is a fact, and verification decides what it
    is worth (SPEC C6).
    """

    def __init__(self, context: AgentContext, orchestrator: Orchestrator, loop_type: str = "react") -> None:
        routed = _Routed(orchestrator, context.ports.gatekeeper)
        self.context = replace(
            context, ports=replace(context.ports, tools=routed, gatekeeper=routed, orchestrator=orchestrator)
        )
        self.orchestrator = orchestrator
        self.loop_type = strategies.get(loop_type).name
        self.why = ""
        self.hand: SteppedDriver | None = None

    @property
    def _hand(self) -> SteppedDriver:
        assert self.hand is not None, "work begins with: async with self._working_on(task) as state"
        return self.hand

    @abstractmethod
    async def run_task(self, task: RunSpec) -> ExecutionResult:
        """Work on ``task`` step by step."""

    @contextlib.asynccontextmanager
    async def _working_on(self, task: RunSpec) -> AsyncIterator[RunState]:
        """Own the run: begin it or take it up, watch its mail, and give it back at the end."""
        self._ledger, state = _begin(self.context, replace(task, loop=self.loop_type))
        ports = replace(self.context.ports, journal=self._ledger)
        level, shared = self.context.sandbox_level, self.context.shared
        self.hand = SteppedDriver(ports, state, self._ledger.transcript, sandbox_level=level, shared=shared)
        try:
            async with self.hand.watching():
                self.hand.read_mail()
                yield self.hand.state
                if shared and not self.hand.rests() and self.hand.state.seq == state.seq:
                    raise NotAllowed("it gave the run back without having done anything")
                self.why = self.hand.give_back()
        except (p.LeaseLost, asyncio.CancelledError) as lost:
            if isinstance(lost, asyncio.CancelledError) and not self.hand.is_lost:
                raise
            self.why = "lost"

    def _should_terminate(self, state: RunState) -> bool:
        """Over, or waiting for somebody: every limit and reason of the engine ends in one of these (SPEC D1)."""
        return self._hand.rests()

    def _plan_next_step(self, state: RunState) -> e.Effect:
        """What is to be done next, after what people have asked for meanwhile."""
        self._hand.read_mail()
        return decide(self._hand.state)

    async def _execute_step_with_retry(self, effect: e.Effect, state: RunState) -> tuple[f.Fact, ...]:
        """Perform ``effect``. A model call that failed in passing is waited out and tried again, as often as the limits
        allow; a tool call is never repeated blindly. Returns the facts since ``state``."""
        if isinstance(effect, e.RunTool | e.RecoverTool):
            return await self._execute_via_orchestrator(effect, state)
        await self._hand.perform(effect)
        while self._hand.state.model_attempt and not self._hand.rests():
            again = self._plan_next_step(self._hand.state)
            if not isinstance(again, e.Wait | e.CallModel):
                break
            await self._hand.perform(again)
        return self._news(state)

    async def _execute_via_orchestrator(self, effect: e.RunTool | e.RecoverTool, state: RunState) -> tuple[f.Fact, ...]:
        """INTENT, then agent -> orchestrator -> TAS -> tool and back (SPEC I1)."""
        await self._hand.perform(effect)
        return self._news(state)

    def _validate_step(self, facts: Sequence[f.Fact], state: RunState) -> Validation | None:
        """How the step went that ``facts`` complete; None while it is under way."""
        done = next((fact for fact in facts if isinstance(fact, f.StepCompleted)), None)
        return Validation(done.success, done.error, done.progress, done.progress_method) if done else None

    def _update_state(self, state: RunState, facts: Sequence[f.Fact]) -> RunState:
        """The state is nothing but the fold of its facts."""
        for fact in facts:
            state = apply(state, fact)
        return state

    def _should_request_confidence_check(self, state: RunState) -> bool:
        """Every few steps, at the agent's own doubt, or because a person asked (SPEC G2)."""
        return isinstance(decide(state), e.CheckConfidence)

    async def _request_confidence_evaluation(self, state: RunState) -> f.ConfidenceChecked | None:
        """A second opinion on the work so far, never above what was measured; None when a person interrupted it."""
        effect = e.CheckConfidence(score.due(state) or "request")
        await self._hand.perform(effect, chosen=False)
        return next((fact for fact in self._news(state) if isinstance(fact, f.ConfidenceChecked)), None)

    async def _escalate_low_confidence(self, state: RunState) -> tuple[f.Fact, ...]:
        """Put a run whose latest score was too low before a person; it rests until somebody decides."""
        before = self._hand.state
        gate = score.check_confidence(before) if before.confidence.low else None
        if gate is not None:
            await self._hand.perform(gate, chosen=False)
        return self._news(state)

    def _finalize_result(self) -> ExecutionResult:
        """What came of it, after ``_working_on`` has given the run back."""
        return self._ledger.result(self._hand.state, self.why)

    def _news(self, state: RunState) -> tuple[f.Fact, ...]:
        """The facts that are not folded into ``state`` yet."""
        fresh = self._hand.state.seq - state.seq
        return tuple(self._ledger.facts[len(self._ledger.facts) - fresh :])

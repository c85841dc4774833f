"""Judge, run and recover tool calls: INTENT before, outcome after, nothing repeated blindly (SPEC I1, J1, J2)."""

from __future__ import annotations

import dataclasses
import hashlib
import math

from loops.crash_points import CrashPoint, reach
from loops.driver.interrupts import STOP, STOP_OR_PAUSE, Interrupted, Interrupts, TookTooLong
from loops.driver.session import RunSession
from loops.driver.undo_plans import UndoPlans
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine import prompts
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.failures.breakers import TOOL, Refusal, told, tool_fault
from loops.engine.state.clearance import words_of
from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.engine.values import FailureKind, Json, ToolCall, ToolResult, ToolSpec
from loops.streams import OutputStream


def idempotency_key(run_id: str, call: ToolCall) -> str:
    """Stable over retries of one call, different for every other call and for a fork (reliability#calls)."""
    parts = f"{run_id}|{call.id}|{call.name}|{sha256(to_plain(call.arguments))}"
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


LEASE_S = 60.0
"""More than the lease of an owner who was lost, and its clock's error."""
LONGEST_CRITERION_S = float(COMMAND_LIMITS["criterion_seconds"].high)
"""Of any project: the tool ends at what its own project gives, which may change meanwhile."""


class ToolCalls:
    """The calls of one run on their way through the TAS."""

    def __init__(self, session: RunSession, interrupts: Interrupts, sandbox_level: int) -> None:
        self._session, self._interrupts, self._sandbox_level = session, interrupts, sandbox_level
        self._judgements: dict[str, p.Judgement] = {}
        self._undo = UndoPlans(session)
        self._described: tuple[ToolCall, p.CallContext] | None = None

    def context(self, call: ToolCall) -> p.CallContext:
        """Who calls, from where; the latest is kept, because judging and running ask for the same."""
        if self._described is not None and self._described[0] is call:
            return self._described[1]
        spec = self._session.state.spec
        context = p.CallContext(
            run_id=spec.run_id,
            step=self._session.state.step,
            agent_type=spec.agent.type,
            project_id=spec.project_id,
            workspace=spec.workspace,
            criteria=tuple(criterion.command for criterion in spec.criteria if criterion.command),
            idempotency_key=idempotency_key(spec.run_id, call),
            lease_ends=self._session.ports.journal.lease_ends,
        )
        self._described = call, context
        return context

    async def judge(self, call: ToolCall) -> None:
        """Record what the TAS says of a proposed call; nothing runs. Nobody is asked about what cannot run anyway."""
        if refused := self._session.ports.breakers.refuses(TOOL, call.name):
            self._refuse(call, refused)
            return
        judgement = await self._session.ports.tools.judge(call, self.context(call))
        self._judgements[call.id] = judgement
        self._session.note(
            f.CallJudged(
                call_id=call.id,
                access=judgement.access,
                reasons=judgement.reasons,
                invalid=judgement.invalid,
                gate_kind=judgement.gate_kind,
                risk=judgement.risk,
                policy_version=judgement.policy_version,
                reversibility=judgement.reversibility,
                operation=judgement.operation,
                alternatives=judgement.alternatives,
                grantable=judgement.grantable,
            )
        )

    async def weigh(self, call: ToolCall) -> p.Judgement:
        """What the TAS says of a call that is none of the agent's, as things stand now; nothing is recorded of it."""
        self._judgements[call.id] = judgement = await self._session.ports.tools.judge(call, self.context(call))
        return judgement

    async def judgement_of(self, call: ToolCall) -> p.Judgement:
        """The judgement on record, or a fresh one when another worker made it."""
        return self._judgements.get(call.id) or await self._session.ports.tools.judge(call, self.context(call))

    async def run(self, effect: e.RunTool) -> None:
        """INTENT, with the approval used up in the same transaction, then the call itself."""
        session, call, context = self._session, effect.call, self.context(effect.call)
        admitted = session.ports.breakers.admit(TOOL, call.name)
        if isinstance(admitted, Refusal):
            self._refuse(call, admitted)
            return
        within: list[p.Within] = []
        judgement = self._judgements.pop(call.id, None)
        if effect.gate:
            # Right before it runs, what would run is described afresh: the approval covers that, or nothing.
            judgement = await session.ports.tools.judge(call, context)
            within.append(session.ports.gatekeeper.consume(effect.gate, judgement.subject))
        planned = await self._undo.plan(call, context, effect.attempt)
        session.note(
            f.ToolIntended(
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments,
                idempotency_key=context.idempotency_key,
                attempt=effect.attempt,
                gate=effect.gate,
                policy_version=judgement.policy_version if judgement else "",
                sandbox_level=self._level_now(judgement),
                reversibility=self._undo.reversibility(call, planned),
                compensation=planned,
                expects=await self._expects(call, context, judgement),
            )
        )
        try:
            session.flush(*within)
        except p.ApprovalVoid as void:
            session.take_back()
            session.note(f.ApprovalVoided(call_id=call.id, gate=effect.gate, reason=str(void)))
            return
        await self._execute(call, dataclasses.replace(context, grant=effect.gate) if self._granted(call) else context)
        if effect.gate and judgement is not None and judgement.operation == "execute":
            self._clear(judgement, effect.gate, context)

    def _clear(self, judgement: p.Judgement, gate: str, context: p.CallContext) -> None:
        """A criterion may repeat an approved command while nothing else changed what that left (ADR 0052)."""
        criteria = any(criterion.command for criterion in self._session.state.spec.criteria)
        if criteria and (stands := self._session.ports.tools.obeyed(context)):
            self._session.note(f.CommandCleared(command=words_of(judgement.subject), stands=stands, gate=gate))

    def _level_now(self, judgement: p.Judgement | None) -> int:
        """The sandbox may have changed since the run was taken up; whoever judged the call knows."""
        level = judgement.subject.get("sandbox_level") if judgement else None
        return level if isinstance(level, int) else self._sandbox_level

    def _granted(self, call: ToolCall) -> bool:
        """A person let this very call through although the matrix denies it."""
        return self._session.state.call(call.id).granted

    async def _expects(self, call: ToolCall, context: p.CallContext, judgement: p.Judgement | None) -> dict[str, Json]:
        """What a recovery compares the world with; nothing for a call that names no file to write."""
        before = await self._session.ports.tools.look(call, context)
        if not before:
            return {}
        view = judgement.view if judgement else {}
        path, after = view.get("path"), view.get("after_sha256")
        return {"before": before, "after": {path: after} if isinstance(path, str) and path in before else {}}

    def _refuse(self, call: ToolCall, refused: Refusal) -> None:
        message = told(refused, self._session.now())
        self._session.note(f.ToolRefused(call_id=call.id, tool=call.name, why="breaker_open", message=message))

    async def _execute(self, call: ToolCall, context: p.CallContext) -> None:
        """A stop kills the tool and says so. A pause kills only what may be begun again, and leaves its INTENT open:
        the resume finds out, as after a crash; anything else ends first."""
        spec = self._spec(call)
        heeds = STOP_OR_PAUSE if spec is not None and spec.retriable else STOP
        try:
            result = await self.execute(call, context, heeds)
        except Interrupted as interrupted:
            if "stop" in interrupted.kinds:
                stopped = ToolResult(ok=False, content="", error=prompts.fill("call_stopped"))
                learnt = await self._undo.learn(call, context)
                self._session.note(
                    f.ToolCompleted(call_id=call.id, tool=call.name, result=stopped, compensation=learnt)
                )
            raise
        reach(CrashPoint.EFFECT_DONE)
        learnt = await self._undo.learn(call, context)
        self._session.note(f.ToolCompleted(call_id=call.id, tool=call.name, result=result, compensation=learnt))

    async def execute(self, call: ToolCall, context: p.CallContext, heeds: frozenset[str]) -> ToolResult:
        """Through the TAS, streaming what it prints. What does not end in its time has failed."""
        seconds = max(LONGEST_CRITERION_S if context.is_criterion else 0.0, self._longest(call))
        stream = OutputStream(self._session.ports.feed, self._session.state.step, call.id)
        try:
            work = self._session.ports.tools.execute(call, context, stream.on_output)
            result = await self._interrupts.interruptible(work, heeds, what=call.name, within_s=seconds)
        except TookTooLong:
            error = prompts.fill("call_too_long", tool=call.name, seconds=f"{seconds:g}")
            result = ToolResult(ok=False, content="", error=error, kind=FailureKind.SYSTEMATIC, fault="timeout")
        finally:
            stream.close()
        self._tell_breaker(call, result)
        return result

    def _tell_breaker(self, call: ToolCall, result: ToolResult) -> None:
        if fault := tool_fault(result):
            self._session.ports.breakers.failed(TOOL, call.name, fault)
        else:
            self._session.ports.breakers.succeeded(TOOL, call.name)

    async def recover(self, effect: e.RecoverTool) -> e.OpenGate | None:
        """An INTENT without outcome: ask the world first, repeat only what is harmless, else give the question back
        for a person (SPEC J2)."""
        call = effect.call
        await self._undo.learn_after_loss(call, self.context(call))
        found, evidence = await self._verified(call)
        self._session.note(f.ToolVerified(call_id=call.id, tool=call.name, found=found.value, evidence=evidence))
        spec = self._spec(call)
        if found is p.Verified.DONE:
            done = ToolResult(ok=True, content=prompts.fill("call_found_done"))
            self._session.note(f.ToolCompleted(call_id=call.id, tool=call.name, result=done, recovered=True))
            return None
        if found is p.Verified.NOT_DONE or (spec is not None and spec.retriable):
            await self.run(e.RunTool(call, attempt=effect.attempt + 1))
            return None
        return self._doubt(call, evidence)

    async def _verified(self, call: ToolCall) -> tuple[p.Verified, dict[str, Json]]:
        tools, expects = self._session.ports.tools, self._session.state.call(call.id).expects
        context = dataclasses.replace(self.context(call), expects=expects)
        found = await tools.verify(call, context)
        now = await tools.look(call, context)
        return found, {**expects, "now": now} if now else dict(expects)

    def _doubt(self, call: ToolCall, evidence: dict[str, Json]) -> e.OpenGate:
        """It may be run again only when whoever began it can do nothing any more: its process is proven to be gone, or
        its lease and the longest time of the call have passed (reliability#lease)."""
        pending = self._session.state.call(call.id)
        wait_s = self._longest(call) + LEASE_S if pending.may_live else 0.0
        reasons = ["the call was begun and its outcome is unknown"]
        reasons.append("the world shows neither its state before nor after" if evidence else "nothing can be looked up")
        if wait_s:
            reasons.append("the worker that began it was lost, and nobody can prove that its process is gone")
        return e.OpenGate(
            kind="in_doubt",
            title="",
            call=call,
            reasons=tuple(reasons),
            risk="high",
            view={
                "tool": call.name,
                "arguments": to_plain(call.arguments),
                "evidence": evidence,
                "attempt": pending.attempt,
                "begun_at": pending.since,
                "again_after_s": math.ceil(wait_s),
            },
        )

    def _longest(self, call: ToolCall) -> float:
        spec = self._spec(call)
        return spec.timeout_s if spec is not None else 0.0

    def _spec(self, call: ToolCall) -> ToolSpec | None:
        return next((spec for spec in self._session.specs if spec.name == call.name), None)

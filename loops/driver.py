"""Perform effects, write facts, obey people. The only place where the engine meets the world; no Django here.

One driver drives one run, on one event loop, for as long as there is something to do. Facts gather in a buffer and are
committed right before the next effect that touches the world, together with its INTENT: two commits a step, and nothing
starts before what led to it is durable (SPEC A4, J1). ``driver`` never decides: it asks ``decide``.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.canonical import sha256
from loops.engine.codec import to_plain
from loops.engine.context import Transcript, extend
from loops.engine.exits import REPORT_KINDS, report
from loops.engine.fold import apply
from loops.engine.lifecycle import Phase, transition
from loops.engine.loop import decide
from loops.engine.retry import delay_s
from loops.engine.state import RunState
from loops.engine.values import ModelReply, ToolCall, ToolResult, ToolSpec
from loops.engine.verification import check_schema, unproven
from loops.streaming import ModelStream, OutputStream

log = logging.getLogger(__name__)

LOOK_EVERY_S = 0.2
"""How often the mailbox is looked at while something is performed: a stop is obeyed well within a second (SPEC K1)."""
RENEW_EVERY_S = 5.0
LONGEST_NAP_S = 10.0
"""A longer wait gives the worker back."""
CHECK_TIMEOUT_S = 300.0


@dataclass(frozen=True, slots=True)
class Ports:
    journal: p.Journal
    models: p.Models
    tools: p.Tools
    gatekeeper: p.Gatekeeper
    archive: p.Archive
    feed: p.Feed
    clock: p.Clock
    new_id: Callable[[], str]


class Interrupted(Exception):
    """A person wants the run to stop or pause: what was being performed was cancelled."""


class Driver:
    """Drives one owned run until it rests, ends, or is lost to another owner."""

    def __init__(
        self,
        ports: Ports,
        state: RunState,
        transcript: Transcript,
        *,
        environment: dict[str, str] | None = None,
        sandbox_level: int = 0,
        slice_s: float = 120.0,
    ) -> None:
        self.ports = ports
        self.state = state
        self.transcript = transcript
        self.environment = environment or {}
        self.sandbox_level = sandbox_level
        self.slice_s = slice_s
        self.specs: tuple[ToolSpec, ...] = tuple(ports.tools.specs())
        self.tools_sha256 = sha256([to_plain(spec) for spec in self.specs])
        self._committed = state
        self._buffer: list[tuple[f.Fact, RunState]] = []
        self._judgements: dict[str, p.Judgement] = {}
        self._mail_waiting = True
        self._urgent = False
        self._performing: asyncio.Task[Any] | None = None
        self._lost: Exception | None = None

    async def drive(self) -> str:
        """Returns why it stopped: "ended", "gate:<kind>", "paused", "message", "timer", "slice" or "lost"."""
        watch = asyncio.create_task(self._watch())
        try:
            return await self._loop()
        except p.LeaseLost as lost:
            log.info("run %s has another owner: %s", self.state.spec.run_id, lost)
            return "lost"
        finally:
            watch.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watch

    # --- the loop -----------------------------------------------------------------------------------------------

    async def _loop(self) -> str:
        slice_ends = self.ports.clock.now() + self.slice_s
        while True:
            self._take_mail()
            effect = decide(self.state)
            if isinstance(effect, e.CallModel):
                await asyncio.sleep(0)  # a model that answers at once must not starve the watch
            if isinstance(effect, e.Rest):
                self._flush()
                self.ports.journal.release()
                return effect.why
            if isinstance(effect, e.CallModel) and self.ports.clock.now() > slice_ends:
                self._flush()
                self.ports.journal.release(runnable=True)
                return "slice"
            if isinstance(effect, e.Wait) and effect.until - self._now() > LONGEST_NAP_S * 1e6:
                self._flush()
                self.ports.journal.release(wake_at=effect.until)
                return "timer"
            with contextlib.suppress(Interrupted):
                await self._perform(effect)

    async def _perform(self, effect: e.Effect) -> None:
        match effect:
            case e.Record(facts):
                for fact in facts:
                    self._note(fact)
            case e.CallModel():
                await self._call_model(effect)
            case e.JudgeCall(call):
                await self._judge(call)
            case e.RunTool():
                await self._run_tool(effect)
            case e.RecoverTool():
                await self._recover(effect)
            case e.OpenGate():
                await self._open_gate(effect)
            case e.RunChecks():
                await self._run_checks()
            case e.Wait(until):
                await self._wait(until)
            case e.End():
                self._end(effect)

    # --- facts --------------------------------------------------------------------------------------------------

    def _now(self) -> int:
        return int(self.ports.clock.now() * 1_000_000)

    def _note(self, fact: f.Fact) -> None:
        """Stamp, fold and buffer one fact; it is durable at the next ``_flush``."""
        stamped = replace(fact, at=max(self._now(), self.state.last_at))
        self.state = apply(self.state, stamped)
        self.transcript = extend(self.transcript, stamped)
        self._buffer.append((stamped, self.state))

    def _flush(self, *within: p.Within) -> None:
        if not self._buffer and not within:
            return
        self.ports.journal.append(self._buffer, within)
        self._committed = self.state
        self._buffer = []

    def _take_mail(self) -> None:
        """Turn what people asked for into facts, in the order they asked."""
        if not self._mail_waiting:
            return
        self._mail_waiting = False
        self._urgent = self._lost is not None
        mail = self.ports.journal.mail()
        if not mail:
            return
        for item in mail:
            for fact in facts_of(item, self.state):
                self._note(fact)
        self._flush(self.ports.journal.read(mail))

    async def _watch(self) -> None:
        """Beside the effects: look for mail, keep the lease. Losing the lease cancels whatever is performed."""
        renewed = self.ports.clock.now()
        while self._lost is None:
            await asyncio.sleep(LOOK_EVERY_S)
            try:
                kinds = self.ports.journal.mail_kinds()
                if self.ports.clock.now() - renewed > RENEW_EVERY_S:
                    self.ports.journal.renew()
                    renewed = self.ports.clock.now()
            except Exception as error:
                # A database that does not answer is the same as a lost lease: stop before the lease runs out.
                self._lost = error
                self._interrupt()
                return
            if kinds:
                self._mail_waiting = True
            if kinds & {"stop", "pause"}:
                self._interrupt()

    async def _interruptible(self, work: Awaitable[Any]) -> Any:
        """Await ``work``; when a person or the lease says so it is cancelled, and Interrupted (or LeaseLost) raised.

        The work runs in the driver's own task, and ``_watch`` cancels that task: a task of its own for every call would
        cost more than all the rest of a step.
        """
        if self._urgent:
            if asyncio.iscoroutine(work):
                work.close()
            raise self._interruption()
        self._performing = asyncio.current_task()
        try:
            return await work
        except asyncio.CancelledError:
            if not self._urgent or self._performing is None:
                raise
            self._performing.uncancel()
            raise self._interruption() from None
        finally:
            self._performing = None

    def _interrupt(self) -> None:
        self._urgent = True
        if self._performing is not None:
            self._performing.cancel()

    def _interruption(self) -> Exception:
        if self._lost is not None:
            return p.LeaseLost(str(self._lost))
        return Interrupted()

    # --- the model ----------------------------------------------------------------------------------------------

    async def _call_model(self, effect: e.CallModel) -> None:
        model = self.state.spec.model_for(effect.role.value)
        request_sha256 = self.transcript.request_sha256(effect.role, model, self.tools_sha256, effect.max_tokens)
        self._note(
            f.ModelRequested(role=effect.role, model=model, request_sha256=request_sha256, attempt=effect.attempt)
        )
        self._flush()
        request = self.transcript.request(role=effect.role, model=model, tools=self.specs, max_tokens=effect.max_tokens)
        stream = ModelStream(self.ports.feed, self.state.step, self.state.model_calls + 1)
        try:
            async with asyncio.timeout(self._seconds_left()):
                reply = await self._interruptible(self.ports.models.call(request, stream.on_event))
        except p.ModelError as error:
            self._model_failed(error, effect.attempt)
        except TimeoutError:
            self._note(f.ModelInterrupted(reason="time limit"))
        except Interrupted:
            self._note(f.ModelInterrupted(reason="a person"))
            raise
        else:
            self._note(_answer(effect, model, reply))
        finally:
            stream.close()

    def _seconds_left(self) -> float:
        return max(1.0, self.state.limits.max_seconds - self.state.active_us / 1e6)

    def _model_failed(self, error: p.ModelError, attempt: int) -> None:
        self._note(
            f.ModelFailed(
                kind=error.kind,
                code=error.code,
                message=error.message[:2000],
                attempt=attempt,
                status=error.status,
                retry_after_s=error.retry_after_s,
            )
        )
        if self.state.fatal:
            return
        wait = delay_s(attempt, error.retry_after_s, self.state.spec.run_id)
        self._note(f.BackoffStarted(until=self._now() + int(wait * 1e6), reason=f"{error.code}: {error.message[:200]}"))

    async def _wait(self, until: int) -> None:
        self._flush()
        await self._interruptible(self.ports.clock.sleep(max(0.0, (until - self._now()) / 1e6)))
        self._note(f.BackoffEnded())

    # --- tools --------------------------------------------------------------------------------------------------

    def _context(self, call: ToolCall) -> p.CallContext:
        spec = self.state.spec
        return p.CallContext(
            run_id=spec.run_id,
            step=self.state.step,
            agent_type=spec.agent.type,
            project_id=spec.project_id,
            workspace=spec.workspace,
            idempotency_key=idempotency_key(spec.run_id, call),
            environment=self.environment,
        )

    async def _judge(self, call: ToolCall) -> p.Judgement:
        judgement = await self.ports.tools.judge(call, self._context(call))
        self._judgements[call.id] = judgement
        self._note(
            f.CallJudged(
                call_id=call.id,
                access=judgement.access,
                reasons=judgement.reasons,
                invalid=judgement.invalid,
                gate_kind=judgement.gate_kind,
                risk=judgement.risk,
                policy_version=judgement.policy_version,
            )
        )
        return judgement

    async def _run_tool(self, effect: e.RunTool) -> None:
        call, context = effect.call, self._context(effect.call)
        within: list[p.Within] = []
        judgement = self._judgements.get(call.id)
        if effect.gate:
            # Right before it runs, what would run is described afresh: the approval covers that, or nothing.
            judgement = await self.ports.tools.judge(call, context)
            within.append(self.ports.gatekeeper.consume(effect.gate, judgement.subject))
        self._note(
            f.ToolIntended(
                call_id=call.id,
                tool=call.name,
                arguments=call.arguments,
                idempotency_key=context.idempotency_key,
                attempt=effect.attempt,
                gate=effect.gate,
                policy_version=judgement.policy_version if judgement else "",
                sandbox_level=self.sandbox_level,
            )
        )
        try:
            self._flush(*within)
        except p.ApprovalVoid as void:
            self._take_back()
            self._note(f.ApprovalVoided(call_id=call.id, gate=effect.gate, reason=str(void)))
            return
        await self._execute(call, context)

    def _take_back(self) -> None:
        """The buffered INTENT was refused by the database: nothing of this flush was written."""
        self._buffer.pop()
        self.state = self._buffer[-1][1] if self._buffer else self._committed

    async def _execute(self, call: ToolCall, context: p.CallContext) -> None:
        stream = OutputStream(self.ports.feed, self.state.step, call.id)
        try:
            result = await self._interruptible(self.ports.tools.execute(call, context, stream.on_output))
        except Interrupted:
            stopped = ToolResult(ok=False, content="", error="Stopped by a person before it ended.")
            self._note(f.ToolCompleted(call_id=call.id, tool=call.name, result=stopped))
            raise
        finally:
            stream.close()
        self._note(f.ToolCompleted(call_id=call.id, tool=call.name, result=result))

    async def _recover(self, effect: e.RecoverTool) -> None:
        """An INTENT without outcome: ask the world first, repeat only what is harmless, else ask a person (SPEC J2)."""
        call, context = effect.call, self._context(effect.call)
        found = await self.ports.tools.verify(call, context)
        spec = next((spec for spec in self.specs if spec.name == call.name), None)
        if found is p.Verified.DONE:
            done = ToolResult(ok=True, content="The call was interrupted; its effect was found to be in place.")
            self._note(f.ToolCompleted(call_id=call.id, tool=call.name, result=done, recovered=True))
        elif found is p.Verified.NOT_DONE or (spec is not None and spec.retriable):
            await self._run_tool(e.RunTool(call, attempt=effect.attempt + 1))
        else:
            await self._open_gate(
                e.OpenGate(
                    kind="in_doubt",
                    title=f"Did {call.name} take effect? The worker was lost while it ran.",
                    call=call,
                    reasons=("the call was begun and its outcome is unknown",),
                    risk="high",
                    recommended="",
                    view={"tool": call.name, "arguments": to_plain(call.arguments)},
                )
            )

    # --- gates, checks, the end ---------------------------------------------------------------------------------

    async def _open_gate(self, effect: e.OpenGate) -> None:
        spec, call = self.state.spec, effect.call
        title, subject, view, version = effect.title, effect.subject, effect.view, spec.policy_version
        if call is not None and effect.kind not in {"question", "in_doubt"}:
            judgement = self._judgements.get(call.id) or await self.ports.tools.judge(call, self._context(call))
            title = title or _call_title(call)
            subject, version = judgement.subject, judgement.policy_version
            view = _call_view(call, self.specs) | dict(judgement.view)
        request = p.GateRequest(
            id=self.ports.new_id(),
            run_id=spec.run_id,
            project_id=spec.project_id,
            kind=effect.kind,
            title=title[:300],
            step=self.state.step,
            call_id=call.id if call else "",
            tool=call.name if call else "",
            reasons=effect.reasons,
            risk=effect.risk,
            recommended=effect.recommended,
            policy_version=version,
            subject=dict(subject) | {"run": spec.run_id, "kind": effect.kind, "seq": self.state.seq},
            view=dict(view) | {"reasoning": self.state.last_text[:4000]},
        )
        if effect.kind in {"tool_approval", "irreversible_action"}:
            request = replace(request, subject=subject)
        detail = {"limit": str(view["limit"])} if effect.kind == "limit_reached" else {}
        self._note(
            f.GateOpened(
                gate=request.id, kind=request.kind, title=request.title, call_id=request.call_id, detail=detail
            )
        )
        self._flush(self.ports.gatekeeper.open(request))

    async def _run_checks(self) -> None:
        """Acceptance criteria, measured: the schema first (cheap), then every command, in the sandbox (SPEC C6, L1, L2)."""
        spec = self.state.spec
        commands = [criterion for criterion in spec.criteria if criterion.command]
        self._note(f.ChecksStarted(count=len(spec.criteria)))
        self._flush()
        checks: list[f.Check] = []
        schema = check_schema(spec, self.state.result or "")
        if schema is not None:
            checks.append(schema)
        if schema is None or schema.status == "passed":
            for number, criterion in enumerate(commands):
                call = ToolCall(id=f"check{number}", name="run_command", arguments={"command": criterion.command})
                stream = OutputStream(self.ports.feed, self.state.step, call.id)
                try:
                    result = await self._interruptible(
                        self.ports.tools.execute(call, self._context(call), stream.on_output)
                    )
                finally:
                    stream.close()
                checks.append(_check(criterion.text, criterion.command, result))
        self._note(f.ChecksCompleted(checks=(*checks, *unproven(spec))))

    def _end(self, effect: e.End) -> None:
        """The artifact of the terminal state, the last transition and the provenance, in one transaction (SPEC A5, N1)."""
        came_from = self.state.phase
        phase = transition(came_from, effect.event)
        body = report(phase, self.state, effect.reason)
        self._note(f.PhaseEntered(phase=phase, event=effect.event, came_from=came_from))
        self._note(f.RunEnded(phase=phase, reason=effect.reason, report=body, report_kind=REPORT_KINDS[phase]))
        within = [self.ports.gatekeeper.withdraw(self.state.spec.run_id, effect.reason)]
        if phase is Phase.COMMIT:
            within.append(self.ports.archive.commit(self.state, body, self.state.last_at))
        self._flush(*within)


def idempotency_key(run_id: str, call: ToolCall) -> str:
    """Stable over retries of one call, different for every other call and for a fork (RELIABILITY 3.2)."""
    return hashlib.sha256(f"{run_id}|{call.id}|{call.name}|{sha256(to_plain(call.arguments))}".encode()).hexdigest()


def facts_of(mail: p.Mail, state: RunState) -> Sequence[f.Fact]:
    """What a mailbox item means in this state; an item that comes too late means nothing and is simply read."""
    match mail.kind:
        case "stop":
            return () if state.is_ended else (f.StopRequested(by=mail.by),)
        case "pause":
            return () if state.is_ended or state.paused else (f.RunPaused(by=mail.by),)
        case "resume":
            resumable = state.paused or state.phase is Phase.HALT
            return (f.RunResumed(by=mail.by),) if resumable else ()
        case "message":
            late = state.is_ended and state.phase is not Phase.HALT
            return () if late else (f.MessageReceived(text=str(mail.payload.get("text", "")), by=mail.by),)
        case "decision":
            gate = str(mail.payload.get("gate", ""))
            if state.is_ended or state.gate is None or state.gate.id != gate:
                return ()
            return (
                f.GateDecided(
                    gate=gate,
                    kind=state.gate.kind,
                    verdict=str(mail.payload.get("verdict", "")),
                    reason=str(mail.payload.get("reason", "")),
                    payload=dict(mail.payload.get("payload") or {}),
                    call_id=state.gate.call_id,
                    by=str(mail.payload.get("by") or mail.by),
                ),
            )
        case _:
            return ()


def _answer(effect: e.CallModel, model: str, reply: ModelReply) -> f.ModelAnswered:
    return f.ModelAnswered(
        role=effect.role,
        model=model,
        provider=reply.provider,
        model_id=reply.model_id,
        stop=reply.stop,
        usage=reply.usage,
        blocks=reply.blocks,
        text=reply.text,
        thinking=reply.thinking,
        calls=reply.calls,
        request_id=reply.request_id,
        raw_stop=reply.raw_stop,
        stop_detail=reply.stop_detail,
        first_token_ms=reply.first_token_ms,
        first_call_ms=reply.first_call_ms,
        duration_ms=reply.duration_ms,
    )


def _call_view(call: ToolCall, specs: Sequence[ToolSpec]) -> dict[str, Any]:
    """What a reviewer needs of any call: the whole arguments, and what kind of thing would happen."""
    view: dict[str, Any] = {"tool": call.name, "arguments": to_plain(call.arguments)}
    for spec in specs:
        if spec.name == call.name:
            view |= {"operation": spec.operation, "reversibility": spec.reversibility.value}
            view |= {"danger": spec.danger.value, "parameters_schema": to_plain(spec.parameters)}
    return view


def _call_title(call: ToolCall) -> str:
    main = next((str(call.arguments[key]) for key in ("command", "path", "source", "url") if key in call.arguments), "")
    return f"{call.name} {main}".strip()


def _check(text: str, command: str, result: ToolResult) -> f.Check:
    status = "passed" if result.ok else "failed" if result.exit_code is not None else "error"
    detail = "" if result.ok else f"{result.error}\n{result.content}".strip()[:4000]
    return f.Check(text=text, status=status, command=command, detail=detail, duration_ms=result.duration_ms)

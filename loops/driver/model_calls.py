"""Ask a model: the request is journalled before it is sent, the whole answer before anything of it is used (J1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from loops.crash_points import CrashPoint, reach
from loops.driver.context_window import requested
from loops.driver.interrupts import ANYTHING, Interrupted, Interrupts
from loops.driver.outages import Chosen, choose, heard, next_after
from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.encoding.canonical import encode
from loops.engine.encoding.replace import evolve
from loops.engine.facts import TOO_LONG
from loops.engine.failures.backoff import delay_s
from loops.engine.failures.breakers import MODEL
from loops.engine.measures.context_budget import is_small, window
from loops.engine.model_calls.thinking_signature import signed
from loops.engine.state.run import RunState
from loops.engine.text.truncation import shortened
from loops.engine.values import Block, ModelReply, ModelRequest
from loops.masking import known
from loops.streams import ModelStream

LONGEST_ANSWER_S = 1800.0
"""Providers that send a byte now and then are cut off as well."""


async def call_model(session: RunSession, interrupts: Interrupts, effect: e.CallModel) -> None:
    """One attempt at one answer. A person's stop or pause drops it; the next attempt asks again."""
    chosen = choose(session, effect.role)
    if isinstance(chosen, f.ModelAwaited):
        session.ports.turns.leave()
        session.note(chosen)
        return
    if before := session.ports.turns.take(chosen.model):
        session.note(f.TurnAwaited(role=effect.role, model=chosen.model, before=before))
        return
    session.note(_requested(session, effect, chosen))
    session.flush()
    reach(CrashPoint.MODEL_ASKED)
    await _attempt(session, interrupts, effect, chosen)


async def _attempt(session: RunSession, interrupts: Interrupts, effect: e.CallModel, chosen: Chosen) -> None:
    model = chosen.model
    request = session.transcript.request(
        role=effect.role, model=model, tools=session.specs, max_tokens=effect.max_tokens
    )
    stream = ModelStream(session.ports.feed, session.state.step, session.state.seq)
    try:
        reply = await _ask(session, interrupts, request, stream)
    except p.ModelError as error:
        _failed(session, error, effect, chosen)
    except TimeoutError:
        session.note(f.ModelInterrupted(reason="time limit"))
    except Interrupted as interrupted:
        session.note(f.ModelInterrupted(reason=interrupted.by))
        raise
    else:
        session.ports.breakers.succeeded(MODEL, model)
        reach(CrashPoint.MODEL_ANSWERED)
        session.note(_answer(effect, model, reply))
    finally:
        stream.close()
        session.ports.turns.leave()


async def _ask(session: RunSession, interrupts: Interrupts, request: ModelRequest, stream: ModelStream) -> ModelReply:
    seconds = min(_seconds_left(session.state), LONGEST_ANSWER_S)
    async with asyncio.timeout(seconds):
        work = session.ports.models.call(request, stream.on_event)
        return await interrupts.interruptible(work, what="the model call", within_s=seconds)


async def ask_aside(session: RunSession, interrupts: Interrupts, request: ModelRequest, within_s: float) -> ModelReply:
    """An answer that becomes no part of the conversation. Raises ModelError, TimeoutError or Interrupted."""
    async with turn_aside(session, interrupts, request.model, within_s), asyncio.timeout(within_s):
        work = session.ports.models.call(request, lambda event: None)
        return await interrupts.interruptible(work, what="a question aside", within_s=within_s)


@asynccontextmanager
async def turn_aside(session: RunSession, interrupts: Interrupts, model: str, within_s: float) -> AsyncIterator[None]:
    """A turn for a question that holds the worker: it stands in the same line. Raises TimeoutError or Interrupted."""
    turns = session.ports.turns
    try:
        async with asyncio.timeout(within_s):
            while turns.take(model):
                await interrupts.interruptible(
                    session.ports.clock.sleep(1), what="a turn at the model", within_s=within_s
                )
        yield
    finally:
        turns.leave()


async def wait(session: RunSession, interrupts: Interrupts, until: int) -> None:
    """Sleep through a backoff; mail, and the end of the worker, end the sleep, not the backoff."""
    session.flush()
    seconds = max(0.0, (until - session.now()) / 1e6)
    await interrupts.interruptible(session.ports.clock.sleep(seconds), ANYTHING, what="the backoff", within_s=seconds)
    session.note(f.BackoffEnded())


def _requested(session: RunSession, effect: e.CallModel, chosen: Chosen) -> f.ModelRequested:
    asked = requested(session, effect, chosen.model)
    return evolve(asked, fell_back_from=chosen.instead_of, because=chosen.because, probe=chosen.probe)


def _seconds_left(state: RunState) -> float:
    return max(1.0, state.limits.max_seconds - state.active_us / 1e6)


def _failed(session: RunSession, error: p.ModelError, effect: e.CallModel, chosen: Chosen) -> None:
    """Backoff only where the same model is asked again: a fallback is asked at once, an open breaker is waited for."""
    attempt, model = effect.attempt, chosen.model
    heard(session, model, error, chosen.probe)
    session.note(
        f.ModelFailed(
            kind=error.kind,
            code=error.code,
            message=shortened(error.message, 2000),
            attempt=attempt,
            status=error.status,
            retry_after_s=error.retry_after_s,
            model=model,
            next_model=next_after(session, effect.role, model),
            probe=chosen.probe,
            window=error.window,
            counted=error.counted,
        )
    )
    if error.window:
        _learn(session, model, error.window)
    state = session.state
    given_up = state.fatal or error.code in TOO_LONG or model in state.outage.given_up
    if not given_up and session.ports.breakers.refuses(MODEL, model) is None:
        seconds = delay_s(attempt, error.retry_after_s, session.state.spec.run_id)
        why = f"{error.code}: {shortened(error.message, 200)}"
        session.note(f.BackoffStarted(until=session.now() + int(seconds * 1e6), reason=why))


def _learn(session: RunSession, model: str, size: int) -> None:
    """Keep the window for the next runs, and say everything of this one in its short form where it is small."""
    session.ports.learnt(model, size)
    session.measure()
    ask, state = session.ports.short_prompt, session.state
    if ask is None or not is_small(window(state)):
        return
    system, version = ask(state.spec)
    if system == session.transcript.system:
        return
    whole = len(encode(system)) + session.tools_bytes + session.transcript.turns.size
    session.note(f.PromptShortened(system=system, prompt_version=version, size=whole, window=window(state)))
    session.measure()


def _is_seal_broken(block: Block) -> bool:
    """Thinking that has to be masked is none that its provider would take back."""
    return "thinking" in str(block.get("type")) and known().value(block) is not block


def _answer(effect: e.CallModel, model: str, reply: ModelReply) -> f.ModelAnswered:
    return f.ModelAnswered(
        role=effect.role,
        model=model,
        provider=reply.provider,
        model_id=reply.model_id,
        stop=reply.stop,
        usage=reply.usage,
        blocks=tuple(signed(block, model) for block in reply.blocks if not _is_seal_broken(block)),
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

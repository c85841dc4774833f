"""Ask a model: the request is journalled before it is sent, the whole answer before anything of it is used (J1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from loops.crash_points import CrashPoint, reach
from loops.driver.desk import Desk
from loops.driver.outages import Chosen, choose, heard, next_after
from loops.driver.watch import ANYTHING, Interrupted, Watch
from loops.driver.windowing import requested
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.breakers import MODEL
from loops.engine.canonical import encode
from loops.engine.evolving import evolve
from loops.engine.recovery.retry import delay_s
from loops.engine.state import RunState
from loops.engine.thinking import signed
from loops.engine.values import Block, ModelReply, ModelRequest
from loops.engine.windowing import TOO_LONG, is_small, window
from loops.masking import known
from loops.streaming import ModelStream

LONGEST_ANSWER_S = 1800.0
"""Providers that send a byte now and then are cut off as well."""


async def call_model(desk: Desk, watch: Watch, effect: e.CallModel) -> None:
    """One attempt at one answer. A person's stop or pause drops it; the next attempt asks again."""
    chosen = choose(desk, effect.role)
    if isinstance(chosen, f.ModelAwaited):
        desk.ports.turns.leave()
        desk.note(chosen)
        return
    if before := desk.ports.turns.take(chosen.model):
        desk.note(f.TurnAwaited(role=effect.role, model=chosen.model, before=before))
        return
    desk.note(_requested(desk, effect, chosen))
    desk.flush()
    reach(CrashPoint.MODEL_ASKED)
    await _attempt(desk, watch, effect, chosen)


async def _attempt(desk: Desk, watch: Watch, effect: e.CallModel, chosen: Chosen) -> None:
    model = chosen.model
    request = desk.transcript.request(role=effect.role, model=model, tools=desk.specs, max_tokens=effect.max_tokens)
    stream = ModelStream(desk.ports.feed, desk.state.step, desk.state.seq)
    try:
        reply = await _ask(desk, watch, request, stream)
    except p.ModelError as error:
        _failed(desk, error, effect, chosen)
    except TimeoutError:
        desk.note(f.ModelInterrupted(reason="time limit"))
    except Interrupted as interrupted:
        desk.note(f.ModelInterrupted(reason=interrupted.by))
        raise
    else:
        desk.ports.breakers.succeeded(MODEL, model)
        reach(CrashPoint.MODEL_ANSWERED)
        desk.note(_answer(effect, model, reply))
    finally:
        stream.close()
        desk.ports.turns.leave()


async def _ask(desk: Desk, watch: Watch, request: ModelRequest, stream: ModelStream) -> ModelReply:
    seconds = min(_seconds_left(desk.state), LONGEST_ANSWER_S)
    async with asyncio.timeout(seconds):
        work = desk.ports.models.call(request, stream.on_event)
        return await watch.interruptible(work, what="the model call", within_s=seconds)


async def ask_aside(desk: Desk, watch: Watch, request: ModelRequest, within_s: float) -> ModelReply:
    """An answer that becomes no part of the conversation. Raises ModelError, TimeoutError or Interrupted."""
    async with turn_aside(desk, watch, request.model, within_s), asyncio.timeout(within_s):
        work = desk.ports.models.call(request, lambda event: None)
        return await watch.interruptible(work, what="a question aside", within_s=within_s)


@asynccontextmanager
async def turn_aside(desk: Desk, watch: Watch, model: str, within_s: float) -> AsyncIterator[None]:
    """A turn for a question that holds the worker: it stands in the same line. Raises TimeoutError or Interrupted."""
    turns = desk.ports.turns
    try:
        async with asyncio.timeout(within_s):
            while turns.take(model):
                await watch.interruptible(desk.ports.clock.sleep(1), what="a turn at the model", within_s=within_s)
        yield
    finally:
        turns.leave()


async def wait(desk: Desk, watch: Watch, until: int) -> None:
    """Sleep through a backoff; mail, and the end of the worker, end the sleep, not the backoff."""
    desk.flush()
    seconds = max(0.0, (until - desk.now()) / 1e6)
    await watch.interruptible(desk.ports.clock.sleep(seconds), ANYTHING, what="the backoff", within_s=seconds)
    desk.note(f.BackoffEnded())


def _requested(desk: Desk, effect: e.CallModel, chosen: Chosen) -> f.ModelRequested:
    asked = requested(desk, effect, chosen.model)
    return evolve(asked, fell_back_from=chosen.instead_of, because=chosen.because, probe=chosen.probe)


def _seconds_left(state: RunState) -> float:
    return max(1.0, state.limits.max_seconds - state.active_us / 1e6)


def _failed(desk: Desk, error: p.ModelError, effect: e.CallModel, chosen: Chosen) -> None:
    """Backoff only where the same model is asked again: a fallback is asked at once, an open breaker is waited for."""
    attempt, model = effect.attempt, chosen.model
    heard(desk, model, error, chosen.probe)
    desk.note(
        f.ModelFailed(
            kind=error.kind,
            code=error.code,
            message=error.message[:2000],
            attempt=attempt,
            status=error.status,
            retry_after_s=error.retry_after_s,
            model=model,
            next_model=next_after(desk, effect.role, model),
            probe=chosen.probe,
            window=error.window,
            counted=error.counted,
        )
    )
    if error.window:
        _learn(desk, model, error.window)
    state = desk.state
    given_up = state.fatal or error.code in TOO_LONG or model in state.outage.given_up
    if not given_up and desk.ports.breakers.refuses(MODEL, model) is None:
        seconds = delay_s(attempt, error.retry_after_s, desk.state.spec.run_id)
        why = f"{error.code}: {error.message[:200]}"
        desk.note(f.BackoffStarted(until=desk.now() + int(seconds * 1e6), reason=why))


def _learn(desk: Desk, model: str, size: int) -> None:
    """Keep the window for the next runs, and say everything of this one in its short form where it is small."""
    desk.ports.learnt(model, size)
    desk.measure()
    ask, state = desk.ports.short_prompt, desk.state
    if ask is None or not is_small(window(state)):
        return
    system, version = ask(state.spec)
    if system == desk.transcript.system:
        return
    whole = len(encode(system)) + desk.tools_bytes + desk.transcript.turns.size
    desk.note(f.PromptShortened(system=system, prompt_version=version, size=whole, window=window(state)))
    desk.measure()


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

"""Ask a model: the request is journalled before it is sent, the whole answer before anything of it is used (J1)."""

from __future__ import annotations

import asyncio

from loops.crash_points import CrashPoint, reach
from loops.driver.desk import Desk
from loops.driver.watch import ANYTHING, Interrupted, Watch
from loops.driver.windowing import requested
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.retry import delay_s
from loops.engine.state import RunState
from loops.engine.values import ModelReply, ModelRequest
from loops.streaming import ModelStream

LONGEST_ANSWER_S = 1800.0
"""Providers that send a byte now and then are cut off as well."""


async def call_model(desk: Desk, watch: Watch, effect: e.CallModel) -> None:
    """One attempt at one answer. A person's stop or pause drops it; the next attempt asks again."""
    model = desk.state.spec.model_for(effect.role.value)
    desk.note(requested(desk, effect, model))
    desk.flush()
    request = desk.transcript.request(role=effect.role, model=model, tools=desk.specs, max_tokens=effect.max_tokens)
    reach(CrashPoint.MODEL_ASKED)
    stream = ModelStream(desk.ports.feed, desk.state.step, desk.state.seq)
    try:
        reply = await _ask(desk, watch, request, stream)
    except p.ModelError as error:
        _failed(desk, error, effect.attempt)
    except TimeoutError:
        desk.note(f.ModelInterrupted(reason="time limit"))
    except Interrupted as interrupted:
        desk.note(f.ModelInterrupted(reason=interrupted.by))
        raise
    else:
        reach(CrashPoint.MODEL_ANSWERED)
        desk.note(_answer(effect, model, reply))
    finally:
        stream.close()


async def _ask(desk: Desk, watch: Watch, request: ModelRequest, stream: ModelStream) -> ModelReply:
    seconds = min(_seconds_left(desk.state), LONGEST_ANSWER_S)
    async with asyncio.timeout(seconds):
        work = desk.ports.models.call(request, stream.on_event)
        return await watch.interruptible(work, what="the model call", within_s=seconds)


async def ask_aside(desk: Desk, watch: Watch, request: ModelRequest, within_s: float) -> ModelReply:
    """An answer that becomes no part of the conversation. Raises ModelError, TimeoutError or Interrupted."""
    async with asyncio.timeout(within_s):
        work = desk.ports.models.call(request, lambda event: None)
        return await watch.interruptible(work, what="a question aside", within_s=within_s)


async def wait(desk: Desk, watch: Watch, until: int) -> None:
    """Sleep through a backoff; mail, and the end of the worker, end the sleep, not the backoff."""
    desk.flush()
    seconds = max(0.0, (until - desk.now()) / 1e6)
    await watch.interruptible(desk.ports.clock.sleep(seconds), ANYTHING, what="the backoff", within_s=seconds)
    desk.note(f.BackoffEnded())


def _seconds_left(state: RunState) -> float:
    return max(1.0, state.limits.max_seconds - state.active_us / 1e6)


def _failed(desk: Desk, error: p.ModelError, attempt: int) -> None:
    desk.note(
        f.ModelFailed(
            kind=error.kind,
            code=error.code,
            message=error.message[:2000],
            attempt=attempt,
            status=error.status,
            retry_after_s=error.retry_after_s,
        )
    )
    if not desk.state.fatal and not desk.state.windowing.too_long:
        seconds = delay_s(attempt, error.retry_after_s, desk.state.spec.run_id)
        why = f"{error.code}: {error.message[:200]}"
        desk.note(f.BackoffStarted(until=desk.now() + int(seconds * 1e6), reason=why))


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

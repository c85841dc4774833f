"""Ask a model about a failure that no rule is sure of: journalled before and after (SPEC E1)."""

from __future__ import annotations

from loops.driver.interrupts import Interrupts
from loops.driver.model_calls import ask_aside
from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.context_window.messages import message_of
from loops.engine.context_window.transcript import one_line, text_block
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.encoding.replace import evolve
from loops.engine.failures.llm_classifier import (
    fingerprint,
    parse_answer,
    question,
)
from loops.engine.failures.second_opinion import ANSWER_TOKENS, model
from loops.engine.values import ModelReply, ModelRequest, ModelRole

LONGEST_S = 20.0
"""A run waits no longer for a tie to be broken: the rule's verdict costs nothing."""


async def classify_failure(session: RunSession, interrupts: Interrupts, effect: e.ClassifyFailure) -> None:
    """One question. What goes wrong with it is its answer; a person's stop or pause drops it for good."""
    state, (system, version) = session.state, session.ports.classifier_prompt
    request = ModelRequest(
        role=ModelRole.CLASSIFIER,
        model=model(state),
        system=system,
        messages=(message_of("user", [text_block(question(effect.failure))]),),
        max_tokens=ANSWER_TOKENS,
    )
    about = fingerprint(effect.failure)
    session.note(
        f.ClassificationRequested(
            call_id=effect.call_id,
            fingerprint=about,
            model=request.model,
            request_sha256=sha256(to_plain(request)),
            prompt_version=version,
        )
    )
    session.flush()
    given = f.ClassificationGiven(fingerprint=about, model=request.model)
    seconds = min(LONGEST_S, max(1.0, state.limits.max_seconds - state.active_us / 1e6))
    try:
        reply = await ask_aside(session, interrupts, request, seconds)
    except p.ModelError as error:
        given = evolve(given, problem=one_line(f"it did not answer: {error.code}: {error.message}"))
    except TimeoutError:
        given = evolve(given, problem=f"it did not answer within {seconds:g} s")
    else:
        given = _read(given, reply)
    session.note(given)


def _read(given: f.ClassificationGiven, reply: ModelReply) -> f.ClassificationGiven:
    kind = parse_answer(reply.text)
    return evolve(
        given,
        kind=kind,
        problem="" if kind else "its answer is not one of the four classes",
        usage=reply.usage,
        provider=reply.provider,
        model_id=reply.model_id,
        request_id=reply.request_id,
        duration_ms=reply.duration_ms,
    )

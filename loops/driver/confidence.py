"""Judge a run's confidence: measured always, asked of a model where there is one, journalled before and after (G2)."""

from __future__ import annotations

from loops.driver.interrupts import STOP_OR_PAUSE, Interrupts, TookTooLong
from loops.driver.model_calls import turn_aside
from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.confidence import score
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.values import ModelRole

LONGEST_S = 120.0
"""A second opinion is worth no more waiting than this."""


async def check_confidence(session: RunSession, interrupts: Interrupts, effect: e.CheckConfidence) -> None:
    """One judgement. A person's stop or pause drops it, and it is asked for again when the run goes on; whatever else
    goes wrong with the model leaves the measured ceiling, and says so."""
    state = session.state
    opinion = await _opinion(session, interrupts, effect)
    found = score.features(state)
    ceiling = score.ceiling_of(found, score.WEIGHTS)
    against = "; ".join(score.in_words(found, score.WEIGHTS)) or "nothing measured speaks against it"
    session.note(
        f.ConfidenceChecked(
            step=state.step,
            trigger=effect.trigger,
            score=score.score_of(ceiling, opinion.score),
            raw_score=opinion.score,
            ceiling=ceiling,
            threshold=state.spec.confidence.threshold,
            method="measured" if opinion.score is None else "model",
            reason=opinion.reason or against,
            features=found,
            weights=dict(score.WEIGHTS),
            version=score.VERSION,
            progress=opinion.progress,
            problem=opinion.problem,
            usage=opinion.usage,
            model=_model(session) if opinion.provider else "",
            provider=opinion.provider,
            model_id=opinion.model_id,
            request_id=opinion.request_id,
            duration_ms=opinion.duration_ms,
        )
    )


async def _opinion(session: RunSession, interrupts: Interrupts, effect: e.CheckConfidence) -> p.Opinion:
    state, orchestrator = session.state, session.ports.orchestrator
    if orchestrator is None or not state.spec.confidence.by_model:
        return p.Opinion(None)
    if not score.can_be_afforded(state):
        return p.Opinion(None, problem="Too little is left of the budget to ask a model.")
    goal, model = state.spec.goal, _model(session)
    request = orchestrator.confidence_request(score.evidence(state), goal=goal, model=model)
    asked = f.ConfidenceRequested(
        step=state.step, trigger=effect.trigger, model=model, request_sha256=sha256(to_plain(request))
    )
    session.note(asked)
    session.flush()
    seconds = min(LONGEST_S, max(1.0, state.limits.max_seconds - state.active_us / 1e6))
    try:
        async with turn_aside(session, interrupts, model, seconds):
            work = orchestrator.evaluate_confidence(request)
            return await interrupts.interruptible(work, STOP_OR_PAUSE, what="the confidence check", within_s=seconds)
    except (TookTooLong, TimeoutError):
        return p.Opinion(None, problem=f"The model did not answer within {seconds:g} s.")


def _model(session: RunSession) -> str:
    return session.state.spec.model_for(ModelRole.CONFIDENCE.value)

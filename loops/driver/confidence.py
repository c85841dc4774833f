"""Judge a run's confidence: measured always, asked of a model where there is one, journalled before and after (G2)."""

from __future__ import annotations

from loops.driver.desk import Desk
from loops.driver.model_calls import turn_aside
from loops.driver.watch import STOP_OR_PAUSE, TookTooLong, Watch
from loops.engine import confidence
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.canonical import sha256
from loops.engine.codec import to_plain
from loops.engine.values import ModelRole

LONGEST_S = 120.0
"""A second opinion is worth no more waiting than this."""


async def check_confidence(desk: Desk, watch: Watch, effect: e.CheckConfidence) -> None:
    """One judgement. A person's stop or pause drops it, and it is asked for again when the run goes on; whatever else
    goes wrong with the model leaves the measured ceiling, and says so."""
    state = desk.state
    opinion = await _opinion(desk, watch, effect)
    found = confidence.features(state)
    ceiling = confidence.ceiling_of(found, confidence.WEIGHTS)
    against = "; ".join(confidence.in_words(found, confidence.WEIGHTS)) or "nothing measured speaks against it"
    desk.note(
        f.ConfidenceChecked(
            step=state.step,
            trigger=effect.trigger,
            score=confidence.score_of(ceiling, opinion.score),
            raw_score=opinion.score,
            ceiling=ceiling,
            threshold=state.spec.confidence.threshold,
            method="measured" if opinion.score is None else "model",
            reason=opinion.reason or against,
            features=found,
            weights=dict(confidence.WEIGHTS),
            version=confidence.VERSION,
            progress=opinion.progress,
            problem=opinion.problem,
            usage=opinion.usage,
            model=_model(desk) if opinion.provider else "",
            provider=opinion.provider,
            model_id=opinion.model_id,
            request_id=opinion.request_id,
            duration_ms=opinion.duration_ms,
        )
    )


async def _opinion(desk: Desk, watch: Watch, effect: e.CheckConfidence) -> p.Opinion:
    state, orchestrator = desk.state, desk.ports.orchestrator
    if orchestrator is None or not state.spec.confidence.by_model:
        return p.Opinion(None)
    if not confidence.can_be_afforded(state):
        return p.Opinion(None, problem="Too little is left of the budget to ask a model.")
    goal, model = state.spec.goal, _model(desk)
    request = orchestrator.confidence_request(confidence.evidence(state), goal=goal, model=model)
    asked = f.ConfidenceRequested(
        step=state.step, trigger=effect.trigger, model=model, request_sha256=sha256(to_plain(request))
    )
    desk.note(asked)
    desk.flush()
    seconds = min(LONGEST_S, max(1.0, state.limits.max_seconds - state.active_us / 1e6))
    try:
        async with turn_aside(desk, watch, model, seconds):
            work = orchestrator.evaluate_confidence(request)
            return await watch.interruptible(work, STOP_OR_PAUSE, what="the confidence check", within_s=seconds)
    except (TookTooLong, TimeoutError):
        return p.Opinion(None, problem=f"The model did not answer within {seconds:g} s.")


def _model(desk: Desk) -> str:
    return desk.state.spec.model_for(ModelRole.CONFIDENCE.value)

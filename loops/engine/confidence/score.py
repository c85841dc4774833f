"""When a run's confidence is judged, how high it may be at most, and when a person has to be asked (SPEC G2). Pure.

    ceiling = 1 - sum(weight_j * feature_j), features 0 (good) to 1 (bad), computed from the state alone
    score   = min(ceiling, what the model says of itself)

A model that is asked about its own chances can lower its score and never lift it above what was measured. Features and
weights are stored with each score, so that anybody can compute it again: ``ceiling_of(features, weights)``.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping

from loops.engine.confidence.bands import CALIBRATED, SAID, band, in_a_word
from loops.engine.effects import CheckConfidence, Effect, OpenGate
from loops.engine.measures import limits
from loops.engine.state.loop_escalation import is_helped
from loops.engine.state.measures import Confidence
from loops.engine.state.run import RunState
from loops.engine.text.truncation import shortened
from loops.engine.values import Json

GATE = "low_confidence"
VERSION = "2"
WEIGHTS: Mapping[str, float] = {
    "failures_in_row": 0.35,
    "same_error": 0.25,
    "no_progress": 0.2,
    "tests_failing": 0.15,
    "repairs": 0.2,
    "budget": 0.15,
}
"""What each feature takes off at its worst, by hand; ``make eval-confidence`` measures what it is worth. Another set of
weights, or another meaning of a feature, is another ``VERSION``."""
LOWEST_CEILING = 0.05
STALLED_AFTER = 10
"""Steps without progress at which that feature is at its worst."""
SAME_ERRORS = 3
"""Steps in a row with the same error at which that feature is at its worst."""
BUDGET_FROM = 0.8
"""Share of a budget that is used before it counts against the run (SPEC D3)."""
TITLE_CHARS = 160
APART = 2
"""Steps between two checks that only the model itself calls for: doubt in every answer is not judged in each."""
ROOM = 16_384
"""Tokens that must be left before a model is asked: more than its request and answer can take."""


def check_confidence(state: RunState) -> Effect | None:
    """The gate of a low score, or the check that is due; for the table of what stands before a request."""
    if state.confidence.low:
        return _ask_a_person(state)
    trigger = due(state)
    return CheckConfidence(trigger) if trigger else None


def due(state: RunState) -> str:
    """Why the confidence is to be judged now: "request", "every_steps", "uncertain", or "" when it is not.

    An agent says that it is uncertain in a field of its own, in any language; its text is not searched for such words.
    """
    seen, every = state.confidence, state.spec.confidence.every_steps
    if seen.asked:
        return "request"
    if not every or state.step_is_open or state.step < seen.quiet_until or is_helped(state.circle, state.step):
        return ""
    since = state.step - seen.checked_at
    if since >= every:
        return "every_steps"
    return "uncertain" if since >= APART and state.unsure else ""


def features(state: RunState) -> dict[str, float]:
    """What speaks against the run, each from 0 to 1 with four decimals."""
    bounds, measured = state.limits, state.measured
    counts = measured.tests
    tests = counts.passed + counts.failed
    shares = [used / bound for name, (used, bound) in limits.usage(state).items() if bound and name != "max_failures"]
    found = {
        "failures_in_row": _failed_in_row(state) / max(1, bounds.max_failures),
        "same_error": (_same_error(state) - 1) / (SAME_ERRORS - 1),
        "no_progress": (state.step - measured.risen_at) / STALLED_AFTER,
        "tests_failing": counts.failed / tests if tests else 0.0,
        "repairs": state.repairs / max(1, bounds.max_repairs),
        "budget": (max(shares, default=0.0) - BUDGET_FROM) / (1 - BUDGET_FROM),
    }
    return {name: round(min(1.0, max(0.0, value)), 4) for name, value in found.items()}


def ceiling_of(found: Mapping[str, float], weights: Mapping[str, float]) -> float:
    """The most that any judgement may say; a feature without a weight counts nothing."""
    against = sum(weights.get(name, 0.0) * value for name, value in found.items())
    return round(min(1.0, max(LOWEST_CEILING, 1 - against)), 4)


def score_of(ceiling: float, raw: float | None) -> float:
    return ceiling if raw is None else min(ceiling, raw)


def in_words(found: Mapping[str, float], weights: Mapping[str, float]) -> tuple[str, ...]:
    """What speaks against the run, the heaviest first."""
    parts = sorted(((weights.get(name, 0.0) * value, name) for name, value in found.items()), reverse=True)
    return tuple(_SAID.get(name, name) for part, name in parts if part >= 0.005)


def can_be_afforded(state: RunState) -> bool:
    """Is enough left of the budgets to ask a model?"""
    paid = state.cost_microusd < state.limits.max_cost_microusd
    return paid and state.limits.max_tokens - state.tokens >= ROOM


def evidence(state: RunState) -> dict[str, Json]:
    """What a judge reads: bounded, and without the conversation, so that nobody talks it into anything."""
    return {
        "criteria": [
            {"text": shortened(one.text, 500), "command": shortened(one.command, 300)}
            for one in state.spec.criteria[:20]
        ],
        "step": state.step,
        "progress": round(state.progress, 4),
        "progress_method": state.progress_method,
        "measured_against_it": features(state),
        "latest_steps": latest_steps(state),
        "said_last": state.last_text[-2000:],
    }


def latest_steps(state: RunState) -> list[Json]:
    return [
        {
            "step": seen.step,
            "tools": list(seen.tools),
            "success": seen.success,
            "error": seen.error,
            "progress": round(seen.progress, 4),
        }
        for seen in state.confidence.latest
    ]


def _failed_in_row(state: RunState) -> int:
    """Of the latest steps; approaches that were given up are among them, for giving up makes no run surer of itself."""
    return sum(1 for _ in itertools.takewhile(lambda seen: not seen.success, reversed(state.confidence.latest)))


def _same_error(state: RunState) -> int:
    """How many of the latest steps ended in one and the same error."""
    last, count = "", 0
    for seen in reversed(state.confidence.latest):
        if not seen.signature or (last and seen.signature != last):
            break
        last, count = seen.signature, count + 1
    return count


def _ask_a_person(state: RunState) -> OpenGate:
    found, threshold = features(state), state.spec.confidence.threshold
    score, against = state.confidence.score, in_words(found, WEIGHTS)
    return OpenGate(
        kind=GATE,
        title=_title(state.confidence, against),
        reasons=(f"the confidence is {in_a_word(score, threshold)}; at low the policy asks a person", *against),
        risk="medium",
        recommended="respond",
        confidence=score,
        view={
            "band": band(score, threshold),
            "calibrated": CALIBRATED,
            "score": score,
            "threshold": threshold,
            "why": state.confidence.reason,
            "method": state.confidence.method,
            "features": found,
            "weights": dict(WEIGHTS),
            "version": VERSION,
            "latest_steps": latest_steps(state),
        },
    )


def _title(judged: Confidence, against: tuple[str, ...]) -> str:
    """What made it low: the model's reason, or the two heaviest things that were measured."""
    why = judged.reason if judged.method == "model" else "; ".join(against[:2])
    title = " ".join(f"Low confidence ({SAID}): {why or 'nothing measured says why'}".split())
    return title if len(title) <= TITLE_CHARS else f"{title[: TITLE_CHARS - 1]}…"


_SAID = {
    "failures_in_row": "steps failed in a row",
    "same_error": "the same error came again",
    "no_progress": "no progress for many steps",
    "tests_failing": "tests fail",
    "repairs": "repairs were needed",
    "budget": "a budget is nearly used up",
}

"""A model as tie-breaker where no rule is sure (SPEC E1): what it is asked, and how little its answer can change."""

from __future__ import annotations

import json
from dataclasses import replace

from loops.engine.errors.failure import Classified, Failure
from loops.engine.errors.recovery import first_decision
from loops.engine.values import FailureKind

ASKED_ABOUT = 3_000
"""Characters of the error that a model reads: half from the beginning, half from the end."""
LONGEST_ANSWER = 2_000
MODEL_RULE = "model_decided"


def question(failure: Failure) -> str:
    """The failure as one JSON object, for the place ``failure`` of the prompt ``classify``. Inside a JSON string a text
    can't end its own quotation, so what stands in it stays data."""
    half = ASKED_ABOUT // 2
    text = failure.text
    shown = text if len(text) <= ASKED_ABOUT else f"{text[:half]} … {text[-half:]}"
    return json.dumps(
        {
            "source": failure.source.value,
            "tool": failure.tool[:100],
            "exit_code": failure.exit_code,
            "http_status": failure.status,
            "code": failure.code[:100],
            "timed_out": failure.timed_out,
            "error": shown,
        },
    )


def parse_answer(text: str) -> FailureKind | None:
    """The class that a model named: ``{"kind": "..."}`` with one of the four, and nothing around it but white space
    or a code fence. None for anything else."""
    inner = text[:LONGEST_ANSWER].strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        answer = json.loads(inner)
        return FailureKind(answer["kind"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def settle(classified: Classified, answer: FailureKind | None) -> Classified:
    """What holds after a model was asked. It can decide only where no rule was certain, and never makes a CRITICAL
    failure less: a text that talks a model round gains nothing."""
    if answer is None or classified.certain or classified.kind is FailureKind.CRITICAL:
        return classified
    return replace(
        classified,
        kind=answer,
        decision=first_decision(answer),
        rule=MODEL_RULE,
        reason="No rule was sure; a model was asked.",
        person_can_help=False,
    )

"""A model as tie-breaker where no rule is sure (SPEC E1): what it is asked, and how little its answer can change."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from loops.engine.encoding import strict_json
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.fingerprints import exact_part, result_mark
from loops.engine.state.failure import Classified, Failure, SecondOpinion
from loops.engine.text.truncation import shortened
from loops.engine.values import FailureKind

ASKED_ABOUT = 3_000
"""Characters of the error that a model reads: half from the beginning, half from the end."""
LONGEST_ANSWER = 2_000


def is_open(classified: Classified) -> bool:
    """May a model decide? Only where no rule was sure, and never that a CRITICAL failure is less."""
    return not classified.certain and classified.kind is not FailureKind.CRITICAL


def fingerprint(failure: Failure) -> str:
    """The same for the same failure: moments, durations, addresses, ids and scratch files in its text do not count."""
    what = [failure.source, failure.tool, failure.exit_code, failure.status, failure.code, failure.timed_out]
    return sha256([*what, exact_part(result_mark(failure.text))])[:32]


def question(failure: Failure) -> str:
    """The failure as one JSON object, which is all that the model reads besides the prompt ``classify``. Inside a JSON
    string a text can't end its own quotation, so what stands in it stays data."""
    half = ASKED_ABOUT // 2
    text = failure.text
    shown = text if len(text) <= ASKED_ABOUT else f"{text[:half]} … {text[-half:]}"
    return json.dumps(
        {
            "source": failure.source.value,
            "tool": shortened(failure.tool, 100),
            "exit_code": failure.exit_code,
            "http_status": failure.status,
            "code": shortened(failure.code, 100),
            "timed_out": failure.timed_out,
            "error": shown,
        },
    )


def parse_answer(text: str) -> FailureKind | None:
    """The class that a model named: ``{"kind": "..."}`` with one of the four, and nothing around it but white space
    or a code fence. None for anything else."""
    inner = text[:LONGEST_ANSWER].strip().removeprefix("```json").removeprefix("```").removesuffix("```")
    try:
        answer: Any = strict_json.read(inner)
        return FailureKind(answer["kind"])
    except (ValueError, KeyError, TypeError):
        return None


def settle(classified: Classified, opinion: SecondOpinion) -> Classified:
    """What holds after a model was to be asked, and what each of the two said. A text that talks the model round gains
    little: no run ends on its word, since what it takes for unrecoverable is put before a person."""
    if not is_open(classified):
        return classified
    both = replace(
        classified,
        rule_kind=classified.kind,
        model=opinion.model,
        model_kind=opinion.kind,
        problem=opinion.problem,
    )
    if opinion.kind is None:
        return both
    return replace(
        both,
        kind=opinion.kind,
        reason=f"No rule was sure; a model took it as {opinion.kind.value}.",
        person_can_help=opinion.kind is FailureKind.UNRECOVERABLE,
    )

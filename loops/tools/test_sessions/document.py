"""A verdict's tests as they are kept, for a later check of the same run to compare with (ADR 0078). Pure."""

from __future__ import annotations

import json

from loops.engine.encoding import canonical
from loops.engine.values import Json
from loops.tools.test_sessions.session import VERSION, Outcome
from loops.tools.test_sessions.verdict import Verdict


def written(verdict: Verdict) -> bytes:
    document: dict[str, Json] = {
        "v": VERSION,
        "tests": {name: outcome.value for name, outcome in verdict.tests.items()},
        "deselected": list[Json](verdict.deselected),
        "lacking": list[Json](verdict.lacking),
    }
    return canonical.encode(document)


def outcomes(data: bytes) -> dict[str, Outcome]:
    """Of each test, by its name; nothing of what is no such document."""
    try:
        document = json.loads(data)
        return {str(name): Outcome(outcome) for name, outcome in document["tests"].items()}
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return {}

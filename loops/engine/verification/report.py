"""What the result of a criterion's command says of single tests (SPEC L1, ADR 0078)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from loops.engine.facts import ChecksCompleted, CriteriaTried, Fact
from loops.engine.values import Json

REPORT = "test_report"
"""In the data of a result: the hash of the list of its tests with their outcomes."""
COMPLETE = "tests_complete"
"""Every test that was to run did, every runner and the command ended well, and none that an earlier check saw is
missing or newly passed over."""
MISSING = "missing"
"""How many tests that an earlier check saw are not there any more."""
NOTED = "tests_noted"
"""Sentences for whoever reviews the work."""
OUTCOMES = "test_outcomes"
"""Of single tests by their names, where each session of a runner came to its end. Only a criterion's command has them,
and its data are kept by nobody."""
NEW = "tests_new"
"""The names of those among them that an earlier check did not see, where there was one."""
COMPARED = (CriteriaTried.__name__, ChecksCompleted.__name__)


def first_report(history: Iterable[Fact], command: str) -> str:
    """The hash of what the first check of this command saw, "" where none saw tests."""
    checks = (check for fact in history if isinstance(fact, CriteriaTried | ChecksCompleted) for check in fact.checks)
    return next((check.report for check in checks if check.command == command and check.report), "")


def seen_at_start(history: Iterable[Fact], command: str) -> bool:
    """Is what ``first_report`` names of the time before the work?"""
    tried = (check for fact in history if isinstance(fact, CriteriaTried) for check in fact.checks)
    return any(check.command == command and check.report for check in tried)


def notes(data: Mapping[str, Json]) -> str:
    """For the detail of a check."""
    found = data.get(NOTED)
    return "\n".join(map(str, found)) if isinstance(found, list) else ""


def outcomes(data: Mapping[str, Json]) -> Mapping[str, Json]:
    found = data.get(OUTCOMES)
    return found if isinstance(found, Mapping) else {}

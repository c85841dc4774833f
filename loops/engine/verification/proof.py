"""How well a check in a clean checkout proves its criterion (SPEC L2, X4, ADR 0079). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from loops.engine.facts import ChecksCompleted, CriteriaTried, Fact
from loops.engine.ports import Checkout
from loops.engine.state.check import CheckStatus
from loops.engine.state.evidence import Evidence
from loops.engine.text.truncation import shortened
from loops.engine.values import Json
from loops.engine.verification.report import COMPLETE, NOTED, REPORT, outcomes

NAMED, LONGEST = 5, 100
NO_REPORT = "Its command reports no single tests: only its exit code says that it holds."
NOT_WHOLE = "The report of its tests is not whole."
CANNOT_FAIL = "It held before the work began, so nothing shows that it would fail without the work."
HOLDS_AT_START = "It holds as well without what the run changed, with every file as it was when the run began."
FAILED_BEFORE = "Flaky: it failed at an earlier check, and no file has changed since."
ITSELF = "its command"
UNTRIED = "It was not tried before the work began, so nothing shows that it would fail without the work."


def held_before(history: Iterable[Fact], command: str) -> bool | None:
    """Did the command hold before the first request? None where that was not found out."""
    tried = (check for fact in history if isinstance(fact, CriteriaTried) for check in fact.checks)
    status = next((check.status for check in tried if check.command == command), None)
    return {CheckStatus.PASSED: True, CheckStatus.FAILED: False}.get(status) if status else None


def failed_in(earlier: Iterable[CriteriaTried | ChecksCompleted], command: str) -> bool:
    """Did the command fail in one of these?"""
    checks = (check for fact in earlier for check in fact.checks)
    return any(check.command == command and check.status is CheckStatus.FAILED for check in checks)


def of_checkout(data: Mapping[str, Json], before: bool | None, failed_on_same_files: bool) -> tuple[Evidence, str]:
    """(level, why it is not proved) of a command that holds there; ``data`` are those of its result."""
    if failed_on_same_files:
        return Evidence.CLAIMED, FAILED_BEFORE
    if not is_whole(data):
        return Evidence.SUPPORTED, NOT_WHOLE if data.get(REPORT) or data.get(NOTED) else NO_REPORT
    if before is not False:
        return Evidence.SUPPORTED, UNTRIED if before is None else CANNOT_FAIL
    return Evidence.PROVED, ""


def is_whole(data: Mapping[str, Json]) -> bool:
    """Did every test that was to run report itself, and the command end well?"""
    return bool(data.get(COMPLETE))


def holds_without(there: Checkout) -> str:
    """Of a command that does not notice when the work is broken, or is not there."""
    if not there.broken:
        return HOLDS_AT_START
    functions = listed(there.broken, there.broken_count)
    return f"It holds as well when the functions that the run changed raise an error: {functions}."


def shown_by_own_tests(there: Checkout) -> str:
    """Of a command whose tests of the start do not look at what changed."""
    functions = listed(there.broken, there.broken_count)
    return f"Only tests that the run wrote fail when the functions that it changed raise an error: {functions}."


def flaky(failed: Mapping[str, Json], held: Mapping[str, Json]) -> str:
    """Of a command with both results on the same files; these are their data."""
    was, now = outcomes(failed), outcomes(held)
    names = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name)) if was and now else []
    return f"Flaky: on the same files it failed, then passed. What changed its outcome: {listed(names) or ITSELF}."


def unsealed(why: str) -> str:
    """Of a command that could only run in the folder of the run."""
    return f"It ran in the folder that the run could change: {shortened(why.rstrip('.'), 300)}."


def fails_as_it_was(changed: Sequence[str], error: str) -> str:
    """Of a command that holds in the folder of the run alone."""
    return f"It fails with {listed(changed)} as when the run began: {shortened(error.rstrip('.'), 300)}."


def listed(paths: Sequence[str], count: int = 0) -> str:
    """``count``: of all, where these are the first."""
    rest = max(count, len(paths)) - NAMED
    more = f" and {rest:,} more" if rest > 0 else ""
    return ", ".join(shortened(path, LONGEST) for path in paths[:NAMED]) + more

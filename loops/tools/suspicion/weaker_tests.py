"""Tests before and after, compared: those that are gone, check less, or do not run. New tests are never suspicious."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from loops.engine.state.remark import Remark
from loops.engine.text.truncation import shortened
from loops.tools.suspicion.python_tests import Case, Check

VALUE = 80
ONLY_BEFORE = 5
"""Tests that are gone, named in one sentence."""


@dataclass(frozen=True)
class Tested:
    """The cases of one file, before and after; ``judges`` where all of it belongs to a test."""

    path: str
    before: Mapping[str, Case]
    after: Mapping[str, Case]


def compared(files: Sequence[Tested], removed_names: frozenset[str]) -> Iterator[Remark]:
    """``removed_names`` are functions of the library that the task had removed: their tests go with them."""
    moved = {
        case.short_name: case
        for one in files
        for name, case in one.after.items()
        if case.is_test and (name not in one.before or not one.before[name].is_test)
    }
    for one in files:
        gone = list[str]()
        for name, case in one.before.items():
            now = one.after.get(name)
            if case.is_test and (now is None or not now.is_test):
                now = moved.get(case.short_name) or (_renamed(case, one) if len(gone) < ONLY_BEFORE else None)
                if now is None and not case.mentions & removed_names:
                    gone.append(name)
            if now is not None:
                yield from weakened(one.path, case, now)
        yield from _gone(one.path, gone)


def _gone(path: str, gone: list[str]) -> Iterator[Remark]:
    if gone:
        more = f" and {len(gone) - ONLY_BEFORE} more" if len(gone) > ONLY_BEFORE else ""
        text = f"Removed, or not found by the test runner any more: {', '.join(gone[:ONLY_BEFORE])}{more}."
        yield Remark("test_removed", path, text)


def _renamed(case: Case, one: Tested) -> Case | None:
    """A new test of the same file with all that it checked."""
    wanted = Counter(check.key for check in case.checks)
    for name, now in one.after.items():
        if now.is_test and name not in one.before and wanted and wanted <= Counter(check.key for check in now.checks):
            return now
    return None


def weakened(path: str, before: Case, now: Case) -> Iterator[Remark]:
    """Of one test, or of what tests share, that stayed."""
    name = now.name or "the file itself"
    if len(now.skips) > len(before.skips):
        yield Remark("test_skipped", path, f"{name} is skipped, or may fail, and was not before.", now.skips[-1])
    if len(now.truths) > len(before.truths):
        yield Remark("assert_always_true", path, f"{name} has a check that is always true.", now.truths[-1])
    if len(now.swallowed) > len(before.swallowed):
        text = f"{name} catches the failure of its own checks."
        yield Remark("failure_swallowed", path, text, now.swallowed[-1])
    if now.parameters:
        missing = before.parameters - now.parameters
        if missing:
            yield Remark("cases_changed", path, f"{name}: {len(missing)} of its cases are gone or changed.", now.line)
    if len(now.checks) < len(before.checks) and not (now.parameters and not before.parameters):
        text = f"{name} checks less: {len(now.checks)} of {len(before.checks)} checks are left."
        yield Remark("checks_removed", path, text, now.line)
    elif difference := _difference(before.checks, now.checks):
        code, what, line = difference
        yield Remark(code, path, f"{name} {what}", line)


def _difference(before: Sequence[Check], now: Sequence[Check]) -> tuple[str, str, int] | None:
    """The first check that is looser, or expects something else."""
    kept = Counter((check.key, check.rank) for check in now)
    old = Counter((check.key, check.rank) for check in before)
    lost = [check for check in before if kept[check.key, check.rank] < old[check.key, check.rank]]
    new = [check for check in now if old[check.key, check.rank] < kept[check.key, check.rank]]
    by_subject: dict[tuple[str, ...], list[Check]] = {}
    for check in new:
        by_subject.setdefault(check.about, []).append(check)
    for check in lost:
        others = by_subject.get(check.about, [])
        if others and max(one.rank for one in others) < check.rank:
            return "check_loosened", "is less strict: it accepted one value and accepts more now.", others[0].line
        if others and check.expected and others[0].expected != check.expected:
            was, is_now = ", ".join(check.expected), ", ".join(others[0].expected) or "something else"
            return (
                "expectation_changed",
                f"expects {shortened(is_now, VALUE)} where it expected {shortened(was, VALUE)}.",
                others[0].line,
            )
        if check.about and check.expected:
            line = new[0].line if new else 0
            return "expectation_changed", "checks something else than before.", line
    return None

"""What the sessions of a command's test runners come to, computed outside of the sandbox (SPEC L1, L2, ADR 0078). Pure.

Whatever runs inside may add a session, and none can take one away: every session has to hold by itself, so that one
more makes a verdict worse, never better.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from loops.engine.text.truncation import shortened
from loops.tools.reports.report import LONGEST_NAME, MOST_FAILURES, Failure, Report
from loops.tools.test_sessions.session import Outcome, Session

_WORST_FIRST = (Outcome.FAILED, Outcome.XPASSED, Outcome.XFAILED, Outcome.SKIPPED, Outcome.PASSED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """``lacking`` says, in words for people, why the report tells less than a whole test run; it is empty where every
    session is whole. The others name tests: those that ran before and are not there now, those that were passed over
    or failed as expected and did not before, and those that the command itself left out."""

    tests: Mapping[str, Outcome] = field(default_factory=dict)
    messages: Mapping[str, str] = field(default_factory=dict)
    lacking: tuple[str, ...] = ()
    countable: bool = False
    """Tests were reported, and no session was cut short."""
    passed: bool = False
    """It is whole, every session and the command ended well, and a test passed in each session."""
    missing: tuple[str, ...] = ()
    new: tuple[str, ...] | None = None
    """Those that the earlier run did not see; None without one."""
    newly_skipped: tuple[str, ...] = ()
    newly_expected_to_fail: tuple[str, ...] = ()
    deselected: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """It passed, and what an earlier run saw is all there and was not passed over."""
        return self.passed and not (self.missing or self.newly_skipped or self.newly_expected_to_fail)

    def report(self) -> Report:
        """As counts."""
        of = {outcome: sum(one is outcome for one in self.tests.values()) for outcome in Outcome}
        failed = [name for name, outcome in self.tests.items() if outcome is Outcome.FAILED]
        return Report(
            passed=of[Outcome.PASSED] + of[Outcome.XPASSED],
            failed=of[Outcome.FAILED],
            skipped=of[Outcome.SKIPPED] + of[Outcome.XFAILED],
            failures=tuple(self._failure(name) for name in failed[:MOST_FAILURES]),
            source="reporter",
        )

    def _failure(self, name: str) -> Failure:
        place = shortened(name.partition("::")[0], LONGEST_NAME) if "::" in name else ""
        return Failure(shortened(name, LONGEST_NAME), self.messages.get(name, ""), place)


UNHEARD = Verdict()
"""Of a command that nobody listened to."""


def judge(sessions: Sequence[Session], exit_code: int, before: Mapping[str, Outcome] | None = None) -> Verdict:
    """``before``: tests with their outcomes as an earlier run of the same command reported them."""
    tests = _worst(sessions)
    messages: dict[str, str] = {}
    for session in sessions:
        messages |= {name: text for name, text in session.messages.items() if tests[name] == session.outcomes[name]}
    lacking = tuple(dict.fromkeys(why for session in sessions for why in _lacking(session, exit_code)))
    ended_well = exit_code == 0 and all(session.exit == 0 for session in sessions)
    earlier = before or {}
    return Verdict(
        tests=tests,
        messages=messages,
        lacking=lacking,
        countable=bool(tests) and all(session.exit is not None for session in sessions),
        passed=bool(sessions) and not lacking and ended_well and Outcome.FAILED not in tests.values(),
        missing=tuple(sorted(earlier.keys() - tests.keys())),
        new=tuple(sorted(tests.keys() - earlier.keys())) if earlier else None,
        newly_skipped=_newly(Outcome.SKIPPED, tests, earlier),
        newly_expected_to_fail=_newly(Outcome.XFAILED, tests, earlier),
        deselected=tuple(sorted({name for session in sessions for name in session.deselected} - tests.keys())),
    )


def _worst(sessions: Sequence[Session]) -> dict[str, Outcome]:
    """A test that several sessions ran has the worst of its outcomes."""
    found: dict[str, Outcome] = {}
    for session in sessions:
        for name, outcome in session.outcomes.items():
            found[name] = min(found.get(name, outcome), outcome, key=_WORST_FIRST.index)
    return found


def _newly(outcome: Outcome, tests: Mapping[str, Outcome], before: Mapping[str, Outcome]) -> tuple[str, ...]:
    return tuple(sorted(name for name, now in tests.items() if now is outcome and before.get(name, now) is not outcome))


def _lacking(session: Session, exit_code: int) -> Iterator[str]:
    """Why one session tells less than a whole test run."""
    runner, ran = session.runner or "a test runner", len(session.outcomes)
    if session.exit is None:
        yield f"{runner} was cut short after {counted(ran)}"
        return
    unfinished = len((session.collected or frozenset()) - session.outcomes.keys())
    if unfinished:
        yield f"{runner} collected {counted(unfinished)} without an outcome"
    failed = Outcome.FAILED in session.outcomes.values()
    if session.exit == 0 and failed:
        yield f"{runner} ended as if every test had passed, and one failed"
    if session.exit != 0 and exit_code == 0:
        yield f"{runner} ended with {session.exit}, and the command as if it had passed"
    if Outcome.PASSED not in session.outcomes.values() and not failed:
        yield f"{runner} ended without a test that passed or failed"


NAMED = 5
"""Tests that a sentence about several of them names."""


def noted(verdict: Verdict) -> list[str]:
    """What a reviewer should hear of the tests, a sentence each; nothing of a whole run that is like the one before."""
    found = [f"The test report is not whole: {why}." for why in verdict.lacking]
    if not verdict.countable:
        return found
    for names, what in (
        (verdict.missing, "seen before and not there any more"),
        (verdict.newly_skipped, "skipped, and not before"),
        (verdict.newly_expected_to_fail, "expected to fail, and not before"),
        (verdict.deselected, "left out by the command"),
    ):
        if names:
            shown = ", ".join(shortened(name, LONGEST_NAME) for name in names[:NAMED])
            more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
            found.append(f"{counted(len(names))} {what}: {shown}{more}.")
    return found


def counted(tests: int) -> str:
    return f"{tests:,} test{'' if tests == 1 else 's'}"

"""What is read of a report by hostile hands, and what a verdict makes of it (SPEC L1, L2)."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.facts import ChecksCompleted, CriteriaTried
from loops.engine.state.check import Check, CheckStatus
from loops.engine.verification.report import first_report
from loops.tools.builtin.test_comparison import compared
from loops.tools.registry import ToolRun
from loops.tools.test_sessions import session as bounds
from loops.tools.test_sessions.document import outcomes, written
from loops.tools.test_sessions.session import Outcome, Room, Session, SessionReader, Unusable
from loops.tools.test_sessions.verdict import Verdict, judge, noted

pytestmark = pytest.mark.spec("L1", "L2")
START = {"event": "start", "v": 1, "runner": "pytest", "pid": 1}
END = {"event": "end", "exit": 0}


def lines(*events: object) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def ran(name: str, outcome: str = "passed", **more: object) -> dict[str, object]:
    return {"event": "test", "id": name, "outcome": outcome, **more}


def read(data: bytes, room: Room | None = None) -> Session:
    reading = SessionReader(room or Room())
    reading.feed(data)
    return reading.session()


# --- one session ------------------------------------------------------------------------------------------------------


def test_a_session_is_read_to_its_end() -> None:
    collected = {"event": "collected", "tests": ["a", "b"], "deselected": ["c"]}
    found = read(lines(START, collected, ran("a"), ran("b", "failed", message="no\x1b[0m"), END | {"exit": 1}))
    assert found == Session(
        "pytest",
        frozenset({"a", "b"}),
        frozenset({"c"}),
        {"a": Outcome.PASSED, "b": Outcome.FAILED},
        {"b": "no\\x1b[0m"},
        1,
    )


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\xff\n", "not UTF-8"),
        (b"{\n", "not JSON"),
        (b"[" * 60_000 + b"\n", "not JSON"),
        (b"[]\n", "not a JSON object"),
        (b"x" * (bounds.LONGEST_LINE + 1), "a line has more than 65,536 bytes"),
        (b"x" * (bounds.LONGEST_LINE + 1) + b"\n", "a line has more than 65,536 bytes"),
        (lines(ran("a")), "does not begin"),
        (lines(START, START), "begins more than once"),
        (lines(START | {"v": 2}), "not of version 1"),
        (lines(START, {"event": "else"}), "none that is known"),
        (lines(START, ran("a", "perfect")), "outcome"),
        (lines(START, ran("a", "failed"), ran("a")), "ends twice"),
        (lines(START, ran("")), 'no "id"'),
        (lines(START, {"event": "collected", "tests": [1]}), 'no "tests"'),
        (lines(START, {"event": "end", "exit": True}), 'no "exit"'),
        (lines(START, END, ran("a")), "follows the end"),
        (lines(START, END) + b"{", "follows the end"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[:20].decode(errors="replace"),
)
def test_what_is_no_report_makes_all_of_it_unusable(data: bytes, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        read(data)


def test_bounds_hold_for_all_sessions_together() -> None:
    with pytest.raises(Unusable, match="more than 200,000 tests"):
        read(lines(START, ran("a"), ran("b")), Room(tests=1))
    with pytest.raises(Unusable, match="more than 20,971,520 bytes"):
        read(lines(START), Room(bytes=10))
    room = Room()
    for _ in range(bounds.MOST_SESSIONS):
        SessionReader(room)
    with pytest.raises(Unusable, match="more than 64 sessions"):
        SessionReader(room)


@given(
    st.binary(max_size=400)
    | st.lists(st.sampled_from([START, END, ran("a"), ran("b")]), max_size=5).map(lambda x: lines(*x))
)
def test_bytes_are_read_or_refused_and_in_whatever_pieces_they_come(data: bytes) -> None:
    def result(pieces: list[bytes]) -> Session | str:
        reading = SessionReader(Room())
        try:
            for piece in pieces:
                reading.feed(piece)
        except Unusable as why:
            return str(why)
        return reading.session()

    assert result([data]) == result([data[at : at + 1] for at in range(len(data))])


# --- the verdict ------------------------------------------------------------------------------------------------------

GOOD = Session("pytest", frozenset({"a"}), outcomes={"a": Outcome.PASSED}, exit=0)
sessions = st.builds(
    Session,
    st.sampled_from(["pytest", "node"]),
    st.none() | st.frozensets(st.sampled_from("abc"), max_size=3),
    st.frozensets(st.sampled_from("cd"), max_size=1),
    st.dictionaries(st.sampled_from("abc"), st.sampled_from(Outcome), max_size=3),
    st.just({}),
    st.sampled_from([None, 0, 0, 0, 1]),
)


def test_a_whole_run_that_passed() -> None:
    verdict = judge([GOOD], 0)
    assert (verdict.passed, verdict.countable, verdict.lacking, noted(verdict)) == (True, True, (), [])


@pytest.mark.parametrize(
    ("session", "exit_code", "why"),
    [
        (replace(GOOD, exit=None), 0, "pytest was cut short after 1 test"),
        (replace(GOOD, collected=frozenset("abc")), 0, "pytest collected 2 tests without an outcome"),
        (replace(GOOD, outcomes={"a": Outcome.FAILED}), 1, "ended as if every test had passed, and one failed"),
        (replace(GOOD, exit=1), 0, "pytest ended with 1, and the command as if it had passed"),
        (replace(GOOD, outcomes={"a": Outcome.SKIPPED}), 0, "pytest ended without a test that passed or failed"),
        (replace(GOOD, collected=None, outcomes={}), 0, "pytest ended without a test that passed or failed"),
    ],
)
def test_each_refusal_has_its_words(session: Session, exit_code: int, why: str) -> None:
    for some in ([session], [GOOD, session]):
        verdict = judge(some, exit_code)
        assert not verdict.passed
        assert any(why in one for one in verdict.lacking), verdict.lacking
        assert f"The test report is not whole: {verdict.lacking[0]}." in noted(verdict)


def test_a_reviewer_hears_what_became_of_the_tests() -> None:
    before = dict.fromkeys(["a", "b", "gone", "gone too"], Outcome.PASSED)
    now = {"a": Outcome.SKIPPED, "b": Outcome.XFAILED, "c": Outcome.PASSED}
    verdict = judge([Session("pytest", None, frozenset({"d"}), now, {}, 0)], 0, before)
    assert noted(verdict) == [
        "2 tests seen before and not there any more: gone, gone too.",
        "1 test skipped, and not before: a.",
        "1 test expected to fail, and not before: b.",
        "1 test left out by the command: d.",
    ]


def test_counts_name_the_failures() -> None:
    now = {"t.py::a": Outcome.FAILED, "b": Outcome.XPASSED, "c": Outcome.XFAILED, "d": Outcome.SKIPPED}
    report = judge([Session("pytest", outcomes=now, messages={"t.py::a": "no"}, exit=1)], 1).report()
    assert (report.passed, report.failed, report.skipped, report.source) == (1, 1, 2, "reporter")
    assert [(one.name, one.message, one.location) for one in report.failures] == [("t.py::a", "no", "t.py")]


@given(st.lists(sessions, min_size=1, max_size=4), sessions, st.sampled_from([0, 0, 1, -1]))
def test_one_more_session_never_makes_a_verdict_better(some: list[Session], more: Session, code: int) -> None:
    before, after = judge(some, code), judge([*some, more], code)
    assert before.passed or not after.passed
    assert set(before.lacking) <= set(after.lacking)
    assert {name for name, one in before.tests.items() if one is Outcome.FAILED} <= {
        name for name, one in after.tests.items() if one is Outcome.FAILED
    }


@given(st.lists(sessions, max_size=4), st.sampled_from([0, 0, 1, -1]))
def test_nothing_passes_without_a_test_that_passed_in_each_session(some: list[Session], code: int) -> None:
    if judge(some, code).passed:
        assert some
        assert code == 0
        assert all(Outcome.PASSED in one.outcomes.values() and one.exit == 0 for one in some)
        assert all(Outcome.FAILED not in one.outcomes.values() for one in some)
        assert all((one.collected or frozenset()) <= one.outcomes.keys() for one in some)


# --- kept for later ---------------------------------------------------------------------------------------------------


def test_what_is_kept_is_read_again() -> None:
    verdict = judge([GOOD, replace(GOOD, outcomes={"\u00e4 #2": Outcome.XFAILED}, collected=None)], 0)
    assert outcomes(written(verdict)) == verdict.tests


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"tests": 1}', b'{"tests": {"a": "perfect"}}', b"\xff"])
def test_what_is_no_list_of_tests_is_none(data: bytes) -> None:
    assert outcomes(data) == {}


def test_checks_are_compared_with_the_first_that_saw_tests() -> None:
    def check(report: str, command: str = "pytest") -> Check:
        return Check("It works", CheckStatus.PASSED, command, report=report)

    history = [
        CriteriaTried(checks=(check(""), check("other", "make"))),
        ChecksCompleted(checks=(check("first"),)),
        ChecksCompleted(checks=(check("second"),)),
    ]
    assert first_report(history, "pytest") == "first"
    assert first_report(history, "tox") == ""


@pytest.mark.parametrize(
    ("heard", "whole"),
    [
        (Verdict({"a": Outcome.PASSED}, countable=True, passed=True), True),
        (Verdict({"a": Outcome.PASSED}, countable=True, passed=True, deselected=("b",)), True),
        (Verdict({"a": Outcome.PASSED}, countable=True, passed=False), False),
        (Verdict({"a": Outcome.PASSED}, countable=True, passed=True, missing=("b",)), False),
        (Verdict({"a": Outcome.PASSED}, countable=True, passed=True, newly_skipped=("b",)), False),
        (Verdict({"a": Outcome.PASSED}, countable=True, passed=True, newly_expected_to_fail=("b",)), False),
    ],
)
def test_only_a_whole_report_counts_as_one(heard: Verdict, whole: bool) -> None:
    run = cast("ToolRun", SimpleNamespace(save_blob=lambda data: "its name"))
    assert compared(heard, run).get("tests_complete", False) is whole

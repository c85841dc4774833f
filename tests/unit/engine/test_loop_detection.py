"""Each detector on a window that shows its circle, on windows that look like one, and with its threshold off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine.encoding.fingerprints import error_signature, mark, result_mark
from loops.engine.loop_detection import detectors as d
from loops.engine.state.step_window import LENGTH, Seen, Window, observe
from loops.engine.state.thresholds import OFF, THRESHOLDS
from tests.unit.engine.effort import examples

pytestmark = pytest.mark.spec("F1", "F2", "F3")
LONG = "the quick brown fox jumps over the lazy dog and reads every file of the project once more for number"


def seen(*steps: tuple[str, str], **more: object) -> Window:
    """Steps given as (what they did, what came of it)."""
    return tuple(
        Seen(number, action=mark(did), outcome=result_mark(got), **more) for number, (did, got) in enumerate(steps, 1)
    )


def errors(*texts: str) -> Window:
    return tuple(Seen(n, error=error_signature("look", text) if text else "") for n, text in enumerate(texts, 1))


def rounds(*steps: tuple[str, str]) -> Window:
    return tuple(replace(each, is_round=True) for each in seen(*steps))


def stalled(steps: int, measured: bool = True) -> Window:
    return tuple(Seen(number, progress=0.5, measured=measured) for number in range(1, steps + 1))


A, B, C = ("read a", "alpha"), ("read b", "beta"), ("read c", "gamma")
SIMILAR = seen(*[(f"{LONG} {number}", "no matches were found") for number in range(4)])
ELSEWHERE = seen(("search x", "no such thing"), A, ("look up y", "no such thing"), B, ("ask for z", "no such thing"))
REFUSED = ("done: 42", "1 test fails")
FOUND: dict[str, tuple[d.Detector, Window, tuple[int, ...]]] = {
    "three equal errors": (d.repeated_result, errors("x", "no file 1", "no file 2", "no file 3"), (2, 3, 4)),
    "the same call three times in a row": (d.repeated_result, seen(A, A, A), (1, 2, 3)),
    "the same call with others between": (d.repeated_result, seen(A, B, A, C, A), (1, 3, 5)),
    "the same result of other calls": (d.repeated_result, ELSEWHERE, (1, 3, 5)),
    "A-B-A-B-A": (d.repeated_result, seen(A, B, A, B, A), (1, 3, 5)),
    "A-B-C-A-B-C-A": (d.repeated_result, seen(A, B, C, A, B, C, A), (1, 4, 7)),
    "A-B-A-B-A without a word": (d.repeated_result, seen(*[(did, "") for did, _ in (A, B, A, B, A)]), (1, 3, 5)),
    "like calls without a word": (d.repeated_result, seen(*[(f"{LONG} {n}", "") for n in range(3)]), (1, 2, 3)),
    "nearly the same in a row": (d.semantic, SIMILAR, (1, 2, 3, 4)),
    "the same result, refused alike": (d.repeated_round, rounds(REFUSED, REFUSED), (1, 2)),
    "no progress": (d.progress_stall, stalled(13), tuple(range(2, 14))),
}
NOT_FOUND: dict[str, tuple[d.Detector, Window]] = {
    "two equal errors": (d.repeated_result, errors("a", "a")),
    "a success between equal errors": (d.repeated_result, errors("a", "a", "", "a")),
    "three successes": (d.repeated_result, errors("", "", "")),
    "the same call with news each time": (
        d.repeated_result,
        seen(("poll", "10 %"), ("poll", "20 %"), ("poll", "30 %")),
    ),
    "the same call after a change": (
        d.repeated_result,
        (*seen(A, A)[:1], Seen(2, action=mark("write"), outcome=mark("ok"), changed=True), *seen(A, A, A, A)[2:]),
    ),
    "steps of an older journal": (d.repeated_result, (Seen(1), Seen(2), Seen(3))),
    "other calls without a word": (
        d.repeated_result,
        seen(("git add -A", ""), ("mkdir build", " \n"), ("cp a.py build", ""), ("ruff check", "")),
    ),
    "the same call without a word, after a change each time": (
        d.repeated_result,
        tuple(replace(each, changed=each.step % 2 == 0) for each in seen(*[("check", ""), ("edit", "ok")] * 4)),
    ),
    "an error between two others": (d.repeated_result, errors("a", "b", "a", "b", "a")),
    "results that differ in a figure": (d.repeated_result, seen(*[(f"count {n}", f"{n} lines") for n in range(3)])),
    "the same word of calls that change something": (
        d.repeated_result,
        seen(("write a", "written"), ("write b", "written"), ("write c", "written"), changed=True),
    ),
    "the same result after a change": (
        d.repeated_result,
        (*seen(A, ("look", "alpha")), Seen(3, action=mark("write"), outcome=mark("ok"), changed=True), *seen(A, A)),
    ),
    "similar calls that learn": (d.semantic, seen(*[(f"{LONG} {n}", f"{n} " * 9) for n in range(4)])),
    "similar calls that change something": (d.semantic, tuple(replace(each, changed=True) for each in SIMILAR)),
    "similar calls while progress is made": (d.semantic, (*SIMILAR[:-1], replace(SIMILAR[-1], progress=0.5))),
    "another result": (d.repeated_round, rounds(("done: 42", "fails"), ("it is a whole other text now", "fails"))),
    "progress": (d.progress_stall, (*stalled(12), Seen(13, progress=0.6, measured=True))),
    "nothing to measure progress by": (d.progress_stall, stalled(13, measured=False)),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_circle_is_found_with_its_steps(name: str) -> None:
    detector, window, steps = FOUND[name]
    found = detector(window, THRESHOLDS)
    assert found is not None
    assert (found.method, found.steps) == (detector.__name__, steps)
    assert found.evidence
    assert 0 < found.confidence <= 1


@pytest.mark.parametrize("name", FOUND)
def test_with_its_threshold_off_it_is_not(name: str) -> None:
    detector, window, _ = FOUND[name]
    assert detector(window, OFF) is None


@pytest.mark.parametrize("name", FOUND)
def test_without_its_last_step_it_is_not(name: str) -> None:
    detector, window, _ = FOUND[name]
    assert detector(window[:-1], THRESHOLDS) is None


@pytest.mark.parametrize("name", NOT_FOUND)
def test_what_only_looks_like_a_circle_is_none(name: str) -> None:
    detector, window = NOT_FOUND[name]
    assert detector(window, THRESHOLDS) is None


def test_the_surest_sign_is_told_first() -> None:
    same = tuple(replace(each, error="e") for each in seen(A, A, A, A))
    found = d.detect(same)
    assert found is not None
    assert (found.method, found.evidence) == ("repeated_result", "the same error ended 3 steps in a row")


TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)
STEPS = st.lists(
    st.builds(
        Seen,
        step=st.integers(1, 99),
        action=st.one_of(TEXT, TEXT.map(mark)),
        outcome=st.one_of(TEXT, TEXT.map(result_mark)),
        error=st.sampled_from(["", "e", "f"]),
        progress=st.floats(0, 1),
        measured=st.booleans(),
        changed=st.booleans(),
        is_round=st.booleans(),
    ),
    max_size=40,
)


@examples(usual=80, full=2000)
@given(STEPS)
def test_looking_never_fails_and_says_the_same_again(steps: list[Seen]) -> None:
    window: Window = ()
    for step in steps:
        window = observe(window, step)
        assert len(window) <= LENGTH
        for detector in d.DETECTORS:
            found = detector(window, THRESHOLDS)
            assert found == detector(window, THRESHOLDS)
            assert found is None or set(found.steps) <= {each.step for each in window}
            assert detector(window, OFF) is None

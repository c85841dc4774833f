"""Steps that mean the same in other words: found by vectors, and only where nothing else tells them apart (SPEC F2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loops.engine.encoding.fingerprints import figures, mark, result_mark
from loops.engine.loop_detection.detectors import DETECTORS, detect
from loops.engine.loop_detection.finding import Finding
from loops.engine.loop_detection.meaning import Meaning, Meanings, cosine, same_meaning
from loops.engine.state.step_window import Seen, Window
from loops.engine.state.thresholds import OFF, THRESHOLDS, Thresholds

pytestmark = pytest.mark.spec("F2")
EAST, NORTH, NORTH_EAST = (1.0, 0.0), (0.0, 1.0), (0.6, 0.8)
NEARLY_EAST = (0.96, 0.28)
SAID = (
    ("find the port", "there is no such setting"),
    ("where does it listen", "nothing of the kind is configured"),
    ("look up which socket is opened", "I cannot see one anywhere"),
    ("search for the address of the server", "no results"),
    ("ask for its network endpoint", "it could not be found"),
)
WINDOW: Window = tuple(Seen(n, action=mark(did), outcome=result_mark(got)) for n, (did, got) in enumerate(SAID, 1))
ALIKE = {seen.step: Meaning(NEARLY_EAST, EAST) for seen in WINDOW}


def look(window: Window, meanings: Meanings, thresholds: Thresholds = THRESHOLDS) -> Finding | None:
    return same_meaning(window, meanings, model="small", similar=0.9, thresholds=thresholds)


def test_a_circle_in_other_words_is_seen_by_its_meaning_alone() -> None:
    found = look(WINDOW[:4], ALIKE)
    assert detect(WINDOW, THRESHOLDS, DETECTORS) is None
    assert found is not None
    assert (found.method, found.steps) == ("same_meaning", (1, 2, 3, 4))
    assert "cosine 1.00 or more of embeddings by small, over steps 1-4" in found.evidence


def test_the_lowest_cosine_is_told() -> None:
    found = look(WINDOW[:4], {**ALIKE, 2: Meaning(EAST, EAST)})
    assert found is not None
    assert "cosine 0.96 or more" in found.evidence


def test_others_may_lie_between_when_there_are_many() -> None:
    window = tuple(Seen(n, action=mark(str(n)), outcome=result_mark(str(n))) for n in range(1, 10))
    between = {n: Meaning(EAST, EAST) if n % 2 else Meaning(NORTH, NORTH) for n in range(1, 10)}
    found = look(window, between)
    assert found is not None
    assert found.steps == (1, 3, 5, 7, 9)
    assert look(window[:-2], between) is None


NONE: dict[str, tuple[Window, Meanings]] = {
    "no steps": ((), {}),
    "too few": (WINDOW[:3], ALIKE),
    "another action": (WINDOW[:4], {**ALIKE, 3: Meaning(NORTH, EAST)}),
    "another result": (WINDOW[:4], {**ALIKE, 3: Meaning(EAST, NORTH_EAST)}),
    "another figure in the result": (
        WINDOW[:4],
        {step: replace(each, figures=frozenset({f"{step}"})) for step, each in ALIKE.items()},
    ),
    "one whose meaning is not known": (WINDOW[:4], {**ALIKE, 2: None}),
    "the newest is not known": (WINDOW, {**ALIKE, 5: None}),
    "a vector of another model": (WINDOW[:4], {**ALIKE, 2: Meaning((1.0, 0.0, 0.0), (1.0, 0.0, 0.0))}),
    "a change between": (tuple(replace(each, changed=each.step == 2) for each in WINDOW[:4]), ALIKE),
    "the newest changed something": (tuple(replace(each, changed=each.step == 4) for each in WINDOW[:4]), ALIKE),
    "progress": (tuple(replace(each, progress=each.step / 10) for each in WINDOW[:4]), ALIKE),
}


@pytest.mark.parametrize("name", NONE)
def test_what_differs_in_any_of_this_is_no_circle(name: str) -> None:
    window, meanings = NONE[name]
    assert look(window, meanings) is None


def test_it_is_off_with_the_thresholds_of_the_default() -> None:
    assert look(WINDOW, ALIKE, OFF) is None


def test_figures_are_what_vectors_do_not_see() -> None:
    assert figures("3 tests failed in 0.12s, see A17 and /tmp/x1/log at 2026-01-02 10:11:12") == {"3", "a17"}
    assert figures("no such file") == frozenset()
    assert cosine(EAST, NORTH_EAST) == pytest.approx(0.6)

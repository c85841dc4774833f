"""What a reviewer reads of a gate says where it was cut (SPEC X5)."""

from __future__ import annotations

from typing import Any

import pytest

from loops.driver import gates
from loops.driver.rollback import reasons_of
from loops.engine import facts as f
from loops.engine.rollback.plan import Undo
from loops.engine.text.truncation import shortened
from loops.engine.tool_calls.no_tool_call import PLAIN_ANSWERS_AT_MOST, SILENT_ANSWERS_AT_MOST
from loops.engine.values import Compensation
from loops.streams import AT_MOST_CHARS, OutputStream
from tests.fakes import World, done, says

pytestmark = pytest.mark.spec("X5")


def asked(question: str) -> Any:
    world = World([says("", ("ask_question", {"question": question})), done()])
    assert world.drive() == "gate:question"
    return world.gatekeeper.opened[0]


def test_a_title_that_was_cut_says_of_how_much_and_the_card_has_the_whole() -> None:
    question = "Which of these? " * 40
    gate = asked(question)
    assert gate.title.endswith("… (640 characters)")
    assert len(gate.title) == gates.TITLE_CHARS
    assert gate.view["question"] == question
    whole = "x" * gates.TITLE_CHARS
    assert asked(whole).title == whole


def test_a_line_that_fits_is_left_alone() -> None:
    assert shortened("x" * 100, 100) == "x" * 100
    assert shortened("x" * 101, 100) == f"{'x' * 82}… (101 characters)"


def undo(number: int) -> Undo:
    return Undo(f"c{number}", "write_file", f"write {number}", "reversible", Compensation("restore_files"), why="busy")


@pytest.mark.spec("O2")
def test_effects_that_could_not_be_undone_are_all_counted() -> None:
    assert reasons_of([undo(number) for number in range(20)])[-1] == "write 19: busy"
    said = reasons_of([undo(number) for number in range(23)])
    assert said[19:] == ("write 19: busy", "3 more could not be undone: they are below, and on the page Roll back")


def test_the_live_view_says_where_it_stops() -> None:
    told: list[dict[str, Any]] = []

    class Feed:
        def delta(self, **piece: Any) -> None:
            told.append(piece)

    stream = OutputStream(Feed(), 1, "c1")
    for chunk in (b"x" * AT_MOST_CHARS, b"y", b"never shown", b"nor this"):
        stream.on_output("stdout", chunk)
        stream._send()
    stream.on_output("stderr", b"other")
    stream.close()
    shown = "".join(piece["text"] for piece in told if piece["kind"] == "stdout")
    assert shown.endswith("y\n[not shown live beyond 200,000 characters; the finished step has the rest]\n")
    assert "never" not in shown
    assert [piece["text"] for piece in told if piece["kind"] == "stderr"] == ["other"]


def test_a_model_that_only_talks_is_taken_at_its_word_and_the_trace_says_so() -> None:
    world = World([says("hm"), says("That is all.")])
    assert world.drive() == "ended"
    (stopped,) = world.journal.of(f.ModelStopped)
    assert (stopped.taken, stopped.answers) == (True, PLAIN_ANSWERS_AT_MOST)
    assert world.state.result == "That is all."


def test_a_model_that_says_nothing_ends_its_run_with_the_reason() -> None:
    world = World(lambda request: says(" "))
    assert world.drive() == "ended"
    (stopped,) = world.journal.of(f.ModelStopped)
    assert (stopped.taken, stopped.answers) == (False, SILENT_ANSWERS_AT_MOST)
    assert world.state.end_reason == "no_tool_call"

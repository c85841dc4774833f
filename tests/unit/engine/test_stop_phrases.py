"""Which messages mean "stop", and that such a message stops a run (SPEC D1)."""

from __future__ import annotations

import json
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.engine import facts as f
from loops.engine.people.stop_phrases import sounds_like_stop, wants_to_stop
from loops.engine.state.lifecycle import Phase
from tests.fakes import World, done, says
from tests.unit.engine.effort import examples

LOOK = ("look", {"at": "it"})
WISHES = (
    "stop", "STOP!!!", "Stop.", "please stop", "please stop now", "Stop it", "stop, please", "/stop", "stop stop stop",
    "can you stop?", "Could you please stop now?", "ok stop", "okay, stop here", "halt", "abort the run",
    "cancel this task", "I want you to stop", "enough, stop", "That's enough.", "don\u2019t continue", "stop right now",
    "stop working", "no, stop", "you can stop now", "let's stop here", "Stop what you're doing", "wait, stop!",
    "Please don't go on.", "quit", "stop everything now", "stop for now, thanks", "  stop \n", "I'd like you to stop.",
    "stop this", "stop now please", "please stop it", "Stop this now!", "stop it all", "Stop it already.", "quit that",
    "let's stop this here", "can you stop this?", "could you please stop it now?",
)  # fmt: skip
OTHERS = (
    "don't stop", "do not stop", "never stop", "stop the server", "stop using pip", "stop when the tests pass",
    "###STOP###",
    "non-stop", "stop?", "should I stop?", "why did you stop?", "Stop at step 5", "stop after the next file",
    "please don't stop now", "cancel the subscription of user 5", "abort() is called in main", "the bus stop",
    "you can't stop now", "stop words must be removed", "it should stop", "if it fails stop", "", "   ", "stopwatch",
    "unstoppable", "stop loss", "make the loop stop", "terminate the process 12", "add a /stop command", "quit vim",
    "can it stop?", "do you stop?", "I don't want you to stop", "stop " + "x" * 100, "no", "enough", "wait", "please",
    "stop " * 20, "cancel order 7", "go on, don't stop", "stop being so careful", "stop running the tests twice",
    "stop using tabs", "stop the server first and then run the tests", "the tests stop at line 5, why?", "this stop",
    "that stop", "it stop", "don't stop this", "do not stop it now", "stop this test", "stop it from crashing",
    "stop doing that", "stop that test now", "never stop it", "stop this and that", "stop this?", "is this a stop",
    "stop it it it it it it it it it", "stop now or later", "this is the stop",
    "stop\x00the app", "//stop", "/ stop", "see /stop", "please " * 12 + "stop", "stop;", "\u202estop the build",
)  # fmt: skip
SENTENCES = json.loads((Path(__file__).parents[2] / "data" / "languages_stopping.json").read_text())
"""Messages in many languages, most of them written apart from the phrases."""
PHRASES = tomllib.loads((files("loops.engine.people") / "stop_phrases.toml").read_text("utf-8"))


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize("text", WISHES)
def test_a_plain_wish_is_understood(text: str) -> None:
    assert wants_to_stop(text)


@pytest.mark.spec("D1")
@pytest.mark.parametrize("text", OTHERS)
def test_anything_else_is_for_the_agent_to_read(text: str) -> None:
    assert not wants_to_stop(text)


def test_english_is_a_language_like_the_rest() -> None:
    assert {"en", "de", "zh", "th", "vi", "id", "el", "he", "ar", "hi", "tr", "ja", "ko"} <= PHRASES.keys()
    assert all(table.keys() - {"within"} == {"stop", "polite"} for table in PHRASES.values())


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize("language", PHRASES)
def test_each_phrase_stops_however_it_is_written(language: str) -> None:
    for phrase in PHRASES[language]["stop"]:
        asks = phrase[-1] in "?;؟"
        signs = ("",) if asks else ("", "!", "!!!", ".", " \U0001f6d1", "\u3002", " \u270b\ufe0f")
        written = [text for sign in signs for text in (f"{phrase}{sign}", f" {phrase.upper()}{sign}\n")]
        assert not [text for text in written if not wants_to_stop(text)]
        assert wants_to_stop(f"{phrase}?") == asks
        for polite in PHRASES[language]["polite"]:
            assert wants_to_stop(f"{polite}, {phrase}")
            assert wants_to_stop(f"{phrase} {polite}")


@pytest.mark.spec("D1")
@pytest.mark.parametrize("language", PHRASES)
def test_a_phrase_within_anything_longer_does_not(language: str) -> None:
    for phrase in PHRASES[language]["stop"]:
        bare = phrase.rstrip("?;؟")
        longer = (f"{bare} nginx", f"nginx: {bare}", f"{bare}. Docker", f"{bare}, 3", f"/{bare} -x")
        assert not [text for text in longer if wants_to_stop(text)]


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize("text", [
    "Bitte hör jetzt auf", "Hör jetzt damit auf!", "hör endlich mal auf", "Halt jetzt bitte an", "brich das sofort ab",
    "arrête ça", "Arrête ça maintenant, s'il te plaît", "para eso", "pare isso",
    "hou nu op", "stop dit", "sluta nu", "Stop hiermee, alsjeblieft", "hold nu op",
])  # fmt: skip
def test_pronouns_and_adverbs_may_stand_within(text: str) -> None:
    assert wants_to_stop(text)


@pytest.mark.spec("D1")
@pytest.mark.parametrize("text", [
    "hör nicht auf", "Hör jetzt nicht auf", "hör bitte auf mich", "halt das fest", "brich den Build ab",
    "n'arrête pas ça", "arrête pas ça", "arrête ça quand les tests passent", "no, para eso no", "para eso?",
    "para eso sirve", "não pare isso", "não agora continue", "stop dit niet", "hou dit vast", "sluta inte nu",
])  # fmt: skip
def test_a_not_or_an_object_may_not(text: str) -> None:
    assert not wants_to_stop(text)


@pytest.mark.parametrize("language", PHRASES)
def test_no_phrase_begins_with_a_word_that_may_be_left_out(language: str) -> None:
    """Else "it stop" were a wish, and "not" might be one of them."""
    within, polite = PHRASES[language].get("within", []), PHRASES[language]["polite"]
    assert not [text for word in within for text in (word, f"{word} {word}", f"{word} x") if wants_to_stop(text)]
    assert all(" " not in word for word in within)
    assert polite


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize(("text", "sounds"), [
    ("stop using tabs", True), ("don't stop", True), ("just stop that thing", False), ("Hör auf zu testen", True),
    ("the tests stop", True), ("stop?", True), ("停止使用pip", True), ("Oprește serverul", True),
    ("stop", False), ("please stop it", False), ("/stop", False), ("fix the rounding", False), ("stopwatch", False),
    ("the tests stop at line 5, why?", False), ("", False), ("stop " + "x" * 100, False), ("unstoppable", False),
])  # fmt: skip
def test_what_only_sounds_like_a_wish_is_known(text: str, *, sounds: bool) -> None:
    """So that whoever wrote it hears that the run goes on."""
    assert sounds_like_stop(text) is sounds


@pytest.mark.parametrize("language", PHRASES)
def test_polite_words_alone_do_not(language: str) -> None:
    polite = PHRASES[language]["polite"]
    assert not [text for words in polite for text in (words, f"{words} {words}") if wants_to_stop(text)]


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize("language", SENTENCES["wishes"])
def test_a_wish_of_each_language_is_understood(language: str) -> None:
    assert not [text for text in SENTENCES["wishes"][language] if not wants_to_stop(text)]


@pytest.mark.spec("D1")
@pytest.mark.parametrize("language", SENTENCES["others"])
def test_a_server_that_is_to_be_stopped_is_no_wish_nor_is_its_opposite(language: str) -> None:
    assert not [text for text in SENTENCES["others"][language] if wants_to_stop(text)]


@pytest.mark.spec("D1")
def test_more_of_both() -> None:
    assert not [text for text in SENTENCES["more wishes"] if not wants_to_stop(text)]
    assert not [text for text in SENTENCES["more others"] if wants_to_stop(text)]


def test_polite_words_without_an_end_are_read_quickly() -> None:
    """Each is taken off once: no message makes the reader try every order of them."""
    polite = max((table["polite"] for table in PHRASES.values()), key=len)
    assert not wants_to_stop("".join(polite * 9)[:80])


@pytest.mark.spec("D1")
@examples(usual=100, full=2000)
@given(st.sampled_from(WISHES), st.text(alphabet="abcdefghij xyz", min_size=6, max_size=60).filter(str.strip))
def test_a_wish_with_anything_more_to_it_is_none(wish: str, more: str) -> None:
    assert not wants_to_stop(f"{wish} because {more}")
    assert not wants_to_stop(f"never {wish}")


@pytest.mark.spec("D1", "K1", "A5")
@pytest.mark.parametrize("kind", ["message", "stop"])
def test_a_message_that_wants_it_stops_the_run(kind: str) -> None:
    """As a message, and as the order that a service makes of one."""
    world = World([says("", LOOK), done()])
    world.send(kind, text="please stop now")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.HALT, "user_stop")
    assert [fact.words for fact in world.journal.of(f.StopWished)] == ["please stop now"]
    assert [fact.text for fact in world.journal.of(f.MessageReceived)] == ["please stop now"]
    world.send("resume")
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT


@pytest.mark.spec("D1")
def test_a_message_that_says_more_does_not() -> None:
    world = World([done()])
    world.send("message", text="stop when the tests pass")
    assert world.drive() == "ended"
    assert world.state.phase is Phase.COMMIT


@pytest.mark.spec("D1")
def test_the_button_has_a_reason_of_its_own() -> None:
    world = World([done()])
    world.send("message", text="please stop")
    world.drive()
    world.send("resume")
    world.send("stop")
    assert world.drive() == "ended"
    assert world.state.end_reason == "operator_stop"

"""Does a message say that the person wants the run to stop? (SPEC D1: user intent to stop)

In any of fifteen languages, and conservative on purpose: only a short message that is nothing but such a wish counts.
"Don't stop", "stop the server", "stop when the tests pass" and anything longer is for the agent to read.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import cache

from loops.engine.languages.stop_phrases import TONGUES, Tongue

LONGEST = 80
_BEFORE = (
    r"(?:(?:please|pls|ok|okay|hey|hi|well|no|now|agent|wait|enough|sorry|all right|alright)\s+)*"  # words before it
)
_WISH = (
    r"(?:(?:can|could|would|will) you\s+(?:please\s+)?|you (?:can|should|must|may)\s+(?:please\s+)?"
    r"|i (?:want|need|would like) you to\s+|i'd like you to\s+|let's\s+|lets\s+|we (?:can|should)\s+)?"
)
_VERB = r"(?:stop|halt|abort|quit|cease|cancel|terminate)"
_WHAT = (
    r"(?:\s+(?:it|this|that|everything|working|running|the run|this run|the task|this task|the agent|yourself"
    r"|what you are doing|what you're doing))?"
)
_AFTER = (
    r"(?:\s+(?:please|pls|now|right now|right there|here|immediately|at once|asap|for now|for today|thanks"
    r"|thank you))*"
)
_STOP = re.compile(rf"{_BEFORE}{_WISH}{_VERB}{_WHAT}{_AFTER}")
_REPEATED = re.compile(rf"{_VERB}(?:\s+{_VERB})+{_AFTER}")
_IDIOMS = frozenset(
    {
        "/stop",
        "that's enough",
        "thats enough",
        "that is enough",
        "that's enough now",
        "enough now",
        "no more please",
        "do not continue",
        "don't continue",
        "dont continue",
        "please do not continue",
        "please don't continue",
        "do not go on",
        "don't go on",
        "please don't go on",
        "i want to stop",
        "i want to stop here",
        "i'd like to stop here",
        "we are done here",
        "we're done here",
    }
)
_SIGNS = re.compile(r"[.,;:!?¡¿。、،؛؟।]+")


_MARKS = re.compile("[\u064b-\u0652\u0640]")
"""Of Arabic, which writers set or leave out."""
_ONE_WAY = str.maketrans(dict.fromkeys("أإآ", "\u0627") | {"請": "请"})


def wants_to_stop(text: str) -> bool:
    """True for a message that is a plain wish to stop and nothing else, in any of LANGUAGES. A question about stopping
    is none, unless it asks the agent to ("can you stop?")."""
    if len(text) > LONGEST:
        return False
    plain = _plain(text)
    asks, shouts = "?" in plain or "؟" in plain, "!" in plain
    parted = " ".join(_SIGNS.sub(" , ", plain).split()).strip(" ,")
    words = " ".join(parted.replace(",", " ").split())
    return _in_english(words, asks=asks) or any(_says(reader, parted, asks, shouts) for reader in _readers())


def _plain(text: str) -> str:
    """In lower case, with one way to write what has two: wide and narrow signs, composed letters, alefs."""
    lower = text.replace("\u0130", "i").lower().replace("\u2019", "'")
    return _MARKS.sub("", unicodedata.normalize("NFKC", lower)).translate(_ONE_WAY)


def _in_english(words: str, *, asks: bool) -> bool:
    if asks and not re.match(r"(?:(?:please|ok|okay|hey)\s+)*(?:can|could|would|will) you\b", words):
        return False
    return words in _IDIOMS or bool(_STOP.fullmatch(words) or _REPEATED.fullmatch(words))


@dataclass(frozen=True, slots=True)
class _Reader:
    wish: re.Pattern[str]
    asks: re.Pattern[str]
    please: tuple[str, str]
    needs_more: frozenset[str]
    close: bool


def _reader(tongue: Tongue) -> _Reader:
    """Signs may stand between its parts, and not within one: "não, continue" is the opposite of "não continue"."""
    end = "" if tongue.close else r"(?=[\s,]|$)"
    before = rf"(?P<before>(?:(?:{_any_of(tongue.before)}){end}[\s,]*)*)"
    after = rf"(?P<after>(?:[\s,]*(?:{_any_of(tongue.after)}){end})*)"
    return _Reader(
        wish=re.compile(rf"{before}(?P<core>{_any_of(tongue.wish)}){end}{after}"),
        asks=re.compile(rf"{before}(?P<core>{_any_of(tongue.asks)}){end}{after}"),
        please=(_plain(tongue.before.partition("|")[0]), _plain(tongue.after.partition("|")[0])),
        needs_more=frozenset(map(_plain, tongue.needs_more.split("|"))),
        close=tongue.close,
    )


def _any_of(words: str) -> str:
    return "|".join(re.escape(_plain(word)) for word in sorted(words.split("|"), key=len, reverse=True))


def _says(reader: _Reader, words: str, asks: bool, shouts: bool) -> bool:
    words = words.replace(" ", "") if reader.close else words
    said = reader.asks.fullmatch(words) or (None if asks else reader.wish.fullmatch(words))
    if said is None:
        return False
    before, after = reader.please
    begs = shouts or before in said["before"] or after in said["after"]
    return begs or said["core"] not in reader.needs_more


@cache
def _readers() -> tuple[_Reader, ...]:
    """Compiled where a message is read: every other process starts without them."""
    return tuple(map(_reader, TONGUES.values()))

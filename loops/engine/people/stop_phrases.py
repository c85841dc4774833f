"""Does a message say that the person wants the run to stop? (SPEC D1: user intent to stop)

Only a short message counts that is nothing but one of the phrases in ``stop_phrases.toml``, with words of the same file
around it or in it. "Don't stop", "stop the server", "stop when the tests pass" and anything longer is for the agent to
read. The *Stop* button and ``/stop`` work in any language, and a message that sounds like a wish says so.
"""

from __future__ import annotations

import tomllib
import unicodedata
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from loops.engine.text.segments import pieces

LONGEST = 80
MOST_WORDS = 8
"""Of a message in which words may stand within a phrase."""
_ASKING = "?;؟"
"""Question marks, the Greek one among them."""
_LEFT_OUT = (*range(0x591, 0x5C8), *range(0x64B, 0x653), 0x640, 0x307, 0xFE0E, 0xFE0F)
"""Points of Hebrew and Arabic, the line that stretches an Arabic word, the dot of a Turkish i, and what makes an emoji
of a sign: people write them or not."""
_ONE_WAY = str.maketrans({0x131: "i", "-": " ", "'": " ", "\u2019": " ", **dict.fromkeys(_LEFT_OUT)})


@dataclass(frozen=True, slots=True)
class _Language:
    """Plain texts; those of ``stop`` that ask end in "?", those of ``polite`` begin with the longest."""

    stop: frozenset[str]
    polite: tuple[str, ...]
    within: frozenset[str]

    def says(self, message: str, asks: str) -> bool:
        """Is ``message`` one of the phrases, once polite words at its two ends are left out, and behind its first word
        what says neither what is to stop nor that it is not to?"""
        if self._has(message, asks) or self._has(self._bare(message), asks):
            return True
        shorter = (message.removeprefix(words).removesuffix(words).strip(" ,") for words in self.polite)
        rest = next((rest for rest in shorter if rest != message), "")
        return bool(rest) and self.says(rest, asks)

    def _has(self, message: str, asks: str) -> bool:
        return message + asks in self.stop or f"{message}?" in self.stop

    def _bare(self, message: str) -> str:
        first, *rest = message.split() or [""]
        kept = [word for word in rest if word not in self.within] if len(rest) < MOST_WORDS else rest
        return " ".join([first, *kept])

    def is_in(self, message: list[str]) -> bool:
        """Does it begin or end with one of the phrases?"""
        phrases = [pieces(phrase) for phrase in self.stop if not phrase.endswith("?")]
        return any(words in (message[: len(words)], message[-len(words) :]) for words in phrases)


def wants_to_stop(text: str) -> bool:
    """True for a message that is a plain wish to stop and nothing else. A question about stopping is none, unless it
    asks the agent to ("can you stop?")."""
    if len(text) > LONGEST:
        return False
    message, asks = _plain(text), _asks(text)
    return any(language.says(message, asks) for language in _languages())


def sounds_like_stop(text: str) -> bool:
    """It stops nothing, and whoever wrote it may think that it did: short, with a phrase at one of its ends."""
    if len(text) > LONGEST or wants_to_stop(text):
        return False
    message = pieces(_plain(text))
    return any(language.is_in(message) for language in _languages())


def _plain(text: str) -> str:
    """In lower case, and without the signs at its ends. Signs between words stay, as a comma: "no, go on" is the
    opposite of "no go on"."""
    folded = unicodedata.normalize("NFKC", text).casefold().translate(_ONE_WAY)
    parts = "".join(char if _is_of_a_word(char) else "," for char in folded).split(",")
    return " , ".join(" ".join(part.split()) for part in parts if part.strip())


def _is_of_a_word(char: str) -> bool:
    """A slash begins commands and paths; signs of code and markup are no punctuation: "###STOP###" is a mark."""
    return char in " /#@%&*\\" or unicodedata.category(char)[0] in "LMN"


def _asks(text: str) -> str:
    return "?" if any(sign in unicodedata.normalize("NFKC", text) for sign in _ASKING) else ""


@cache
def _languages() -> tuple[_Language, ...]:
    """Read where a message is: every other process starts without them."""
    tables = tomllib.loads((files(__package__) / "stop_phrases.toml").read_text("utf-8"))
    return tuple(
        _Language(
            frozenset(_plain(phrase) + _asks(phrase) for phrase in table["stop"]),
            tuple(sorted(map(_plain, table["polite"]), key=len, reverse=True)),
            frozenset(map(_plain, table.get("within", ()))),
        )
        for table in tables.values()
    )

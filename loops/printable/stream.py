"""The same for a text that comes in pieces, while it is written (SPEC R2)."""

from __future__ import annotations

from collections.abc import Collection

from loops.printable import look_alikes
from loops.printable.text import odd_in_prose, odd_places, printable, with_code_points


class ProseInPieces:
    """``prose`` of a text that comes bit by bit: what its line has not decided yet waits, up to LONGEST_WAITING
    characters of it. ASCII never waits: a Latin letter that would be marked for what follows in its word is not where
    that comes later."""

    LONGEST_WAITING = 200
    LINE = 400
    """What is remembered of a long line."""
    _odd: staticmethod[[str], Collection[int]] = staticmethod(odd_in_prose)
    _decided = staticmethod(look_alikes.decided)

    def __init__(self) -> None:
        self._line = self._waits = ""

    def feed(self, piece: str) -> str:
        """What can be shown by now."""
        text = self._line + self._waits + piece
        decided = max(len(self._line), self._decided(text))
        return self._shown(text, len(text) if len(text) - decided > self.LONGEST_WAITING else decided)

    def finish(self) -> str:
        """The rest of it."""
        text = self._line + self._waits
        return self._shown(text, len(text))

    def _shown(self, text: str, until: int) -> str:
        before, new = len(self._line), text[len(self._line) : until]
        self._line = text[:until].rpartition("\n")[2][-self.LINE :]
        self._waits = text[until:]
        if new.isascii():
            return printable(new)
        return with_code_points(new, (place - before for place in self._odd(text[:until]) if place >= before))


class PrintableInPieces(ProseInPieces):
    """The same of ``printable``: also a word that is not ASCII waits for its end, which decides about its signs."""

    _odd = staticmethod(odd_places)
    _decided = staticmethod(look_alikes.decided_with_signs)

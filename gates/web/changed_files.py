"""The files that a result is about, with the lines of their diffs, as a final review shows them (SPEC Q3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from gates.models import Gate
from gates.services import disclosure
from gates.services.disclosure import GivenOut
from loops.web.diffs import kinds
from loops.workspaces.changed_files import ChangedFile


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a diff."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class Changed:
    """A file that a result is about, with the lines of its diff, and the proof that they were given out."""

    file: ChangedFile
    lines: list[Line]
    added: int
    removed: int
    proof: str

    @classmethod
    def read(cls, given: GivenOut) -> Changed:
        lines = lines_of(given.file.diff)
        counts = Counter(line.kind for line in lines)
        return cls(given.file, lines, counts["add"], counts["del"], given.proof)


def of(gate: Gate, user: Any) -> list[Changed]:
    """All of them; the diffs as far as there is room on a page."""
    return [Changed.read(given) for given in disclosure.given_out(user, gate)]


def opened(gate: Gate, user: Any, path: str) -> Changed | None:
    """One of them with its whole diff; None where none is called so."""
    given = disclosure.opened(user, gate, path)
    return Changed.read(given) if given else None


def lines_of(diff: str) -> list[Line]:
    """The lines of a diff, each as what it is."""
    return [Line(kind, text) for kind, text in kinds(diff.removesuffix("\n").split("\n"))] if diff else []

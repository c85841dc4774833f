"""The files that a result is about, with the lines of their diffs, as a final review shows them (SPEC Q3)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from gates.models import Gate
from gates.services import disclosure
from loops.services import changed_files
from loops.services.changed_files import ChangedFile
from loops.web.diffs import kinds


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
    def read(cls, file: ChangedFile, proof: str) -> Changed:
        lines = lines_of(file.diff)
        counts = Counter(line.kind for line in lines)
        return cls(file, lines, counts["add"], counts["del"], proof)


def of(gate: Gate, user: Any) -> list[Changed]:
    """All of them; the diffs as far as there is room on a page."""
    return [_given_out(file, gate, user) for file in changed_files.compared(disclosure.changes_of(gate))]


def opened(gate: Gate, user: Any, path: str) -> Changed | None:
    """One of them with its whole diff; None where none is called so."""
    file = changed_files.opened(disclosure.changes_of(gate), path)
    return _given_out(file, gate, user) if file else None


def _given_out(file: ChangedFile, gate: Gate, user: Any) -> Changed:
    here = file.has_contents and not file.is_apart
    return Changed.read(file, disclosure.proof(user, gate, file.path) if here else "")


def lines_of(diff: str) -> list[Line]:
    """The lines of a diff, each as what it is."""
    return [Line(kind, text) for kind, text in kinds(diff.removesuffix("\n").split("\n"))] if diff else []

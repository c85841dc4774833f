"""The files that a result is about, with the lines of their diffs, as a final review shows them (SPEC Q3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gates.models import Gate
from loops.engine.rollback.plan import FileChange
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
    """A file that a result is about, with the lines of its diff."""

    file: ChangedFile
    lines: list[Line]
    added: int
    removed: int

    @classmethod
    def read(cls, file: ChangedFile) -> Changed:
        lines = lines_of(file.diff)
        counts = Counter(line.kind for line in lines)
        return cls(file, lines, counts["add"], counts["del"])


def of(gate: Gate, view: Mapping[str, Any]) -> list[Changed]:
    """By the states that the view names, so that the decision binds to the very bytes; older gates have none."""
    if gate.kind != Gate.Kind.FINAL_REVIEW:
        return []
    named = view.get("changed")
    if isinstance(named, list):
        changes = [FileChange(one["path"], one["before"], one["after"]) for one in named]
    else:
        changes = changed_files.recorded(gate.run).net
    return [Changed.read(file) for file in changed_files.compared(changes)]


def lines_of(diff: str) -> list[Line]:
    """The lines of a diff, each as what it is."""
    return [Line(kind, text) for kind, text in kinds(diff.removesuffix("\n").split("\n"))] if diff else []

"""Unified diffs as rows of a table. The text comes from tools and is only ever escaped by the template."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice

LONGEST = 3_000  # lines of one diff on a page
_HUNK = re.compile(r"^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@(.*)$")
_KINDS = {"+": "add", "-": "del", " ": "same", "\\": "note"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line. ``old`` and ``new`` are line numbers, None where the line does not exist."""

    kind: str
    old: int | None
    new: int | None
    text: str

    @property
    def sign(self) -> str:
        return {"add": "+", "del": "\u2212"}.get(self.kind, "")


@dataclass(slots=True)
class FileDiff:
    path: str
    rows: list[Row] = field(default_factory=list)
    added: int = 0
    removed: int = 0
    cut: int = 0


def parse(text: str) -> list[FileDiff]:
    """Files of a unified diff, in order. Text that is no diff gives one nameless file of plain lines."""
    files: list[FileDiff] = []
    lines = text.splitlines()
    for row, path in _rows(islice(lines, LONGEST)):
        if path is not None:
            files.append(FileDiff(path))
        if row is None:
            continue
        if not files:
            files.append(FileDiff(""))
        files[-1].rows.append(row)
        files[-1].added += row.kind == "add"
        files[-1].removed += row.kind == "del"
    if files and len(lines) > LONGEST:
        files[-1].cut = len(lines) - LONGEST
    return files


def _rows(lines: Iterator[str]) -> Iterator[tuple[Row | None, str | None]]:
    """Pairs (row, path of a file that begins here)."""
    old = new = 0
    before = ""
    in_hunk = False
    for line in lines:
        if hunk := _HUNK.match(line):
            old, new, in_hunk = int(hunk[1]), int(hunk[2]), True
            yield Row("hunk", None, None, hunk[3].strip()), None
        elif line.startswith("--- ") and not (in_hunk and line.startswith("--- -")):
            before, in_hunk = line[4:], False
        elif line.startswith("+++ ") and not in_hunk:
            yield None, _name(line[4:], before)
        elif line.startswith(("diff --git ", "index ", "new file", "deleted file", "similarity ", "rename ")):
            in_hunk = False
        elif in_hunk:
            kind = _KINDS.get(line[:1] or " ", "same")
            is_old, is_new = kind in ("del", "same"), kind in ("add", "same")
            yield Row(kind, old if is_old else None, new if is_new else None, line[1:]), None
            old, new = old + is_old, new + is_new


def _name(after: str, before: str) -> str:
    """Path without git's one-letter prefix and time stamp; a deleted file keeps its old name."""
    path = (before if after.startswith("/dev/null") else after).split("\t")[0]
    return path[2:] if path[:2] in ("a/", "b/") else path

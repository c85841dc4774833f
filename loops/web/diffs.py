"""Unified diffs as rows of a table. The text comes from tools and is only ever escaped by the template."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from loops.engine.encoding import canonical
from loops.storage.rows import DATA_CHARS

LONGEST = 3_000  # lines of one diff on a page
_HUNK = re.compile(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$")
_KINDS = {"+": "add", "-": "del", " ": "same", "": "same", "\\": "remark"}
_HEADS = ("--- ", "+++ ", "diff --git ", "index ", "new file", "deleted file", "similarity ", "rename ")


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
    """Lines that are not shown."""
    whole: int = 0
    """Characters of the whole diff where only its beginning was kept for pages; 0 where all of it was."""


def parse(text: str) -> list[FileDiff]:
    """Files of a unified diff, in order. What stands there instead of a diff ("binary file") is a remark."""
    files: list[FileDiff] = []
    lines = text.removesuffix("\n").split("\n") if text else []
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
        left = lines[LONGEST:]
        files[-1].added += sum(line.startswith("+") for line in left)
        files[-1].removed += sum(line.startswith("-") for line in left)
    return files


def of_data(data: Mapping[str, Any]) -> list[FileDiff]:
    """The diff in the structured result of a call. A long one is stored shortened, its counts are of the whole."""
    text = str(data.get("diff") or "")
    said = data.get("diff_chars")
    whole = max(canonical.whole_length(text, DATA_CHARS), said if isinstance(said, int) else 0)
    if whole == len(text):
        return parse(text)
    files = parse(canonical.unshortened(text, DATA_CHARS).rpartition("\n")[0])
    for file in files[:1]:
        file.whole = whole
        file.added, file.removed = int(data.get("added", file.added)), int(data.get("removed", file.removed))
    return files


def kinds(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Pairs (kind, line): head, hunk, add, del, same or remark.

    Inside a hunk only its header's counts say where it ends: a removed "-- comment" looks like the head of a file.
    """
    old = new = 0
    in_hunk = False
    for line in lines:
        inside = old > 0 or new > 0
        if hunk := None if inside else _HUNK.match(line):
            old, new, in_hunk = int(hunk[2] or 1), int(hunk[4] or 1), True
            yield "hunk", line
        elif line.startswith(_HEADS) and not inside:
            in_hunk = False
            yield "head", line
        else:
            kind = _KINDS.get(line[:1], "remark") if in_hunk else "remark"
            old, new = old - (kind in ("del", "same")), new - (kind in ("add", "same"))
            yield kind, line


def _rows(lines: Iterable[str]) -> Iterator[tuple[Row | None, str | None]]:
    """Pairs (row, path of a file that begins here)."""
    old = new = 0
    before = ""
    for kind, line in kinds(lines):
        if kind == "hunk" and (hunk := _HUNK.match(line)):
            old, new = int(hunk[1]), int(hunk[3])
            yield Row("hunk", None, None, hunk[5].strip()), None
        elif kind == "head":
            before = line[4:] if line.startswith("--- ") else before
            yield None, _name(line[4:], before) if line.startswith("+++ ") else None
        elif kind == "remark":
            yield Row("remark", None, None, line.removeprefix("\\ ")) if line.strip() else None, None
        else:
            is_old, is_new = kind != "add", kind != "del"
            yield Row(kind, old if is_old else None, new if is_new else None, line[1:]), None
            old, new = old + is_old, new + is_new


def _name(after: str, before: str) -> str:
    """Path without git's one-letter prefix and time stamp; a deleted file keeps its old name."""
    path = (before if after.startswith("/dev/null") else after).split("\t")[0]
    return path[2:] if path[:2] in ("a/", "b/") else path

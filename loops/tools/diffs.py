"""Apply a model's edit to a text, strictly: an edit that fits in two places or in none is refused with the reason.

Two forms. ``edits``: search/replace pairs, which models get right most often. ``diff``: a unified diff of one file,
where line numbers are only a hint (models miscount) but context and removed lines must stand there exactly.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from loops.engine.text.truncation import quoted

_HEADER = re.compile(r"@@(?: -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))?)?(?: \.\.\.)? ?@@")
_MOST_LINES, _SEARCHED_LINES = 40_000, 5_000
_ADDED = -1
_NO_NEWLINE = "\\ No newline at end of file"


class DiffError(Exception):
    """The edit does not fit the file; the message says which part and what was found instead."""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace ``search`` by ``replace``; it must occur exactly once unless ``everywhere``."""

    search: str
    replace: str
    everywhere: bool = False


@dataclass(frozen=True, slots=True)
class _Hunk:
    number: int
    start: int | None
    """Line of the old file that the header names, from 1; None for a header without numbers."""
    before: tuple[str, ...]
    after: tuple[tuple[int, str], ...]
    """(_ADDED or the index in ``before``, text): context comes from the file, so that its line ends survive."""


def unified(before: str, after: str, path: str) -> str:
    """A unified diff, "" when equal. In that of very long texts all lines are exchanged: to find those that stay would
    take minutes."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    if len(old) + len(new) > _MOST_LINES:
        pieces: Iterable[str] = _exchanged(old, new, path)
    else:
        pieces = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return "".join(line if line.endswith("\n") else f"{line}\n{_NO_NEWLINE}\n" for line in pieces)


def _exchanged(old: list[str], new: list[str], path: str) -> Iterator[str]:
    yield f"--- a/{path}\n"
    yield f"+++ b/{path}\n"
    yield f"@@ -{min(1, len(old))},{len(old)} +{min(1, len(new))},{len(new)} @@\n"
    yield from (f"-{line}" for line in old)
    yield from (f"+{line}" for line in new)


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """All edits in turn, or DiffError and nothing."""
    for number, edit in enumerate(edits, 1):
        text = _apply_edit(text, edit, f"edit {number} of {len(edits)}")
    return text


def apply_unified(text: str, diff: str) -> str:
    """All hunks of a unified diff of one file, or DiffError and nothing."""
    lines = _lines(text)
    result: list[str] = []
    at = 0
    for hunk in _hunks(diff):
        place = _place(lines, hunk, at)
        result += lines[at:place]
        for source, line in hunk.after:
            if result and not result[-1].endswith("\n"):
                result[-1] += "\n"
            result.append(line if source == _ADDED else lines[place + source])
        at = place + len(hunk.before)
    rest = lines[at:]
    if rest and result and not result[-1].endswith("\n"):
        result[-1] += "\n"
    return "".join(result + rest)


def _lines(text: str) -> list[str]:
    """Split after each newline and at nothing else: form feeds and U+2028 are ordinary characters here."""
    pieces = text.split("\n")
    return [f"{piece}\n" for piece in pieces[:-1]] + ([pieces[-1]] if pieces[-1] else [])


def _apply_edit(text: str, edit: Edit, name: str) -> str:
    search, replace = edit.search, edit.replace
    if not search:
        raise DiffError(f"{name}: the search text is empty; use write_file to create a file")
    if search not in text and "\r\n" in text and "\r\n" not in search:
        search, replace = search.replace("\n", "\r\n"), replace.replace("\n", "\r\n")
    count = text.count(search)
    if count == 0:
        raise DiffError(f"{name}: the search text is not in the file. {_nearest(text, search)}")
    if count > 1 and not edit.everywhere:
        places = ", ".join(str(number) for number in _occurrences(text, search))
        raise DiffError(
            f"{name}: the search text occurs {count} times (lines {places}); add surrounding lines to make it unique, "
            'or set "everywhere"'
        )
    return text.replace(search, replace)


def _occurrences(text: str, search: str) -> list[int]:
    found: list[int] = []
    at = text.find(search)
    while at >= 0 and len(found) < 10:
        found.append(text.count("\n", 0, at) + 1)
        at = text.find(search, at + len(search))
    return found


def _nearest(text: str, search: str) -> str:
    """What stands where the model probably meant: the line most like the first line of the search text."""
    wanted = next((line for line in search.split("\n") if line.strip()), "")
    lines = text.split("\n")[:_SEARCHED_LINES]
    for number, line in enumerate(lines, 1):
        if line.strip() == wanted.strip() and wanted.strip():
            block = _block(lines, number, search)
            return f"Line {number} starts the same but for blanks or the lines after it: {block}"
    close = difflib.get_close_matches(wanted, lines, n=1, cutoff=0.6)
    if close:
        return f"The nearest line is {lines.index(close[0]) + 1}: {quoted(close[0], 200)}"
    return f"Nothing like {quoted(wanted, 120)} was found; read the file again."


def _block(lines: Sequence[str], number: int, search: str) -> str:
    count = min(search.count("\n") + 1, 12)
    return quoted("\n".join(lines[number - 1 : number - 1 + count]), 600)


def _hunks(diff: str) -> list[_Hunk]:
    lines = diff.split("\n")
    if lines and lines[-1] == "":
        lines.pop()
    starts = [at for at, line in enumerate(lines) if line.startswith("@@")]
    if not starts:
        raise DiffError("no hunk found: a unified diff has lines such as '@@ -3,4 +3,5 @@' before the changed lines")
    heads = [line for line in lines[: starts[0]] if line.startswith("+++ ")]
    if len(heads) > 1:
        raise DiffError("the diff names several files; send one call for each file")
    bounds = zip(starts, [*starts[1:], len(lines)], strict=True)
    return [_hunk(number, lines[start], lines[start + 1 : end]) for number, (start, end) in enumerate(bounds, 1)]


def _hunk(number: int, header: str, body: list[str]) -> _Hunk:
    match = _HEADER.match(header)
    if match is None:
        raise DiffError(f"hunk {number}: bad header {quoted(header, 80)}")
    start, old_count, _, new_count = match.groups()
    if start is None:
        return _Hunk(number, None, *_sides(number, body))
    body = _counted(number, body, int(old_count or 1), int(new_count or 1))
    first = int(start) + 1 if old_count == "0" else int(start)  # by convention "-3,0" means after line 3
    return _Hunk(number, first, *_sides(number, body))


def _sides(number: int, body: list[str]) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """The lines before and after, as _Hunk holds them."""
    before: list[str] = []
    after: list[tuple[int, str]] = []
    for at, line in enumerate(body):
        if line.startswith("\\"):
            _drop_newline(before, after, body[at - 1] if at else "")
            continue
        mark, rest = (line[0], line[1:] + "\n") if line else (" ", "\n")
        if mark not in " +-":
            raise DiffError(f"hunk {number}: a line starts with ' ', '+' or '-', this one does not: {quoted(line, 80)}")
        if mark in " -":
            before.append(rest)
        if mark in " +":
            after.append((len(before) - 1 if mark == " " else _ADDED, rest))
    return tuple(before), tuple(after)


def _drop_newline(before: list[str], after: list[tuple[int, str]], above: str) -> None:
    """The marker speaks of the line ``above`` it."""
    if above[:1] in ("-", " ") and before:
        before[-1] = before[-1].removesuffix("\n")
    if above[:1] in ("+", " ") and after:
        after[-1] = (after[-1][0], after[-1][1].removesuffix("\n"))


def _counted(number: int, body: list[str], old: int, new: int) -> list[str]:
    """Cut the body where the header's counts are used up. Counts that do not work out are ignored: models miscount."""
    olds = news = 0
    for at, line in enumerate(body):
        if (olds, news) == (old, new) and not line.startswith("\\"):
            rest = [text for text in body[at:] if text.strip()]
            if any(text.startswith(("--- ", "diff --git ")) for text in rest):
                raise DiffError(f"after hunk {number} the diff names another file; send one call for each file")
            return body[:at] if not rest else body
        olds += line[:1] in ("-", " ", "")
        news += line[:1] in ("+", " ", "")
    return body


def _place(lines: Sequence[str], hunk: _Hunk, at: int) -> int:
    """Index of the first line that the hunk replaces, at or after ``at``."""
    wanted = [line.rstrip("\r\n") for line in hunk.before]
    hint = min(max((hunk.start or 1) - 1, at), len(lines))
    if not wanted:
        if hunk.start is None and lines:
            raise DiffError(f"hunk {hunk.number} only adds lines and has no line numbers: add context lines")
        return hint
    if _fits(lines, wanted, hint):
        return hint
    places = [place for place in range(at, len(lines) - len(wanted) + 1) if _fits(lines, wanted, place)]
    if len(places) == 1:
        return places[0]
    if places:
        found = ", ".join(str(place + 1) for place in places[:10])
        raise DiffError(f"hunk {hunk.number} fits at lines {found} and not at line {hint + 1}: add context lines")
    raise DiffError(f"hunk {hunk.number} does not fit. {_mismatch(lines, wanted, hint)}")


def _fits(lines: Sequence[str], wanted: Sequence[str], place: int) -> bool:
    if place + len(wanted) > len(lines):
        return False
    return all(lines[place + offset].rstrip("\r\n") == line for offset, line in enumerate(wanted))


def _mismatch(lines: Sequence[str], wanted: Sequence[str], hint: int) -> str:
    """The first line that differs, at the place where most of the hunk fits."""
    candidates = range(max(0, hint - 500), min(len(lines), hint + 500))
    best = max(candidates, key=lambda place: (_agreement(lines, wanted, place), -abs(place - hint)), default=0)
    for offset, line in enumerate(wanted):
        if best + offset >= len(lines):
            return f"The file ends at line {len(lines)}, but the diff expects {quoted(line, 200)} after it."
        found = lines[best + offset].rstrip("\r\n")
        if found != line:
            return f"Line {best + offset + 1} is {quoted(found, 200)}, but the diff expects {quoted(line, 200)}."
    return "The lines stand before the end of the hunk above it; order the hunks by line."


def _agreement(lines: Sequence[str], wanted: Sequence[str], place: int) -> int:
    return sum(line.rstrip("\r\n") == want for line, want in zip(lines[place:], wanted, strict=False))

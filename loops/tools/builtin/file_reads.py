"""list_files, read_file, search_files: look, change nothing (SPEC I5)."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from loops.engine.text.patterns import BadPattern, Pattern, regular_expression, work
from loops.engine.text.truncation import shortened
from loops.engine.values import Access, Danger, Json, Reversibility, ToolResult, ToolSpec
from loops.tools.arguments import PATH, flag, schema, string, text, whole
from loops.tools.execution import in_thread
from loops.tools.globs import matches
from loops.tools.output import clean_text, is_binary, sha256_hex, show
from loops.tools.registry import ArgumentError, Arguments, Operands, Tool, ToolRun
from loops.tools.sandbox.safe_paths import PathRefused, kind, relative
from loops.tools.searched_files import SearchedFiles

_READ_LINES = 2_000
_SEARCHED_FILE_BYTES = 2 << 20
_LONGEST_SEARCH = 1_000_000_000
"""Steps of a search in one file, of some 8 ns each; a thread that searches cannot be stopped."""
_LONGEST_LINE = 300
_NAMED = 5
"""Files of one kind that were not searched."""


async def list_files(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _list(arguments, run), run)


def _list(arguments: Arguments, run: ToolRun) -> ToolResult:
    top, glob = text(arguments, "path", "."), text(arguments, "glob")
    recursive, ignored = flag(arguments, "recursive", default=True), flag(arguments, "include_ignored")
    files = SearchedFiles(run.workspace, top, include_ignored=ignored, recursive=recursive)
    lines: list[str] = []
    total = 0
    for path, status in files:
        inside = os.path.relpath(path, top) if top != "." else path
        if glob and not matches(glob, inside):
            continue
        total += 1
        if total <= run.limits.listed_files:
            lines.append(_line(path, status))
        if run.cancelled.is_set():
            break
    notes = [f"[{total - len(lines)} more; narrow with path or glob]"] if total > len(lines) else []
    data: dict[str, Json] = {"path": top, "count": total, **_ignored(files)}
    content = "\n".join([*(lines or ["(nothing here)"]), *notes, *files.notes])
    return ToolResult(ok=True, content=content, data=data)


def _ignored(files: SearchedFiles) -> dict[str, Json]:
    return {"ignored": files.left_out} if files.left_out else {}


def _line(path: str, status: os.stat_result) -> str:
    shown = clean_text(path)
    if stat.S_ISDIR(status.st_mode):
        return f"{shown}/"
    if stat.S_ISREG(status.st_mode):
        return f"{shown}  {status.st_size}"
    return f"{shown}  ({kind(status.st_mode)})"


async def read_file(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _read(arguments, run), run)


def _read(arguments: Arguments, run: ToolRun) -> ToolResult:
    path, first = text(arguments, "path"), whole(arguments, "offset", 1)
    data = run.workspace.read(path)
    about: dict[str, Json] = {"path": relative(path), "sha256": sha256_hex(data), "size": len(data)}
    if is_binary(data):
        return ToolResult(ok=True, content=show(data, run.limits.shown_bytes, run.save_blob).text, data=about)
    lines = clean_text(data).split("\n")
    if lines[-1] == "":
        lines.pop()
    wanted = lines[first - 1 : first - 1 + whole(arguments, "limit", _READ_LINES)]
    taken = _fitting(wanted, run.limits.shown_bytes - 200)
    last = first - 1 + len(taken)
    content = "\n".join(taken)
    if first > max(len(lines), 1):
        content = f"[the file has {len(lines)} lines; there is no line {first}]"
    elif first > 1 or last < len(lines):
        more = f"; continue with offset {last + 1}" if last < len(lines) else ""
        content += f"\n[lines {first} to {last} of {len(lines)}{more}]"
    return ToolResult(ok=True, content=content or "(empty file)", data=about | {"lines": len(lines)})


def _fitting(lines: list[str], limit: int) -> list[str]:
    """As many whole lines as fit, at least one."""
    size = 0
    for at, line in enumerate(lines):
        size += len(line.encode()) + 1
        if size > limit:
            return lines[: max(at, 1)]
    return lines


async def search_files(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _search(arguments, run), run)


def _search(arguments: Arguments, run: ToolRun) -> ToolResult:
    try:
        pattern = regular_expression(text(arguments, "pattern"), ignore_case=flag(arguments, "ignore_case"))
    except BadPattern as error:
        raise ArgumentError(f"{error} (RE2 syntax: no look-around, no back-references)") from error
    found: list[str] = []
    passed_over: dict[str, list[str]] = {}
    searched = SearchedFiles(
        run.workspace, text(arguments, "path", "."), include_ignored=flag(arguments, "include_ignored")
    )
    files, stopped = 0, False
    for path in _searched(arguments, run, searched):
        hits, why_not = _hits(run, path, pattern)
        if why_not:
            passed_over.setdefault(why_not, []).append(clean_text(path))
        files += bool(hits)
        found += hits
        if stopped := len(found) > run.limits.found_lines or run.cancelled.is_set():
            del found[run.limits.found_lines :]
            break
    data: dict[str, Json] = {"pattern": text(arguments, "pattern"), "lines": len(found), "files": files}
    data |= _ignored(searched)
    notes = [f"[stopped at {len(found)} lines; narrow the search]"] if stopped else []
    notes += [_passed_over(why, paths) for why, paths in passed_over.items()] + searched.notes
    return ToolResult(ok=True, content="\n".join([*(found or ["(nothing found)"]), *notes]), data=data)


def _passed_over(why: str, paths: list[str]) -> str:
    """A search that looked into less than it was asked to says so: nothing found may mean not looked."""
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"[not searched, {why}: {', '.join(paths[:_NAMED])}{more}]"


def _searched(arguments: Arguments, run: ToolRun, searched: SearchedFiles) -> Iterator[str]:
    top, glob = text(arguments, "path", "."), text(arguments, "glob")
    status = run.workspace.beneath.stat(top)
    if status is not None and stat.S_ISREG(status.st_mode):
        yield top
        return
    for path, found in searched:
        named = not glob or matches(glob, path) or ("/" not in glob and matches(glob, os.path.basename(path)))
        if named and stat.S_ISREG(found.st_mode):
            yield path


def _hits(run: ToolRun, path: str, pattern: Pattern) -> tuple[list[str], str]:
    """Lines that match, one more than are shown at most; and why the file was not searched, else ""."""
    try:
        status = run.workspace.beneath.stat(path)
        if status is not None and status.st_size > _SEARCHED_FILE_BYTES:
            return [], f"larger than {_SEARCHED_FILE_BYTES:,} bytes"
        data = run.workspace.beneath.read(path, _SEARCHED_FILE_BYTES)[0]
    except (OSError, PathRefused):
        return [], "cannot be read"
    if is_binary(data):
        return [], "not text"
    if work(pattern, data) > _LONGEST_SEARCH:
        return [], "too long for so large a pattern"
    hits = list[str]()
    for number, line in enumerate(clean_text(data).split("\n"), 1):
        if pattern.search(line):
            hits.append(f"{clean_text(path)}:{number}: {shortened(line, _LONGEST_LINE)}")
            if len(hits) > run.limits.found_lines:
                break
    return hits, ""


def _reads(arguments: Arguments, run: ToolRun) -> Operands:
    return Operands(reads=(text(arguments, "path", "."),))


_GLOB = string("Only paths that match, such as **/*.py; * stays in a folder, ** crosses folders.", maxLength=200)
_INCLUDE_IGNORED: dict[str, Json] = {"type": "boolean", "description": "Also what .gitignore leaves out."}
_COUNT: dict[str, Json] = {"type": "integer", "minimum": 1, "maximum": 1_000_000}

TOOLS = (
    Tool(
        ToolSpec(
            name="list_files",
            deed="List {path}",
            description="List files and folders of the workspace with sizes; folders end with /.",
            parameters=schema(
                path=PATH,
                glob=_GLOB,
                recursive={"type": "boolean", "description": "Default true."},
                include_ignored=_INCLUDE_IGNORED,
            ),
            operation="read",
            reversibility=Reversibility.PURE,
            danger=Danger.LOW,
            default_access=Access.ASK,
            retriable=True,
        ),
        list_files,
        _reads,
    ),
    Tool(
        ToolSpec(
            name="read_file",
            deed="Read {path}",
            description="Read a text file. Long files come in pieces: pass offset (first line) and limit (lines).",
            parameters=schema(
                ("path",),
                path=PATH,
                offset=_COUNT | {"description": "First line, from 1."},
                limit=_COUNT | {"description": f"How many lines; default {_READ_LINES}."},
            ),
            operation="read",
            reversibility=Reversibility.PURE,
            danger=Danger.LOW,
            default_access=Access.ASK,
            retriable=True,
        ),
        read_file,
        _reads,
    ),
    Tool(
        ToolSpec(
            name="search_files",
            deed="Search for {pattern}",
            description="Search file contents with a regular expression (RE2). Answers path:line: text.",
            parameters=schema(
                ("pattern",),
                pattern=string("An RE2 regular expression, matched in each line.", minLength=1, maxLength=1000),
                path=PATH,
                glob=_GLOB,
                ignore_case={"type": "boolean"},
                include_ignored=_INCLUDE_IGNORED,
            ),
            operation="read",
            reversibility=Reversibility.PURE,
            danger=Danger.LOW,
            default_access=Access.ASK,
            retriable=True,
        ),
        search_files,
        _reads,
    ),
)

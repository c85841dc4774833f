"""restore_files: put files back as they were, as assertions that may be made any number of times (SPEC O2).

No agent has this tool. It never overwrites what somebody else did since: a file that is neither as the undone call left
it nor as it was before stays as it is, and is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from loops.engine.ports import Verified
from loops.engine.values import Access, Danger, FailureKind, Json, Reversibility, ToolResult, ToolSpec
from loops.tools.arguments import objects, schema, text
from loops.tools.execution import in_thread
from loops.tools.fence import LeaseOver
from loops.tools.file_assertions import WHY, Assertion, with_sources
from loops.tools.file_changes import difference
from loops.tools.registry import Arguments, Operands, Tool, ToolRun
from loops.tools.rollback import RESTORE
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.snapshots import FOLDER, NOTHING, hash_of, read_state, state_of

_LONGEST_DIFF = 60_000
_MOST_SHOWN, _MOST_NAMED = 300, 20


async def restore_files(arguments: Arguments, run: ToolRun) -> ToolResult:
    assertions = _assertions(arguments)
    blobs: dict[str, bytes] = {}
    for sha256 in {hash_of(one.wanted) for one in assertions} - {""}:  # here: the thread must not ask for blobs
        with suppress(KeyError):
            blobs[sha256] = run.read_blob(sha256)
    return await in_thread(lambda: _restore(assertions, blobs, run), run)


def _restore(assertions: list[Assertion], blobs: Mapping[str, bytes], run: ToolRun) -> ToolResult:
    restored: list[Json] = []
    left: list[Json] = []
    held = set[str]()
    back = [one for one in assertions if one.source]
    for assertion in (*back, *(one for one in reversed(assertions) if not one.source)):
        if assertion.path in held:
            left.append({"path": assertion.path, "why": "all that is left of a file which is too large to be kept"})
            continue
        try:
            standing = assertion.standing(state_of(run.workspace, assertion.path))
            if standing == "restore":
                assertion.make(run.workspace, blobs)
                restored.append(assertion.path)
            why = WHY.get(standing, "")
        except LeaseOver:
            raise
        except KeyError:
            why = "its former content is not stored any more"
        except (PathRefused, OSError) as error:
            why = str(error)
        if why:
            left.append({"path": assertion.path, "why": why})
            held.add(assertion.source)
    said = f"{len(restored)} of {len(assertions)} put back, {len(left)} left as they are"
    whys = "; ".join(f"{one['path']}: {one['why']}" for one in left[:_MOST_NAMED] if isinstance(one, dict))
    data: dict[str, Json] = {"restored": restored, "left": left}
    if not left:
        return ToolResult(ok=True, content=said, data=data)
    return ToolResult(ok=False, content=said, error=whys, kind=FailureKind.SYSTEMATIC, data=data)


def _preview(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    """What would become of each file, and the diff from how it is now to how it would be."""
    files: list[Json] = []
    diff, room, left_out = list[str](), _LONGEST_DIFF, 0
    for assertion in _assertions(arguments):
        try:
            now, data = read_state(run.workspace, assertion.path)
        except (PathRefused, OSError) as error:
            files.append(_shown(assertion, "?", str(error)))
            continue
        standing = assertion.standing(now)
        if standing == "already":
            continue
        files.append(_shown(assertion, now, WHY.get(standing, "")))
        if standing == "restore":
            part = _difference(assertion, data, run)
            diff.append(part[:room])
            left_out += len(part) - len(diff[-1])
            room -= len(diff[-1])
    view: dict[str, Json] = {"files": files[:_MOST_SHOWN], "more_files": max(0, len(files) - _MOST_SHOWN)}
    if left_out:
        diff.append(f"\n[... {left_out:,} characters of the diff cut ...]\n")
    return {"kind": "undo", **view, "diff": "".join(diff), "diff_is_cut": left_out > 0}


def _shown(assertion: Assertion, now: str, why_not: str) -> dict[str, Json]:
    folder = FOLDER in (now, assertion.wanted)
    return {"path": assertion.path, "what": _what(now, assertion), "folder": folder, "why_not": why_not}


def _what(now: str, assertion: Assertion) -> str:
    """What undoing means for one path, in a word of its own for each."""
    if assertion.wanted == NOTHING:
        return "remove"
    if now == NOTHING:
        return "make again"
    return "change back"


def _difference(assertion: Assertion, data: bytes, run: ToolRun) -> str:
    before = b""
    if sha256 := hash_of(assertion.wanted):
        try:
            before = run.read_blob(sha256)
        except KeyError:
            return f"--- {assertion.path}\nits former content is not stored any more\n"
    return difference(assertion.path, data, before) if data or before else ""


def _assertions(arguments: Arguments) -> list[Assertion]:
    listed = objects(arguments, "files")
    return with_sources([Assertion(*(text(one, name) for name in ("path", "before", "after"))) for one in listed])


def _verify(arguments: Arguments, run: ToolRun) -> Verified:
    there = all(state_of(run.workspace, one.path) == one.wanted for one in _assertions(arguments))
    return Verified.DONE if there else Verified.NOT_DONE


def _operands(arguments: Arguments, run: ToolRun) -> Operands:
    """None for the matrix: a person ordered this. Every single path is checked when it is written."""
    return Operands()


def _words() -> Iterator[tuple[str, dict[str, Json]]]:
    for name in ("path", "before", "after"):
        yield name, {"type": "string", "maxLength": 2048}


TOOLS = (
    Tool(
        ToolSpec(
            name=RESTORE,
            description="Put files back as they were before a call; only a person's order for a rollback uses it.",
            parameters=schema(
                ("files",), files={"type": "array", "items": schema(("path", "before", "after"), **dict(_words()))}
            ),
            operation="write",
            reversibility=Reversibility.COMPENSABLE,
            danger=Danger.HIGH,
            default_access=Access.ASK,
            timeout_s=300.0,
            retriable=True,
        ),
        restore_files,
        _operands,
        _preview,
        _verify,
        internal=True,
    ),
)

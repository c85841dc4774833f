"""write_file and apply_diff: change one file in one atomic step, with the diff as the result (SPEC I5)."""

from __future__ import annotations

from collections.abc import Mapping

from loops.engine.ports import Verified
from loops.engine.values import Access, Danger, Json, Reversibility, ToolResult, ToolSpec
from loops.tools.arguments import PATH, flag, objects, schema, string, text
from loops.tools.diffs import DiffError, Edit, apply_edits, apply_unified
from loops.tools.execution import in_thread
from loops.tools.expectations import expected
from loops.tools.file_changes import as_text, describe, read_before, report
from loops.tools.output import sha256_hex
from loops.tools.registry import ArgumentError, Arguments, Operands, Tool, ToolRun
from loops.tools.rollback import lasting_file, of_content


async def write_file(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _write(arguments, run), run)


def _write(arguments: Arguments, run: ToolRun) -> ToolResult:
    path, after = text(arguments, "path"), text(arguments, "content").encode()
    before = read_before(run, path)
    run.workspace.write(path, after)
    return report(run, path, before, after, f"{'created' if before is None else 'wrote'} {path}, {len(after)} bytes")


def _preview_write(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    path = text(arguments, "path")
    return {"kind": "diff"} | describe(path, read_before(run, path), text(arguments, "content").encode())


def _verify_write(arguments: Arguments, run: ToolRun) -> Verified:
    """The write is one rename, so the file has the content, or what it had before, or was changed by somebody else."""
    path, wanted = text(arguments, "path"), sha256_hex(text(arguments, "content").encode())
    now, before = run.workspace.hash(path), expected(run, "before", path)
    if now == wanted:
        return Verified.DONE
    return Verified.NOT_DONE if before in (None, now) else Verified.UNKNOWN


async def apply_diff(arguments: Arguments, run: ToolRun) -> ToolResult:
    return await in_thread(lambda: _apply(arguments, run), run)


def _apply(arguments: Arguments, run: ToolRun) -> ToolResult:
    path = text(arguments, "path")
    before = run.workspace.read(path)
    after = _edited(arguments, as_text(before, path)).encode()
    run.workspace.write(path, after)
    return report(run, path, before, after, f"changed {path}, {len(after)} bytes")


def _edited(arguments: Arguments, before: str) -> str:
    edits = objects(arguments, "edits")
    if not edits:
        return apply_unified(before, text(arguments, "diff"))
    parts = [Edit(text(e, "search"), text(e, "replace"), flag(e, "everywhere")) for e in edits]
    return apply_edits(before, parts)


def _preview_apply(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    """Raises DiffError when it would not apply: the model hears of it before a person is asked."""
    path = text(arguments, "path")
    before = run.workspace.read(path)
    return {"kind": "diff"} | describe(path, before, _edited(arguments, as_text(before, path)).encode())


def _verify_apply(arguments: Arguments, run: ToolRun) -> Verified:
    """What INTENT expected decides. Without it: it still applies, so it was not done; every replacement stands there
    and nothing to search for, so it was. Else a person."""
    path = text(arguments, "path")
    before, after = expected(run, "before", path), expected(run, "after", path)
    if before is not None and after is not None:
        return {after: Verified.DONE, before: Verified.NOT_DONE}.get(run.workspace.hash(path), Verified.UNKNOWN)
    now = as_text(run.workspace.read(path), path)
    try:
        _edited(arguments, now)
    except DiffError:
        edits = objects(arguments, "edits")
        done = edits and all(text(e, "replace") in now and text(e, "search") not in now for e in edits)
        return Verified.DONE if done else Verified.UNKNOWN
    grows = any(text(e, "search") in text(e, "replace") for e in objects(arguments, "edits"))
    return Verified.UNKNOWN if grows or not objects(arguments, "edits") else Verified.NOT_DONE


def _writes(arguments: Arguments, run: ToolRun) -> Operands:
    return Operands(writes=(text(arguments, "path"),))


def _writes_edits(arguments: Arguments, run: ToolRun) -> Operands:
    if bool(objects(arguments, "edits")) == bool(text(arguments, "diff")):
        raise ArgumentError('send either "edits" (search/replace pairs) or "diff" (a unified diff), not both or none')
    return _writes(arguments, run)


_EDIT: dict[str, Json] = schema(
    ("search", "replace"),
    search=string("Text that stands exactly once in the file, copied exactly, blanks included.", minLength=1),
    replace=string("What stands there afterwards; may be empty."),
    everywhere={"type": "boolean", "description": "Replace every occurrence; default false."},
)

TOOLS = (
    Tool(
        ToolSpec(
            name="write_file",
            deed="Write {path}",
            description="Create a file or replace its whole content. For a small change use apply_diff.",
            parameters=schema(("path", "content"), path=PATH, content=string("The whole new content.")),
            operation="write",
            reversibility=Reversibility.REVERSIBLE,
            danger=Danger.MEDIUM,
            default_access=Access.ASK,
            retriable=True,
        ),
        write_file,
        _writes,
        _preview_write,
        _verify_write,
        undo=of_content(lambda arguments, run, before: text(arguments, "content").encode()),
        lasting=lasting_file("path"),
    ),
    Tool(
        ToolSpec(
            name="apply_diff",
            deed="Change {path}",
            description=(
                "Change parts of a text file. Preferred: edits, each with a search text that occurs exactly once and "
                "its replacement, applied in order. Or: diff, a unified diff of this one file. All of it applies, or "
                "nothing does and the error says which part failed and what stands there."
            ),
            parameters=schema(
                ("path",),
                path=PATH,
                edits={"type": "array", "items": _EDIT, "minItems": 1, "maxItems": 200},
                diff=string("A unified diff with @@ hunks.", minLength=1),
            ),
            operation="write",
            reversibility=Reversibility.REVERSIBLE,
            danger=Danger.MEDIUM,
            default_access=Access.ASK,
        ),
        apply_diff,
        _writes_edits,
        _preview_apply,
        _verify_apply,
        undo=of_content(lambda a, run, before: _edited(a, as_text(before, text(a, "path"))).encode()),
        lasting=lasting_file("path"),
    ),
)

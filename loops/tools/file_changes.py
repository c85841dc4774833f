"""How a changed file is reported: a diff for people, hashes for checks and rollback, blobs for both (SPEC I5, O2)."""

from __future__ import annotations

from collections.abc import Mapping

from loops.engine.values import ArtifactRef, Json, ToolResult
from loops.tools.diffs import unified
from loops.tools.output import clean_text, is_binary, sha256_hex
from loops.tools.registry import ToolRun
from loops.tools.sandbox.safe_paths import relative

_LONGEST_DIFF = 400_000
"""Characters; more than a file of 5,000 lines has, so that whoever approves it sees all of it."""


def read_before(run: ToolRun, path: str) -> bytes | None:
    """The file's bytes, None when there is none yet."""
    try:
        return run.workspace.read(path)
    except FileNotFoundError:
        return None


def as_text(data: bytes | None, path: str) -> str:
    """UTF-8 text of a file. Raises OSError (fit for the model) when it is something else."""
    try:
        return (data or b"").decode()
    except UnicodeDecodeError:
        raise OSError(0, "not UTF-8 text; use a command to change it", path) from None


def describe(path: str, before: bytes | None, after: bytes | None) -> dict[str, Json]:
    """``{"path", "diff", "added", "removed", "before_bytes", "after_bytes", "before_sha256", "after_sha256", "created",
    "deleted"}``; a hash is "" for no file. Where the diff is cut, ``diff_chars`` says how long the whole is. The counts
    of lines are those of the whole diff, also where it is cut; they are missing where there is none to count."""
    path = relative(path)
    diff = difference(path, before or b"", after or b"")
    return {
        "path": path,
        "diff": diff if len(diff) <= _LONGEST_DIFF else _cut(diff),
        **({"diff_chars": len(diff)} if len(diff) > _LONGEST_DIFF else {}),
        **_counts(diff),
        "before_bytes": len(before or b""),
        "after_bytes": len(after or b""),
        "before_sha256": "" if before is None else sha256_hex(before),
        "after_sha256": "" if after is None else sha256_hex(after),
        "created": before is None,
        "deleted": after is None,
    }


def difference(path: str, before: bytes, after: bytes) -> str:
    """The whole diff for people, or one line that says why there is none. Other bytes are other text."""
    old, new = _shown(before), _shown(after)
    if old is None or new is None:
        sizes = f"{len(before)} bytes before, {len(after)} after"
        return f"binary file {clean_text(path)}: {sizes}, not shown; SHA-256 {sha256_hex(after)}\n"
    return clean_text(unified(old, new, path))


def _shown(data: bytes) -> str | None:
    """As text, whatever control characters it holds; None for what is none. A shell runs what only looks binary."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None if is_binary(data) else data.decode(errors="backslashreplace")


def _cut(diff: str) -> str:
    return diff[:_LONGEST_DIFF] + f"\n[... {len(diff) - _LONGEST_DIFF} characters of the diff cut ...]\n"


def _counts(diff: str) -> dict[str, Json]:
    """Lines added and removed; nothing for what is no diff."""
    lines = diff.split("\n")[2:]
    if not any(line.startswith("@@") for line in lines[:1]):
        return {}
    return {"added": sum(line[:1] == "+" for line in lines), "removed": sum(line[:1] == "-" for line in lines)}


def report(run: ToolRun, path: str, before: bytes | None, after: bytes | None, said: str) -> ToolResult:
    """The result of a change; both versions are saved, so that a rollback has what it needs."""
    data: Mapping[str, Json] = describe(path, before, after)
    if before is not None:
        run.save_blob(before)
    artifacts: tuple[ArtifactRef, ...] = ()
    if after is not None:
        kind = "application/octet-stream" if is_binary(after) else "text/plain"
        artifacts = (ArtifactRef(relative(path), kind, run.save_blob(after), len(after)),)
    return ToolResult(ok=True, content=said, artifacts=artifacts, data=data)

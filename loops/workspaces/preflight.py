"""Run the commands of acceptance criteria once, on a copy of a workspace that is thrown away."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from loops.engine import ports as p
from loops.engine.text.truncation import shortened
from loops.engine.values import Access, ToolCall, ToolResult
from loops.engine.verification.environment import obstacle
from loops.engine.verification.trial import counted
from loops.models import Preflight
from loops.runs.composition import LiveTools, rules_of
from loops.storage import blobs, journal
from loops.tools.output import sha256_hex
from loops.workspaces import copies
from loops.workspaces.folder_copy import WorkspaceElsewhere, WorkspaceUnusable

OUTPUT_CHARS = 8_000
_NAME = "preflight-"


def measure(asked: Preflight) -> list[dict[str, Any]]:
    """The results of ``asked``, one for each command. What keeps all of them from running is that of the first."""
    try:
        with _folder(asked) as folder:
            connection = journal.raw_connection()
            rules = rules_of(asked.project_id, connection, workspace_id=asked.workspace_id)
            stored = blobs.Stored(connection)
            variables = asked.workspace.variables if asked.workspace is not None else {}
            tools = LiveTools(
                asked.agent_type, rules, lambda event: None, stored, sha256_hex, read_variables=lambda: variables
            )
            return asyncio.run(_run(tools, asked, folder))
    except (WorkspaceUnusable, WorkspaceElsewhere, OSError) as error:
        return [_result(asked.commands[0], "error", str(error))]


@contextmanager
def _folder(asked: Preflight) -> Iterator[Path]:
    root = copies.made_root()
    folder = root / f"{_NAME}{asked.pk}"
    folder.mkdir(mode=0o700)
    try:
        if asked.workspace is not None:
            copies.fill_copy(asked.workspace, folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _run(tools: LiveTools, asked: Preflight, folder: Path) -> list[dict[str, Any]]:
    return [await _one(tools, asked, folder, number) for number in range(len(asked.commands))]


async def _one(tools: LiveTools, asked: Preflight, folder: Path, number: int) -> dict[str, Any]:
    command = asked.commands[number]
    call = ToolCall(f"preflight{number}", "run_tests", {"command": command})
    place = (str(asked.pk), 0, asked.agent_type, str(asked.project_id), str(folder))
    context = p.CallContext(*place, idempotency_key=f"{asked.pk}-{number}", is_criterion=True)
    judgement = await tools.judge(call, context)
    if judgement.access is Access.DENY:
        return _result(command, "refused", "; ".join(judgement.reasons))
    result = await tools.execute(call, context, lambda stream, chunk: None)
    found = obstacle(result, lambda missing: False)
    if found is not None:
        return _result(command, "error", f"{found.what} {found.todo}", result)
    return _result(command, "passed" if result.ok else "failed", _counted(result), result)


def _counted(result: ToolResult) -> str:
    return counted(result.data) or f"Exit code {result.exit_code}."


def _result(command: str, status: str, said: str, result: ToolResult | None = None) -> dict[str, Any]:
    output = f"{result.error}\n{result.content}".strip() if result is not None else ""
    said, shown = shortened(said, 1_000), output[-OUTPUT_CHARS:]
    milliseconds = result.duration_ms if result is not None else 0
    return {"command": command, "status": status, "said": said, "output": shown, "duration_ms": milliseconds}

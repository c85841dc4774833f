"""Measure the acceptance criteria of a proposed result (SPEC C6, L1, L2)."""

from __future__ import annotations

import asyncio

from loops.driver.desk import Desk
from loops.driver.tool_calls import ToolCalls
from loops.driver.watch import STOP_OR_PAUSE, Watch
from loops.engine import facts as f
from loops.engine.environment import obstacle
from loops.engine.values import ToolCall, ToolResult
from loops.engine.verification import check_schema, unproven

DETAIL_CHARS = 4000
SCHEMA_S = 60.0
"""The judgement has a budget of its own; this is for a machine with a lot to do."""


async def run_checks(desk: Desk, calls: ToolCalls, watch: Watch) -> None:
    """The schema first, because it is cheap and hard; then every command, in the sandbox.

    The commands are the operator's own words, given with the task, so they pass no gate. They may be begun again: a
    stop, a pause or a crash in between starts the checks afresh.
    """
    spec = desk.state.spec
    desk.note(f.ChecksStarted(count=len(spec.criteria)))
    desk.flush()
    checks: list[f.Check] = []
    schema = None
    if spec.output_schema is not None:  # in a thread: what a person says is heard meanwhile
        judging = asyncio.to_thread(check_schema, spec, desk.state.result or "")
        schema = await watch.interruptible(judging, STOP_OR_PAUSE, what="output schema", within_s=SCHEMA_S)
    if schema is not None:
        checks.append(schema)
    if schema is None or schema.status == "passed":
        for number, criterion in enumerate(criterion for criterion in spec.criteria if criterion.command):
            call = ToolCall(id=f"check{number}", name="run_command", arguments={"command": criterion.command})
            result = await calls.execute(call, calls.context(call), STOP_OR_PAUSE)
            checks.append(_check(criterion.text, criterion.command, result))
    desk.note(f.ChecksCompleted(checks=(*checks, *unproven(spec))))


def _ends(text: str) -> str:
    """Its beginning, and more of its end: there commands say what failed."""
    if len(text) <= DETAIL_CHARS:
        return text
    first, last = DETAIL_CHARS // 4, DETAIL_CHARS - DETAIL_CHARS // 4
    return f"{text[:first]}\n[… {len(text) - DETAIL_CHARS} characters left out …]\n{text[-last:]}"


def _check(text: str, command: str, result: ToolResult) -> f.Check:
    found = obstacle(result)
    status = "passed" if result.ok else "failed" if found is None else "error"
    detail = "" if result.ok else _ends(f"{result.error}\n{result.content}".strip())
    return f.Check(
        text=text,
        status=status,
        command=command,
        detail=detail,
        duration_ms=result.duration_ms,
        obstacle=found.code if found else "",
        wanted=f"{found.what} {found.todo}" if found else "",
    )

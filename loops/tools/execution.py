"""Run one tool to a ToolResult, whatever it does: errors, time, oversized and unclean output (SPEC C5, E1)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from loops.engine.ports import OnOutput
from loops.engine.text.truncation import shortened
from loops.engine.values import ArtifactRef, FailureKind, Json, ToolResult
from loops.tools import command_inputs
from loops.tools.diffs import DiffError
from loops.tools.fence import LeaseOver
from loops.tools.output import clean_text, sha256_hex, show
from loops.tools.registry import ArgumentError, Arguments, Tool, ToolRun
from loops.tools.sandbox.namespaces.user import NoUserNamespace
from loops.tools.sandbox.safe_paths import PathRefused

_GRACE_S = 5.0


async def perform(tool: Tool, arguments: Arguments, run: ToolRun, bound: dict[str, Json] | None) -> ToolResult:
    """Never raises but for cancellation. ``bound`` is the approved subject: its scripts run from sealed bytes."""
    started = time.monotonic()
    run = replace(run, on_output=_quiet(run.on_output))
    try:
        if bound is not None:
            run = replace(run, sealed=_sealed(tool, arguments, run, bound))
            run = replace(run, changed=partial(command_inputs.changed, bound, run))
        async with asyncio.timeout(_longest(tool, run) + _GRACE_S):
            result = await tool.run(arguments, run)
    except (asyncio.CancelledError, KeyboardInterrupt):
        run.cancelled.set()
        raise
    except (Exception, SystemExit) as error:  # a tool's own bug is its failure, not the worker's
        run.cancelled.set()
        result = explain(error, tool.spec.name)
    duration = result.duration_ms or int((time.monotonic() - started) * 1000)
    return replace(_fit(result, run), duration_ms=duration)


def explain(error: BaseException, name: str) -> ToolResult:
    """A failed result that says what went wrong, with the kind that decides what happens next."""
    match error:
        case PathRefused():
            return _failure(str(error), FailureKind.CRITICAL if error.escape else FailureKind.SYSTEMATIC)
        case DiffError() | ArgumentError():
            return _failure(str(error))
        case TimeoutError():
            return _failure(f"{name} took too long", fault="timeout")
        case NoUserNamespace():
            return _failure(f"the sandbox does not start: {error}", FailureKind.UNRECOVERABLE, fault="sandbox")
        case LeaseOver():
            return _failure(str(error), FailureKind.TRANSIENT)
        case ConnectionError():
            return _failure(f"{name} lost its connection: {error}", FailureKind.TRANSIENT, fault="connection")
        case OSError():
            return _failure(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "))
    return _failure(f"{name} failed inside: {type(error).__name__}: {error}", fault="crash")


def _longest(tool: Tool, run: ToolRun) -> float:
    return run.limits.longest_s if tool.is_command else tool.spec.timeout_s


def _sealed(tool: Tool, arguments: Arguments, run: ToolRun, bound: dict[str, Json]) -> dict[str, bytes]:
    """The bytes of the approved scripts, hashed once more as they are taken: what was approved is what runs."""
    operands = bound.get("operands")
    approved = operands if isinstance(operands, dict) else {}
    sealed = {}
    for name in tool.operands(arguments, run).scripts:
        data = run.workspace.read(name)
        if approved.get(name) != sha256_hex(data):
            raise PathRefused(f"{name!r} changed since it was approved; ask again", escape=True)
        sealed[name] = data
    return sealed


def _quiet(on_output: OnOutput) -> OnOutput:
    """A listener that fails must not stop the tool it listens to."""

    def call(stream: str, chunk: bytes) -> None:
        with suppress(Exception):  # live views are transient; the whole output is kept anyway
            on_output(stream, chunk)

    return call


def _failure(error: str, kind: FailureKind = FailureKind.SYSTEMATIC, fault: str = "") -> ToolResult:
    text = shortened(clean_text(error), 2_000)
    return ToolResult(ok=False, content=f"error: {text}", error=text, kind=kind, fault=fault)


def _fit(result: ToolResult, run: ToolRun) -> ToolResult:
    """Clean text of at most the limit in ``content``; the whole is an artifact where something was cut."""
    shown = show(clean_text(result.content).encode(), run.limits.shown_bytes, run.save_blob)
    if not shown.truncated:
        return replace(result, content=shown.text, error=clean_text(result.error))
    output = result.output or ArtifactRef("output.txt", "text/plain", shown.whole_sha256, shown.whole_size)
    return replace(result, content=shown.text, error=clean_text(result.error), truncated=True, output=output)


def _staying(work: Callable[[], ToolResult]) -> ToolResult:
    """A task that ends with SystemExit takes its event loop along, whoever awaits it."""
    try:
        return work()
    except SystemExit as error:
        raise RuntimeError(f"SystemExit: {error}") from error


async def in_thread(work: Callable[[], ToolResult], run: ToolRun) -> ToolResult:
    """Blocking file work off the loop. On cancellation it is told to stop and waited for (a second at most)."""
    task = asyncio.ensure_future(asyncio.to_thread(_staying, work))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        run.cancelled.set()
        await asyncio.wait([task], timeout=1.0)
        raise

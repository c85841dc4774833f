"""Tools of a fake bank and a fake messenger: everything they do is a line in the ledger."""

from __future__ import annotations

import asyncio
from typing import Any

from loops.engine.values import Compensation, Reversibility, ToolResult, ToolSpec
from loops.tools.arguments import schema, string, text
from loops.tools.registry import Arguments, Tool, ToolRegistry, ToolRun
from tests.faults import ledger, payloads

LONG = "receipt " * 3000
"""Long enough to be stored as a blob, in a transaction of several statements."""


OPERATION = "bank"

refuses = ""
"""The label of an effect that cannot be taken back."""


def last_moment() -> None:
    """Between the look at the clock and the effect: a test may freeze its process here."""


def _tool(name: str, *, drops_repeated_keys: bool = False, behind: Any = None, **spec: Any) -> Tool:
    async def run(arguments: Arguments, run: ToolRun) -> ToolResult:
        label, pause = text(arguments, "label"), float(text(arguments, "pause", "0"))
        if name == "refund" and label == refuses:
            return ToolResult(ok=False, content="the bank refuses", error="the bank refuses")
        with run.workspace.fence.armed():
            last_moment()
            ledger.append(
                run.context.run_id,
                tool=name,
                label=label,
                key=run.context.idempotency_key,
                drops_repeated_keys=drops_repeated_keys,
            )
        await asyncio.sleep(pause)
        return ToolResult(ok=True, content=f"{label} done. {LONG if text(arguments, 'long') else ''}")

    words: dict[str, Any] = {name: string(name) for name in ("label", "long", "pause")} | {"payload": {}}
    given = {"description": name, "parameters": schema(("label",), **words), "operation": OPERATION}
    given |= {"reversibility": Reversibility.PURE}
    return Tool(ToolSpec(name=name, timeout_s=2.0, **{**given, **spec}), run=run, **(behind or {}))


def _refund(arguments: Arguments, run: ToolRun) -> Compensation:
    return Compensation(tool="refund", arguments={"label": text(arguments, "label")})


async def _bare(arguments: Arguments, run: ToolRun) -> ToolResult:
    """A command as one would start it without a sandbox, ended as one would end it."""
    process = await asyncio.create_subprocess_exec("bash", "-c", text(arguments, "command"))
    try:
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
    return ToolResult(ok=True, content="it ended")


async def _poisoned(arguments: Arguments, run: ToolRun) -> ToolResult:
    """A result with the poison in all its parts."""
    kind = text(arguments, "kind")
    return ToolResult(ok=True, content=payloads.text_of(kind), data={"payload": payloads.PAYLOADS[kind]()})


TOOLS = (
    Tool(
        ToolSpec(
            name="bare_command",
            description="bare",
            parameters=schema(("command",), command=string("c")),
            operation=OPERATION,
            reversibility=Reversibility.PURE,
            timeout_s=60.0,
        ),
        run=_bare,
    ),
    _tool("notify", retriable=True),
    Tool(
        ToolSpec(
            name="poisoned",
            description="poisoned",
            parameters=schema(("kind",), kind=string("k")),
            operation=OPERATION,
            reversibility=Reversibility.PURE,
            retriable=True,
        ),
        run=_poisoned,
    ),
    _tool("notify_once", retriable=True, drops_repeated_keys=True),
    _tool("charge", reversibility=Reversibility.REVERSIBLE, behind={"undo": _refund}),
    _tool("refund", retriable=True, drops_repeated_keys=True, behind={"internal": True}),
    _tool("pay", reversibility=Reversibility.IRREVERSIBLE),
)
AT_MOST_ONCE = frozenset({"charge", "pay", "refund"})
AT_LEAST_ONCE = frozenset({"notify", "notify_once"})


def install(registry: ToolRegistry) -> None:
    """Offer them, in this process."""
    for tool in TOOLS:
        if registry.get(tool.spec.name) is None:
            registry.add(tool)

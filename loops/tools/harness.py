"""A harness for tests of tools: calls go through the tool access service, as in a run, without a database."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from loops.engine.ports import CallContext, Judgement
from loops.engine.values import Access, ToolCall, ToolResult
from loops.tools.decorator import DeclaredTool
from loops.tools.gateway import ToolGateway
from loops.tools.policy import DEFAULT_MATRIX, AccessRule
from loops.tools.registry import ToolRegistry
from loops.tools.sandbox.capability import FULL, SandboxLevel


class ToolHarness:
    """One tool in an empty workspace ``folder``, under the access matrix that a new project begins with."""

    def __init__(self, tool: DeclaredTool, folder: Path) -> None:
        self._name, self._blobs = tool.name, dict[str, bytes]()
        rules = [AccessRule(Access(access), operation=operation) for operation, access, _ in DEFAULT_MATRIX]
        level = SandboxLevel(FULL, "full")
        self._service = ToolGateway(
            ToolRegistry(tool.offered), rules, "test", level, save_blob=self._save, read_blob=self._blobs.__getitem__
        )
        self._context = CallContext("run", 1, "coder", "project", str(folder))
        self._count = 0

    def judge(self, **arguments: Any) -> Judgement:
        """What a run would be told: allowed, asked about or denied, with the reasons."""
        return asyncio.run(self._service.judge(*self._call(arguments)))

    def run(self, **arguments: Any) -> ToolResult:
        """Judge and run a new call, as after its approval; ``undo`` undoes it."""
        return asyncio.run(self._run(*self._call(arguments)))

    def run_again(self) -> ToolResult:
        """The very same call once more, as after a worker that was lost in the middle of it."""
        return asyncio.run(self._service.execute(*self._last, lambda stream, chunk: None))

    def undo(self) -> ToolResult:
        """Undo the latest call, as a rollback does. Raises AssertionError where the tool has no way to."""
        if self._plan is None or not self._plan.tool:
            raise AssertionError(f"{self._name} cannot be undone: {self._plan.why_not if self._plan else 'it is pure'}")
        call = ToolCall(f"u{self._count}", self._plan.tool, self._plan.arguments)
        context = replace(self._last[1], undoes=self._last[0].id, idempotency_key=f"{call.id}-key")
        return asyncio.run(self._service.execute(call, context, lambda stream, chunk: None))

    async def _run(self, call: ToolCall, context: CallContext) -> ToolResult:
        await self._service.judge(call, context)
        self._plan = await self._service.plan_undo(call, context)
        self._last = (call, context)
        return await self._service.execute(call, context, lambda stream, chunk: None)

    def _call(self, arguments: dict[str, Any]) -> tuple[ToolCall, CallContext]:
        self._count += 1
        name = f"c{self._count}"
        return ToolCall(name, self._name, arguments), replace(self._context, idempotency_key=f"{name}-key")

    def _save(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        self._blobs[name] = data
        return name

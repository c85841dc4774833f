"""A tool access service on a workspace of its own, without a server; blobs and audit events stay in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loops.engine.ports import CallContext, Judgement
from loops.engine.values import Access, ToolCall, ToolResult
from loops.tools.builtin import builtin_registry
from loops.tools.gateway import ToolGateway
from loops.tools.limits import Limits
from loops.tools.output import sha256_hex
from loops.tools.policy import DEFAULT_MATRIX, AccessRule
from loops.tools.registry import ToolRegistry
from loops.tools.sandbox.capability import FULL, SandboxLevel
from loops.tools.workspace_roots import Folders

MATRIX = tuple(AccessRule(Access(access), operation=operation) for operation, access, _ in DEFAULT_MATRIX)
"""What a project begins with."""
FULL_LEVEL = SandboxLevel(FULL, "bubblewrap")


def reachable(folder: Path) -> Path:
    """Let the sandbox's user pass through our folders above it, as through those of an installation."""
    for place in (folder, *folder.parents):
        mode = place.stat().st_mode
        if place.stat().st_uid == os.getuid() and not mode & 0o1000 and place != place.parent:
            place.chmod(mode & 0o7777 | 0o111)
    return folder


class Desk:
    """``rules`` come on top of ``matrix``. ``made``: the folder is one that AgentOps made, else one of people."""

    def __init__(
        self,
        folder: Path,
        rules: Sequence[AccessRule] = (),
        *,
        level: SandboxLevel = FULL_LEVEL,
        limits: Limits | None = None,
        registry: ToolRegistry | None = None,
        environment: dict[str, str] | None = None,
        matrix: Sequence[AccessRule] = MATRIX,
        made: bool = True,
        records: str = "",
    ) -> None:
        self.workspace = folder / "ws-1"
        self.workspace.mkdir(exist_ok=True)
        self.blobs: dict[str, bytes] = {}
        self.events: list[Any] = []
        self.streamed: list[tuple[str, bytes]] = []
        self.service = ToolGateway(
            registry or builtin_registry(),
            (*matrix, *rules),
            "policy-1",
            level,
            save_blob=self.save,
            limits=limits,
            on_audit=self.events.append,
            read_blob=self.blobs.__getitem__,
            folders=Folders(str(folder) if made else "", records=records),
        )
        self.context = CallContext("run-1", 3, "coder", "project-1", str(self.workspace), "", environment or {})

    def save(self, data: bytes) -> str:
        digest = sha256_hex(data)
        self.blobs[digest] = data
        return digest

    def call(self, name: str, /, **arguments: Any) -> ToolCall:
        return ToolCall("call-1", name, arguments)

    def judge(self, name: str, /, **arguments: Any) -> Judgement:
        return asyncio.run(self.service.judge(self.call(name, **arguments), self.context))

    async def execute(self, name: str, /, **arguments: Any) -> ToolResult:
        return await self.service.execute(self.call(name, **arguments), self.context, self.heard)

    def run(self, name: str, /, **arguments: Any) -> ToolResult:
        return asyncio.run(self.execute(name, **arguments))

    def shell(self, command: str, **more: Any) -> ToolResult:
        return self.run("run_command", command=command, **more)

    def heard(self, stream: str, chunk: bytes) -> None:
        self.streamed.append((stream, chunk))

"""The exact action that an approval binds to, as the tool access service knows it (reliability#approvals, SPEC Q5).

The gate adds the last two of the fourteen fields itself: the hash of the view that it rendered, and expiry + nonce.
"""

from __future__ import annotations

from collections.abc import Iterable

from loops.engine.ports import CallContext
from loops.engine.values import Json, ToolCall
from loops.tools.canonical import digest
from loops.tools.registry import Operands, Registered
from loops.tools.sandbox.command import environment
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.workspace import Workspace

VERSION = 1
VARIABLES = "the variables of the workspace"


def build_subject(  # noqa: PLR0913  # each is one part of the binding
    call: ToolCall,
    context: CallContext,
    found: Registered,
    operands: Operands,
    workspace: Workspace,
    *,
    policy_version: str,
    sandbox_level: int,
) -> dict[str, Json]:
    """Canonical JSON data; any change of what would happen changes it."""
    spec = found.tool.spec
    names = dict.fromkeys((*operands.reads, *operands.writes, *operands.files, *operands.scripts))
    arguments: Json = dict(call.arguments)
    if operands.argv:
        arguments = dict(call.arguments) | {"argv": list(operands.argv)}
    return {
        "version": VERSION,
        "run": context.run_id,
        "step": context.step,
        "call_id": call.id,
        "tool": spec.name,
        "schema_sha256": found.schema_sha256,
        "arguments": arguments,
        "cwd": {"path": workspace.beneath.root, "inode": workspace.beneath.inode, "directory": operands.directory},
        "environment_sha256": environment_sha256(context),
        "operands": {name: _hash(workspace, name) for name in names},
        "destination": {"hosts": list(operands.hosts), "method": operands.method},
        "server": {"identity": spec.server, "tool_sha256": found.schema_sha256 if spec.server else ""},
        "policy_version": policy_version,
        "sandbox_level": sandbox_level,
    }


def environment_sha256(context: CallContext) -> str:
    """Of all that a command of this call finds in its environment."""
    return digest(environment(context.environment))


def touched(operands: Operands) -> list[str]:
    """Workspace paths that a call reads or writes by name."""
    return [relative(path) for path in (*operands.reads, *operands.writes)]


def changed_scripts(subject: dict[str, Json], scripts: Iterable[str], workspace: Workspace) -> list[str]:
    """Scripts whose bytes are no longer those of ``subject``."""
    approved = subject.get("operands")
    known = approved if isinstance(approved, dict) else {}
    return [name for name in scripts if known.get(name) != _hash(workspace, name)]


def _hash(workspace: Workspace, name: str) -> str:
    """SHA-256, "" for nothing there, or why it cannot be read: each is a different action."""
    try:
        return workspace.hash(name)
    except PathRefused as error:
        return f"refused: {error}"
    except OSError as error:
        return f"unreadable: {error.strerror}"

"""The tools there are, by exact name, and what each can do besides running (SPEC I2).

Add a tool: write one file in ``builtin/`` with functions and a ``TOOLS`` tuple, name it in ``builtin/__init__.py``.
Another package offers tools through the entry point group ``agentops.tools``: a module with functions decorated with
``tool``, one of them, or a function ``register(registry)``; see ``agentops/docs/guides/tool.md``.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import Formatter
from types import ModuleType
from typing import Any

from loops.engine import packages
from loops.engine.packages import Broken, UnfitError
from loops.engine.ports import CallContext, OnOutput, Verified
from loops.engine.values import Access, Compensation, Danger, Json, Reversibility, ToolResult, ToolSpec
from loops.tools.canonical import digest
from loops.tools.limits import Limits
from loops.tools.output import SaveBlob
from loops.tools.sandbox.capability import SandboxLevel
from loops.tools.schema import Validator
from loops.tools.workspace import Workspace

ENTRY_POINTS = "agentops.tools"
Arguments = Mapping[str, Json]


ReadBlob = Callable[[str], bytes]
StoredBlobs = Callable[[Sequence[str]], Collection[str]]


class RegistrationError(UnfitError):
    """A tool that cannot be offered: a bad name, a name taken, a schema that cannot be compiled."""


class ArgumentError(Exception):
    """Arguments that fit the schema but not each other; the message tells the model what to send instead."""


@dataclass(frozen=True, slots=True)
class Operands:
    """What a call touches, for the matrix and the approval. Paths are workspace paths; hosts are bare names.

    ``argv`` is the exact command line; ``files`` are workspace files named in it; ``scripts`` those that are run;
    ``unbound`` how many more it names than an approval binds to.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    argv: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    scripts: tuple[str, ...] = ()
    unbound: int = 0
    directory: str = "."
    hosts: tuple[str, ...] = ()
    method: str = ""


def nothing_stored(sha256: str) -> bytes:
    raise KeyError(sha256)


@dataclass(frozen=True, slots=True)
class ToolRun:
    """What a tool gets besides its arguments. ``sealed`` holds approved bytes of scripts (path -> bytes).

    ``cancelled`` is set when the caller gives up: a tool that loops in a thread looks at it. ``read_blob`` raises
    KeyError for bytes that were never kept; it and ``stored_blobs`` (which of these hashes are kept?) belong to the
    caller's own thread.
    """

    context: CallContext
    workspace: Workspace
    limits: Limits
    sandbox: SandboxLevel
    save_blob: SaveBlob
    on_output: OnOutput = lambda stream, chunk: None
    sealed: Mapping[str, bytes] = field(default_factory=dict)
    cancelled: threading.Event = field(default_factory=threading.Event)
    read_blob: ReadBlob = nothing_stored
    stored_blobs: StoredBlobs = lambda names: ()
    changed: Callable[[], list[str]] = list
    """What a command would obey and is not as it was approved: asked once more when nobody else can change it."""


Run = Callable[[Arguments, ToolRun], Awaitable[ToolResult]]
Describe = Callable[[Arguments, ToolRun], Operands]
Preview = Callable[[Arguments, ToolRun], Mapping[str, Json]]
Verify = Callable[[Arguments, ToolRun], Verified]
Lasting = Callable[[Arguments, ToolRun], str]
PlanUndo = Callable[[Arguments, ToolRun], Compensation]
LearnUndo = Callable[[Arguments, ToolRun, Compensation], Compensation]


async def _handled_by_the_engine(arguments: Arguments, run: ToolRun) -> ToolResult:
    raise ArgumentError("this tool ends the step; the loop handles it and nothing is executed")


@dataclass(frozen=True, slots=True)
class Tool:
    """``operands``, ``preview`` and ``verify`` must not change anything; preview is what a reviewer sees.

    A tool that changes something says how that is undone (SPEC I2, O1): ``undo`` right before the call, ``learn`` right
    after it where only the world can tell. ``lasting`` says why this very call could not be undone, "" when it could;
    without ``undo`` none can. An ``internal`` tool is no agent's: only an undoing calls it.
    """

    spec: ToolSpec
    run: Run = _handled_by_the_engine
    operands: Describe = lambda arguments, run: Operands()
    preview: Preview = lambda arguments, run: {}
    verify: Verify = lambda arguments, run: Verified.UNKNOWN
    is_command: bool = False
    undo: PlanUndo | None = None
    learn: LearnUndo | None = None
    lasting: Lasting = lambda arguments, run: ""
    internal: bool = False


@dataclass(frozen=True, slots=True)
class Registered:
    """A tool with what is computed once: its validator and the hash that approvals and INTENT records bind to."""

    tool: Tool
    validator: Validator
    schema_sha256: str


class ToolRegistry:
    """Exact names only: no aliases, no case folding, no nearest match."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Registered] = {}
        self.broken: list[Broken] = []
        for tool in tools:
            self.add(tool)

    def add(self, tool: Tool) -> Tool:
        """Offer a tool. Raises RegistrationError; a name taken is never replaced."""
        if not isinstance(tool, Tool):
            raise RegistrationError(f"{tool!r} is no Tool")
        if fault := _undeclarable(tool):
            raise RegistrationError(f"{getattr(tool.spec, 'name', '')!r}: {fault}")
        spec = tool.spec
        if not _good_name(spec.name):
            raise RegistrationError(f"{spec.name!r}: a tool name is 1 to 64 of A-Z a-z 0-9 _ -")
        if spec.name in self._tools:
            raise RegistrationError(f"{spec.name!r} is taken")
        try:
            validator = Validator(spec.parameters)
            _check_deed(spec)
            schema: dict[str, Json] = {"name": spec.name, "parameters": spec.parameters, "version": spec.version}
            schema |= {"description": spec.description, "server": spec.server, "operation": spec.operation}
            self._tools[spec.name] = Registered(tool, validator, digest(schema))
        except (TypeError, ValueError) as error:
            raise RegistrationError(f"{spec.name!r}: {error}") from error
        return tool

    def copy(self) -> ToolRegistry:
        """Another one with the same tools."""
        other = ToolRegistry()
        other._tools.update(self._tools)
        return other

    def remove(self, name: str) -> None:
        """Withdraw a tool, such as one whose server changed its description."""
        self._tools.pop(name, None)

    def get(self, name: str) -> Registered | None:
        return self._tools.get(name)

    def names(self) -> list[str]:
        return sorted(self._tools)

    def specs(self) -> list[ToolSpec]:
        """Of the tools for agents, in order of name: a stable order keeps the provider's prompt cache valid."""
        found = (self._tools[name].tool for name in self.names())
        return [tool.spec for tool in found if not tool.internal]

    def load_entry_points(self, group: str = ENTRY_POINTS) -> list[Broken]:
        """Let installed packages add their tools; those that failed, of which nothing is added."""
        self.broken = packages.load(group, "tool", self._take)
        return self.broken

    def _take(self, name: str, load: Callable[[], Any]) -> None:
        before, found = dict(self._tools), load()
        offered = _offered(found)
        if not offered and not callable(found):
            kinds = "a module with tools, a tool or a function register(registry)"
            raise UnfitError(f"it names a {type(found).__name__} without tools; it takes {kinds}")
        try:
            for tool in offered:
                self.add(tool)
            if not offered:
                found(self)
        except BaseException:
            self._tools = before
            raise
        if self._tools.keys() == before.keys():
            raise UnfitError("its function register(registry) added no tool")


def _offered(found: object) -> tuple[Tool, ...]:
    """Those of a function that is decorated with ``tool``, or of all such functions in a module."""
    each = vars(found).values() if isinstance(found, ModuleType) else (found,)
    declared = {id(one): offered for one in each if isinstance(offered := getattr(one, "offered", None), tuple)}
    return tuple(tool for offered in declared.values() for tool in offered if isinstance(tool, Tool))


def _undeclarable(tool: Tool) -> str:
    """Why guards could not read what the tool declares of itself; "" when they can."""
    spec = tool.spec
    if not isinstance(spec, ToolSpec):
        return f"its spec is a {type(spec).__name__}"
    wanted = {
        "description": str,
        "operation": str,
        "server": str,
        "deed": str,
        "reversibility": Reversibility,
        "danger": Danger,
        "default_access": Access,
        "retriable": bool,
        "loop_breaking": bool,
        "timeout_s": (int, float),
    }
    for name, kind in wanted.items():
        if not isinstance(getattr(spec, name), kind):
            return f"its {name} is {getattr(spec, name)!r}"
    return "" if callable(tool.run) and spec.timeout_s > 0 else "it cannot be run, or has no time to"


def _check_deed(spec: ToolSpec) -> None:
    """Raises ValueError for anything in braces but the plain name of a parameter: people are asked in these words."""
    properties = spec.parameters.get("properties")
    known = properties if isinstance(properties, Mapping) else {}
    for _, name, form, conversion in Formatter().parse(spec.deed):
        if name is not None and (name not in known or form or conversion):
            raise ValueError(f"its deed may have names of its parameters in braces, and not {name!r}")


def _good_name(name: object) -> bool:
    return isinstance(name, str) and re.fullmatch(r"[A-Za-z0-9_-]{1,64}", name) is not None

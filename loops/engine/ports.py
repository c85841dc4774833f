"""What the driver needs from the world, as Protocols. Everything else in the engine is values and pure functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import Any, Protocol

from loops.engine.facts import Fact
from loops.engine.state.remark import Remark
from loops.engine.state.run import RunState
from loops.engine.values import (
    Access,
    Compensation,
    FailureKind,
    Json,
    ModelEvent,
    ModelReply,
    ModelRequest,
    ToolCall,
    ToolResult,
    ToolSpec,
    Usage,
)


class ModelError(Exception):
    """A model call that gave no whole answer, in one form for every provider.

    ``retry_after_s`` is the provider's own wish, None when it gave none. ``status`` is the HTTP status, 0 without one.
    ``code`` is the provider's error type as text ("overloaded_error", "rate_limit_error", "connection_reset", ...).
    Of a request that was too long, ``window`` is what the model takes and ``counted`` what the request was, in tokens,
    as far as the provider names them; 0 otherwise.
    """

    window = 0
    counted = 0

    def __init__(
        self, message: str, *, kind: FailureKind, code: str, status: int = 0, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.code = code
        self.status = status
        self.retry_after_s = retry_after_s


class Models(Protocol):
    async def call(self, request: ModelRequest, on_event: Callable[[ModelEvent], None]) -> ModelReply:
        """Stream one answer. Raises ModelError. Cancelling the awaiting task closes the connection at once."""
        ...


@dataclass(frozen=True, slots=True)
class CallContext:
    """Who calls, from where. ``workspace`` is an absolute path; tools open it once and work by descriptor.

    ``lease_ends`` is when the caller's ownership of the run ends, in seconds of a clock nobody sets; nothing may touch
    the world after it (reliability#lease). ``expects`` is what INTENT recorded of the world: hashes by path, "before"
    and "after" the call, where they could be known.
    """

    run_id: str
    step: int
    agent_type: str
    project_id: str
    workspace: str
    idempotency_key: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    undoes: str = ""
    """The effect that this call undoes because a person said so; empty for everything an agent proposes."""
    criteria: tuple[str, ...] = ()
    """The commands of the task's acceptance criteria, which will judge the work."""
    grant: str = ""
    """The gate at which a person granted this one call against the matrix, used up with its INTENT (SPEC I4)."""
    lease_ends: Callable[[], float] = lambda: inf
    expects: Mapping[str, Json] = field(default_factory=dict)
    is_criterion: bool = False
    """It is the command of an acceptance criterion, which gets the time that the project gives to one (SPEC C6)."""
    tests_before: str = ""
    """Of such a command: the hash of the tests that an earlier check saw, "" for none."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the TAS says of a proposed call before anything runs; stored as a fact with its reasons (SPEC I3, Q2).

    ``access`` DENY covers unknown tools and schema errors as well (``invalid`` is then true and ``reasons`` are
    precise enough for the model to correct itself). ``subject`` is the exact action an approval would bind to
    (reliability#approvals): canonical, JSON, complete. ``gate_kind`` is set when ``access`` is ASK.
    """

    call_id: str
    access: Access
    reasons: tuple[str, ...] = ()
    invalid: bool = False
    gate_kind: str = ""
    risk: str = "low"
    policy_version: str = ""
    subject: Mapping[str, Json] = field(default_factory=dict)
    reversibility: str = ""
    """Of this very call, which may be less than its tool promises (SPEC O1)."""
    view: Mapping[str, Json] = field(default_factory=dict)
    """What the reviewer is shown beside the subject: a diff, the file before, a command line."""
    operation: str = ""
    deed: str = ""
    """That of its tool (``ToolSpec.deed``)."""
    alternatives: tuple[str, ...] = ()
    """Of a denied call: what the agent may use instead, in words (SPEC I4)."""
    grantable: bool = False
    """Only the matrix denies it, so a person can grant this one call; ``subject`` and ``view`` are then set."""


OnOutput = Callable[[str, bytes], None]
"""Called with ("stdout" | "stderr", chunk) while a tool runs; transient, for live views."""


class Verified(StrEnum):
    """What the world says of an interrupted call (SPEC J2)."""

    DONE = "done"
    NOT_DONE = "not_done"
    UNKNOWN = "unknown"


class Tools(Protocol):
    """The tool access service as the driver sees it (SPEC I1)."""

    def specs(self) -> Sequence[ToolSpec]:
        """Tools this agent may at least ask for, in a stable order."""
        ...

    async def judge(self, call: ToolCall, context: CallContext) -> Judgement:
        """Validate against schema, matrix and policy. Runs nothing, changes nothing."""
        ...

    async def execute(self, call: ToolCall, context: CallContext, on_output: OnOutput) -> ToolResult:
        """Run one judged call. Never raises for a tool's own failure: that is a ToolResult with ok False.
        Cancelling the awaiting task kills the whole process tree before it returns (SPEC I8)."""
        ...

    async def look(self, call: ToolCall, context: CallContext) -> Mapping[str, Json]:
        """What stands where the call writes: SHA-256 by path, "" for nothing, "directory" for one. Changes nothing."""
        ...

    def obeyed(self, context: CallContext) -> str:
        """SHA-256 over all that a command would obey now; "" where that cannot be told whole (SPEC Q5)."""
        ...

    def stands(self, context: CallContext) -> Mapping[str, Json]:
        """The whole workspace as an approval binds it: ``tree``, the name of the listing of its files, which is kept;
        else ``why_not``, the reason why none can be made (SPEC Q5)."""
        ...

    async def verify(self, call: ToolCall, context: CallContext) -> Verified:
        """Ask the world whether an interrupted call took effect."""
        ...

    async def plan_undo(self, call: ToolCall, context: CallContext) -> Compensation | None:
        """Right before INTENT: how the call will be undone, with the bytes for it handed to the journal; None for a
        call that changes nothing (SPEC O2)."""
        ...

    async def learn_undo(self, call: ToolCall, context: CallContext, planned: Compensation) -> Compensation | None:
        """Right after the call, however it ended: what it really changed; None when the plan says it all."""
        ...

    def changed_otherwise(self, context: CallContext, start: str, recorded: Mapping[str, str]) -> Compensation | None:
        """What is in the workspace neither as in the kept snapshot ``start`` nor, where calls changed it, in the state
        that ``recorded`` has by path; None when all is, or where that cannot be told (SPEC X3)."""
        ...

    async def remarks(
        self, context: CallContext, changes: Mapping[str, tuple[str, str]], goal: str
    ) -> tuple[Remark, ...]:
        """What a reviewer should know of ``changes``: path to the states before and after (SPEC Q3, L2)."""
        ...


@dataclass(frozen=True, slots=True)
class Checkout:
    """A copy of the workspace at ``path`` in which what judges is as it was when the run began: of what the run
    ``changed`` of that, tests and settings of runners among it, nothing is left. ``why_not`` says why there is none."""

    path: str = ""
    changed: tuple[str, ...] = ()
    why_not: str = ""
    broken: tuple[str, ...] = ()
    """Names of functions that raise there, each with its file; as many as people are told."""
    broken_count: int = 0


class Checkouts(Protocol):
    """Clean checkouts for the commands of criteria, one at a time (SPEC L2, ADR 0079)."""

    async def make(self, context: CallContext, start: str, leftovers: Set[str]) -> Checkout:
        """Of the workspace of the call, with its kept snapshot ``start`` for what judges, and without ``leftovers``,
        paths that are no part of the result."""
        ...

    async def make_broken(self, *, own_tests: bool = False) -> Checkout:
        """Another one like the last, with the functions that the run changed made to raise; none where it changed no
        function that can be broken. With ``own_tests`` what judges is as the run left it."""
        ...

    async def make_without_work(self, *, own_tests: bool = False) -> Checkout:
        """Another one like the last, with all that the run changed as it was when the run began; with ``own_tests`` all
        but what judges."""
        ...

    async def mutants(self, most: int) -> Sequence[str]:
        """Small faults that can be put into lines that the run changed, in words."""
        ...

    async def make_mutated(self, number: int) -> Checkout:
        """The workspace as the run left it, what judges included, with one of the ``mutants`` that were named last."""
        ...

    async def leave(self) -> None:
        """Take the checkout away, if there is one."""
        ...


@dataclass(frozen=True, slots=True)
class GateRequest:
    """A question to a person that the run cannot pass by itself (SPEC Q1, Q3).

    ``subject`` is exactly what an approval binds to, ``view`` what the reviewer sees: for tool gates
    {"tool", "arguments", "diff"?, "command"?, "operation", "reversibility", "parameters_schema"}, for questions
    {"question", "choices"}, for reviews {"result", "criteria": [{"text", "command", "status", "detail"}], "diff"?},
    for limits {"limit", "used", "bound", "suggested"}; always {"reasoning"} of the step.
    """

    id: str
    run_id: str
    project_id: str
    kind: str
    title: str
    step: int = 0
    call_id: str = ""
    tool: str = ""
    reasons: tuple[str, ...] = ()
    risk: str = "low"
    confidence: float | None = None
    recommended: str = ""
    policy_version: str = ""
    subject: Mapping[str, Json] = field(default_factory=dict)
    view: Mapping[str, Json] = field(default_factory=dict)


class ApprovalVoid(Exception):
    """The approval does not cover what is about to run: changed, expired, consumed or never given (SPEC Q5)."""


Within = Callable[[Any], None]
"""A write that joins the journal's transaction; gets the open database cursor."""


class Gatekeeper(Protocol):
    """Opens and consumes gates. Implemented by the gates app; every write joins the journal's own transaction."""

    def open(self, request: GateRequest) -> Within:
        """Insert the gate."""
        ...

    def consume(self, gate_id: str, subject: Mapping[str, Json]) -> Within:
        """Use up an approval for exactly ``subject`` with one conditional UPDATE; raises ApprovalVoid."""
        ...

    def withdraw(self, run_id: str, reason: str) -> Within:
        """Void whatever of this run is still open, because the run ended or was stopped."""
        ...


class LeaseLost(Exception):
    """Another worker owns the run now, or the journal moved on: whatever this one still wants to write is void."""


@dataclass(frozen=True, slots=True)
class Signal:
    """One mailbox item: stop, pause, resume, message {"text"}, decision {...}; ``by`` is a person's name."""

    id: str
    kind: str
    payload: Mapping[str, Any] = field(default_factory=dict)
    by: str = ""


class Journal(Protocol):
    """The durable record of one run, bound to one ownership of it (SPEC J). Every method is one short transaction."""

    def append(self, entries: Sequence[tuple[Fact, RunState]], within: Sequence[Within] = ()) -> None:
        """Write facts, each with the state after it, and everything derived from them. Raises LeaseLost."""
        ...

    def renew(self) -> None:
        """Keep owning the run. Raises LeaseLost."""
        ...

    def lease_ends(self) -> float:
        """When the ownership ends unless it is renewed, in seconds of ``loops.uptime``."""
        ...

    def hang(self, what: str) -> None:
        """Leave word that this owner hangs, for the people who watch and for the next owner."""
        ...

    def told_to_end(self) -> None:
        """Leave word that this owner's worker is to end: whoever finds it gone knows that it did not die of the run."""
        ...

    def history(self, kinds: Sequence[str]) -> Sequence[Fact]:
        """The committed facts of these kinds, in order: for what no state holds."""
        ...

    def mail_kinds(self) -> frozenset[str]:
        """Kinds of the unread mailbox items."""
        ...

    def mail(self) -> Sequence[Signal]: ...

    def read(self, mail: Sequence[Signal]) -> Within:
        """Mark as turned into facts."""
        ...

    def release(self, *, wake_at: int = 0, runnable: bool = False) -> None:
        """Give the run back; ``wake_at`` in microseconds since the epoch."""
        ...


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a model says of a run's chances: ``score`` and ``progress`` 0..1, None where it gave no such number, and
    ``problem`` then says why there is no score."""

    score: float | None
    reason: str = ""
    progress: float | None = None
    problem: str = ""
    usage: Usage = field(default_factory=Usage)
    provider: str = ""
    model_id: str = ""
    request_id: str = ""
    duration_ms: int = 0


@dataclass(frozen=True, slots=True)
class Specialist:
    """An agent of the project that may do what another may not; ``name`` is empty when there is none."""

    name: str = ""
    agent_type: str = ""
    looked_at: int = 0


class Orchestration(Protocol):
    """What the driver wants of the orchestrator besides tools and gates (SPEC G2, I4, decision 83)."""

    def confidence_request(self, evidence: Mapping[str, Json], *, goal: str, model: str) -> ModelRequest:
        """What the confidence role is asked: its own prompt, and nothing of the conversation."""
        ...

    async def evaluate_confidence(self, request: ModelRequest) -> Opinion:
        """Ask. Never raises for a model that does not answer, or not as asked for."""
        ...

    def find_specialist(self, call: ToolCall, context: CallContext) -> Specialist:
        """Which agent of the project may do this very call. Runs nothing."""
        ...


class Archive(Protocol):
    def commit(self, state: RunState, report: Mapping[str, Json], at: int) -> Within:
        """Write the immutable provenance record of a committed result (SPEC N1)."""
        ...


class Feed(Protocol):
    """Live, transient news for watchers. Losing one costs a re-read, never an event."""

    def delta(self, *, step: int, call: str, kind: str, offset: int, text: str) -> None: ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    async def sleep(self, seconds: float) -> None: ...

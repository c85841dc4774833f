"""Frozen values that cross every boundary: tools, calls, results, model requests and replies (SPEC I2, C1, C3).

Contract rules (SPEC A3): fields are only added, never renamed or given a new meaning, within a major version;
every added field has a default, so that stored data keeps loading.

Messages use the block form of the Anthropic Messages API as the house format, because it is the richest:
``{"role": "user" | "assistant", "content": [block, ...]}`` with blocks ``text``, ``thinking``, ``redacted_thinking``,
``tool_use`` (id, name, input) and ``tool_result`` (tool_use_id, content, is_error). Adapters translate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

Json = None | bool | int | float | str | Sequence["Json"] | Mapping[str, "Json"]
Message = Mapping[str, Json]
Block = Mapping[str, Json]

TURN_ENDING_TOOLS = ("task_completion", "ask_question", "converse")
"""They end an answer, and are never held up by what other calls did."""


class Reversibility(StrEnum):
    """How far a call can be undone; fixed when the tool is registered (SPEC O1)."""

    PURE = "PURE"
    REVERSIBLE = "REVERSIBLE"
    COMPENSABLE = "COMPENSABLE"
    IRREVERSIBLE = "IRREVERSIBLE"


class Danger(StrEnum):
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Access(StrEnum):
    """A cell of the tool access matrix (SPEC I3)."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"


class Verdict(StrEnum):
    """What is said to a gate."""

    APPROVE = "approve"
    APPROVE_WITH_EDITS = "approve_with_edits"
    REJECT = "reject"
    RESPOND = "respond"
    EXTEND = "extend"
    ROLL_BACK = "roll_back"
    KEEP = "keep"
    CONTINUE = "continue"
    EXPIRE = "expire"
    """Time's own verdict: no person can give it, and it is not a rejection."""


class ModelRole(StrEnum):
    """Which job a model does in a run; each role may map to its own model (SPEC S3)."""

    ACTOR = "actor"
    PLANNER = "planner"
    CRITIC = "critic"
    CONFIDENCE = "confidence"
    SUMMARISER = "summariser"
    CLASSIFIER = "classifier"
    FALLBACK = "fallback"


class StopReason(StrEnum):
    """Why the model stopped. An unknown provider value maps to OTHER and is kept in ``ModelReply.raw_stop``."""

    END_TURN = "end_turn"
    TOOL_USE = "tool_use"
    MAX_TOKENS = "max_tokens"
    STOP_SEQUENCE = "stop_sequence"
    PAUSE_TURN = "pause_turn"
    REFUSAL = "refusal"
    CONTEXT_EXCEEDED = "model_context_window_exceeded"
    CUT = "cut"
    """The stream ended before the provider said why: never trust its last call."""
    OTHER = "other"


class FailureKind(StrEnum):
    """What went wrong, in classes that decide what to do next (SPEC E1)."""

    TRANSIENT = "transient"
    """Worth the same request again: overload, rate limit, dropped connection, 5xx."""
    SYSTEMATIC = "systematic"
    """The same request will fail again: bad arguments, failing command, missing file."""
    UNRECOVERABLE = "unrecoverable"
    """No request of this kind can work: wrong key, unknown model, quota used up."""
    CRITICAL = "critical"
    """Safety: sandbox escape attempted, refusal, policy breach."""


UNDECLARED = "undeclared"
"""The operation of a tool that does not say what it does."""


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A registered tool, as the registry, the matrix, the gates and the model see it (SPEC I2).

    ``parameters`` is a JSON Schema (draft 2020-12) of an object; ``additionalProperties`` is false in every built-in.
    ``timeout_s`` bounds one execution in seconds. ``retriable`` means that running the very same call again after an
    unknown outcome is harmless (reliability#calls); a tool that is not retriable goes to a human instead.

    What a tool does not declare is taken at its worst: it does something that nobody named, cannot be undone, and a
    person is asked before each call. ``default_access`` is what holds where no rule of the matrix names the tool or its
    operation; there, ALLOW counts for tools that end a step only (``loops.tools.policy.without_rule``).
    """

    name: str
    description: str
    parameters: Mapping[str, Json]
    operation: str = UNDECLARED
    reversibility: Reversibility = Reversibility.IRREVERSIBLE
    danger: Danger = Danger.HIGH
    timeout_s: float = 30.0
    retriable: bool = False
    loop_breaking: bool = False
    default_access: Access = Access.ASK
    version: str = "1"
    server: str = ""
    """Identity of the MCP server that offers the tool; empty for built-ins."""
    deed: str = ""
    """What a call does, for a person, with arguments in braces: "Move {path} to {target}" (SPEC X6)."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call proposed by a model. ``error`` is set, and ``arguments`` empty, when the call could not be parsed."""

    id: str
    name: str
    arguments: Mapping[str, Json] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Compensation:
    """How one call is undone: a call of ``tool`` that asserts a former state, or ``why_not`` (SPEC O1, O2, I2).

    It is data, recorded with the INTENT of what it undoes, and safe to perform any number of times.
    """

    tool: str = ""
    arguments: Mapping[str, Json] = field(default_factory=dict)
    why_not: str = ""
    repeatable: bool = False
    """Begun and lost, it may simply be begun again; otherwise the world is asked, then a person."""


@dataclass(frozen=True, slots=True)
class ArtifactRef:
    """Something a call made or the whole of an output that was cut. ``sha256`` names a blob (hex)."""

    name: str
    media_type: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Outcome of one execution (SPEC C5). ``content`` is what the model reads: cut to the limit, clean text.

    ``error`` is empty on success. ``output`` names the blob with the whole output when ``content`` was cut.
    ``data`` holds structured extras for people and checks (exit code, diff, test report, files changed).
    """

    ok: bool
    content: str
    error: str = ""
    kind: FailureKind | None = None
    exit_code: int | None = None
    duration_ms: int = 0
    truncated: bool = False
    output: ArtifactRef | None = None
    artifacts: tuple[ArtifactRef, ...] = ()
    data: Mapping[str, Json] = field(default_factory=dict)
    fault: str = ""
    """What failed when it was the tool itself ("timeout", "crash", "sandbox", "connection"), not its task (SPEC E5)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one model call; ``cost_microusd`` in millionths of a US dollar, None when no price is known."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thinking_tokens: int = 0
    cost_microusd: int | None = 0

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model: everything that decides the answer, so that its hash identifies it (SPEC U1, N1).

    ``model`` is the name of a configured model, not a provider's id. ``thinking`` is "off", "adaptive" or a token
    budget as digits. ``xml_tools`` asks for tool calls as XML in the text, for models without native tool use.
    """

    role: ModelRole
    model: str
    system: str
    messages: Sequence[Message]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 8192
    thinking: str = "off"
    xml_tools: bool = False


@dataclass(frozen=True, slots=True)
class ModelReply:
    """A whole answer. ``blocks`` are the provider's own blocks in house form, unchanged, so that the conversation can
    go on exactly (thinking signatures included, SPEC C2). ``calls`` are parsed but not validated against schemas."""

    blocks: tuple[Block, ...]
    text: str
    thinking: str
    calls: tuple[ToolCall, ...]
    stop: StopReason
    usage: Usage
    provider: str
    model_id: str
    request_id: str = ""
    raw_stop: str = ""
    stop_detail: str = ""
    first_token_ms: int = 0
    first_call_ms: int = 0
    duration_ms: int = 0


# --- what a model streams while it answers: transient, never stored (architecture#live) ----------------------------


@dataclass(frozen=True, slots=True)
class TextDelta:
    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    text: str


@dataclass(frozen=True, slots=True)
class CallDetected:
    """A tool's name is known before the answer has ended (SPEC C3)."""

    index: int
    name: str


@dataclass(frozen=True, slots=True)
class ArgumentsDelta:
    index: int
    text: str


ModelEvent = TextDelta | ThinkingDelta | CallDetected | ArgumentsDelta

"""What is known of one failure, and what the classifier says of it (SPEC E1): plain values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loops.engine.values import FailureKind, ToolResult

REPETITION = "identical_errors"
"""Code of a call that is sent back because it was made before, and what came of it is known."""


class Source(StrEnum):
    """Who reported the failure."""

    TOOL = "tool"
    """A tool that ran: a command, a file tool, an MCP server."""
    MODEL = "model"
    """A call to a model, or what the model answered."""
    POLICY = "policy"
    """The access matrix, a gate, a person who rejected."""
    SCHEMA = "schema"
    """A call that could not be read or does not fit its tool's parameters."""
    SANDBOX = "sandbox"
    """The fence around tools: limits, paths, the sandbox itself."""
    LOOP = "loop"
    """The loop around the agent: limits, detectors, the journal."""


class Recovery(StrEnum):
    """What happens after a failure (SPEC E1)."""

    CONTINUE = "CONTINUE"
    """Go on with the conversation as it is; the model sees the error, or the same request is sent again."""
    BACKTRACK = "BACKTRACK"
    """Leave this approach: clean the context and try another one (SPEC E3)."""
    FAIL_GRACEFULLY = "FAIL_GRACEFULLY"
    """End the run and say what was done, what was not, and why (SPEC E7)."""
    ESCALATE = "ESCALATE"
    """Stop before anything else happens and ask a person."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failure as it was seen. Everything in ``text`` and ``code`` may be hostile.

    ``text`` is what the model would read: for a command its exit line and output. ``exit_code`` follows the shell
    (128 + signal when a signal ended it, -1 when we stopped it); ``signal`` is the number where it is known apart from
    that. ``status`` is an HTTP status, 0 without one. ``code`` is the provider's code or the exception's name.
    ``timed_out`` means that a time limit of ours ended it. ``known`` is what the reporter itself is sure of: a tool
    that saw an attempt to escape, an adapter that read the provider's wish about retrying.
    """

    source: Source
    text: str = ""
    tool: str = ""
    exit_code: int | None = None
    signal: int | None = None
    status: int = 0
    code: str = ""
    timed_out: bool = False
    known: FailureKind | None = None


@dataclass(frozen=True, slots=True)
class Classified:
    """``rule`` is the stable name of the rule that decided, ``reason`` one sentence for people.

    ``certain`` is false when no rule matched decisively: then a model may be asked (``question``).
    ``person_can_help`` marks what the agent cannot put right and a person can: credentials, quota, permission.

    The rest is filled where a model may break the tie: ``rule_kind`` is what the rule said, ``model_kind`` what
    ``model`` said, and ``problem`` why there is no word of it. ``kind`` is what holds.
    """

    kind: FailureKind
    rule: str
    reason: str
    certain: bool = True
    person_can_help: bool = False
    rule_kind: FailureKind | None = None
    model: str = ""
    model_kind: FailureKind | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """What ``model`` said of the failures with this fingerprint; without ``kind`` nothing, and ``problem`` is why."""

    fingerprint: str = ""
    model: str = ""
    kind: FailureKind | None = None
    problem: str = ""


def of_result(tool: str, result: ToolResult) -> Failure:
    """The failure of a tool that ran and said no."""
    return Failure(
        source=Source.TOOL,
        text=result.content if result.error in result.content else f"{result.error}\n{result.content}",
        tool=tool,
        exit_code=result.exit_code,
        timed_out="(time limit)" in str(result.data.get("killed") or ""),
        known=result.kind,
    )

"""The lifecycle every run follows: ten phases, their events, and one transition table (SPEC A1, CH15 15.1.2).

An undefined (phase, event) pair is an error, never ignored. COMMIT, FAIL and HALT are terminal. A halted run that is
resumed does not leave HALT by an event: it is *re-entered* at the phase its HaltRecord names (CH15 15.11.2), which is
why there is no arrow out of HALT. A person may re-enter a failed run in the same way, at the checkpoint its
FailureReport names (SPEC A5), if it failed for one of ``RETRIABLE``: nothing the agent did (ADR 0009).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType


class Phase(StrEnum):
    PLAN = "PLAN"
    DECOMPOSE = "DECOMPOSE"
    RETRIEVE = "RETRIEVE"
    ACT = "ACT"
    VERIFY = "VERIFY"
    CRITIQUE = "CRITIQUE"
    REPAIR = "REPAIR"
    COMMIT = "COMMIT"
    FAIL = "FAIL"
    HALT = "HALT"


class Event(StrEnum):
    PLAN_READY = "plan_ready"
    DECOMPOSED = "decomposed"
    EVIDENCE_READY = "evidence_ready"
    OUTPUTS_READY = "outputs_ready"
    REPLAN = "replan"
    QUALITY_GATE_PASS = "quality_gate_pass"  # noqa: S105 - an event, no password
    QUALITY_GATE_FAIL = "quality_gate_fail"
    DIAGNOSIS_COMPLETE = "diagnosis_complete"
    REPAIR_SUCCESS = "repair_success"
    BUDGET_EXCEEDED = "budget_exceeded"
    TIMEOUT = "timeout"
    ERROR = "error"
    HALTED = "halted"


TERMINAL = frozenset({Phase.COMMIT, Phase.FAIL, Phase.HALT})
RETRIABLE = frozenset({"internal_error", "loop_failed", "model_unavailable", "checks_not_run"})
"""Reason codes of failures that AgentOps, its machine or a provider caused (SPEC E6): a person may have the run go on
from there."""
HOPELESS = frozenset({"global_cap", "depth_cap", "workspace_unusable", "could_not_begin", "journal_unreadable"})
"""Reason codes of ends that would only come again: nothing that is left can be extended."""

_FORWARD = {
    (Phase.PLAN, Event.PLAN_READY): Phase.DECOMPOSE,
    (Phase.DECOMPOSE, Event.DECOMPOSED): Phase.RETRIEVE,
    (Phase.RETRIEVE, Event.EVIDENCE_READY): Phase.ACT,
    (Phase.ACT, Event.OUTPUTS_READY): Phase.VERIFY,
    (Phase.ACT, Event.REPLAN): Phase.PLAN,
    (Phase.VERIFY, Event.QUALITY_GATE_PASS): Phase.COMMIT,
    (Phase.VERIFY, Event.QUALITY_GATE_FAIL): Phase.CRITIQUE,
    (Phase.CRITIQUE, Event.DIAGNOSIS_COMPLETE): Phase.REPAIR,
    (Phase.REPAIR, Event.REPAIR_SUCCESS): Phase.VERIFY,
}
_ENDS = {
    Event.BUDGET_EXCEEDED: Phase.FAIL,
    Event.TIMEOUT: Phase.FAIL,
    Event.ERROR: Phase.FAIL,
    Event.HALTED: Phase.HALT,
}

TABLE: Mapping[tuple[Phase, Event], Phase] = MappingProxyType(
    _FORWARD | {(phase, event): end for phase in Phase if phase not in TERMINAL for event, end in _ENDS.items()}
)

LABELS: Mapping[Phase, str] = MappingProxyType(
    {
        Phase.PLAN: "Plan",
        Phase.DECOMPOSE: "Break down",
        Phase.RETRIEVE: "Gather evidence",
        Phase.ACT: "Act",
        Phase.VERIFY: "Verify",
        Phase.CRITIQUE: "Find the cause",
        Phase.REPAIR: "Repair",
        Phase.COMMIT: "Committed",
        Phase.FAIL: "Failed",
        Phase.HALT: "Halted",
    }
)


class UndefinedTransition(Exception):
    """The table has no entry for this phase and event."""


def transition(phase: Phase, event: Event) -> Phase:
    """delta(phase, event). Raises UndefinedTransition."""
    try:
        return TABLE[phase, event]
    except KeyError:
        raise UndefinedTransition(f"no transition from {phase} on {event}") from None

"""Every condition that ends a run, in one table (SPEC D1, E4): its reason code, the guard that notices it, the fact
that records it, and the event that ends the run by it. ``docs/termination.md`` is this table in words.

Most limits ask a person first: the guard leaves its fact, a gate follows, and the event only when nobody extends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from loops.engine import limits
from loops.engine.exits import REASONS
from loops.engine.lifecycle import Event
from loops.engine.long_task import not_confirmed
from loops.engine.recovery.acting import escalated, too_many_backtracks, unrecoverable
from loops.engine.recovery.repair import repair_budget
from loops.engine.recovery.silence import no_tool_call
from loops.engine.state import RunState
from loops.engine.verification import needs_review, not_run, outcome, passed

Guard = Callable[[RunState], bool]


@dataclass(frozen=True, slots=True)
class Condition:
    """``fact`` is the kind of fact that the guard leaves; ``gate`` the kind of question to a person before the end."""

    reason: str
    event: Event
    fact: str
    guard: Guard
    gate: str = ""

    @property
    def words(self) -> str:
        return REASONS[self.reason]


def limit(name: str) -> Guard:
    """Is this the bound that is reached?"""

    def guard(state: RunState) -> bool:
        return any(hit.limit == name for hit in limits.all_reached(state))

    guard.__name__ = guard.__qualname__ = f"limit[{name}]"
    return guard


def criteria_met(state: RunState) -> bool:
    return _ends_well(state, "criteria_met")


def accepted(state: RunState) -> bool:
    return _ends_well(state, "accepted")


def no_criteria(state: RunState) -> bool:
    return _ends_well(state, "no_criteria") and not needs_review(state)


def unproven(state: RunState) -> bool:
    return _ends_well(state, "unproven") and not needs_review(state)


def checks_not_run(state: RunState) -> bool:
    return bool(not_run(state))


def _ends_well(state: RunState, reason: str) -> bool:
    verified = state.result is not None and state.checks is not None and passed(state.checks)
    return verified and outcome(state) == reason


def loop_detected(state: RunState) -> bool:
    return bool(state.loop_found)


def operator_stop(state: RunState) -> bool:
    return state.stop_requested and state.stop_reason == "operator_stop"


def user_stop(state: RunState) -> bool:
    return state.stop_requested and state.stop_reason == "user_stop"


def global_cap(state: RunState) -> bool:
    return state.model_calls >= limits.HARD_CAP_MODEL_CALLS


def depth_cap(state: RunState) -> bool:
    return state.spec.depth > state.limits.max_depth


CONDITIONS: tuple[Condition, ...] = (
    Condition("criteria_met", Event.QUALITY_GATE_PASS, "ChecksCompleted", criteria_met),
    Condition("accepted", Event.QUALITY_GATE_PASS, "GateDecided", accepted, gate="final_review"),
    Condition("no_criteria", Event.QUALITY_GATE_PASS, "ChecksCompleted", no_criteria),
    Condition("unproven", Event.QUALITY_GATE_PASS, "ChecksCompleted", unproven),
    Condition("checks_not_run", Event.ERROR, "ChecksCompleted", checks_not_run, gate="escalation"),
    Condition("max_steps", Event.BUDGET_EXCEEDED, "LimitReached", limit("max_steps"), gate="limit_reached"),
    Condition("loop_detected", Event.ERROR, "LoopDetected", loop_detected, gate="loop_detected"),
    Condition("escalated", Event.ERROR, "FailureClassified", escalated, gate="escalation"),
    Condition("max_seconds", Event.TIMEOUT, "LimitReached", limit("max_seconds"), gate="limit_reached"),
    Condition("max_cost_usd", Event.BUDGET_EXCEEDED, "LimitReached", limit("max_cost_usd"), gate="limit_reached"),
    Condition("max_tokens", Event.BUDGET_EXCEEDED, "LimitReached", limit("max_tokens"), gate="limit_reached"),
    Condition("no_tool_call", Event.ERROR, "ModelStopped", no_tool_call),
    Condition("max_failures", Event.ERROR, "LimitReached", limit("max_failures"), gate="limit_reached"),
    Condition("operator_stop", Event.HALTED, "StopRequested", operator_stop),
    Condition("user_stop", Event.HALTED, "StopWished", user_stop),
    Condition("global_cap", Event.BUDGET_EXCEEDED, "RunEnded", global_cap),
    Condition("depth_cap", Event.BUDGET_EXCEEDED, "RunEnded", depth_cap),
    Condition("unrecoverable", Event.ERROR, "FailureClassified", unrecoverable),
    Condition("too_many_backtracks", Event.ERROR, "Backtracked", too_many_backtracks, gate="limit_reached"),
    Condition("not_confirmed", Event.HALTED, "GateDecided", not_confirmed, gate="long_task"),
    Condition("repair_budget", Event.BUDGET_EXCEEDED, "ChecksCompleted", repair_budget, gate="limit_reached"),
)
CAPS = tuple(condition for condition in CONDITIONS if condition.reason in ("global_cap", "depth_cap"))
"""Nobody can extend these."""
END_EVENTS = {condition.reason: condition.event for condition in CONDITIONS}
"""Which event of the lifecycle a reason code is; a code that is not listed is an ERROR."""


def as_markdown() -> str:
    """The table for people who read the documentation."""
    rows = [
        f"| `{one.reason}` | {one.words} | {_asks(one)} | `{one.fact}` | `{one.guard.__name__}` | `{one.event.value}` |"
        for one in CONDITIONS
    ]
    head = "| reason code | what happened | asks a person first | fact | guard | event |"
    return "\n".join((head, "| --- | --- | --- | --- | --- | --- |", *rows)) + "\n"


def _asks(condition: Condition) -> str:
    return f"`{condition.gate}`" if condition.gate else "no"

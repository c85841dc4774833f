"""The class of each failure of a step, and what it decides (SPEC E1)."""

from __future__ import annotations

from loops.engine.facts import FailureClassified
from loops.engine.failures import second_opinion
from loops.engine.failures.actions import decide_recovery
from loops.engine.state.failure import (
    Failure,
    Recovery,
    Source,
)
from loops.engine.state.run import PendingCall, RunState
from loops.engine.values import FailureKind


def classified(state: RunState) -> tuple[FailureClassified, ...]:
    """A class and a decision for every call of the step that failed (SPEC E1)."""
    return tuple(_classified(state, call, call.failure) for call in state.calls if call.failure is not None)


def _classified(state: RunState, pending: PendingCall, failure: Failure) -> FailureClassified:
    found = second_opinion.classified(state, failure)
    memory, limits = state.recovering, state.limits
    attempt = memory.failed_steps + 1
    decision = decide_recovery(
        found.kind,
        attempts=attempt,
        attempts_at_most=limits.max_attempts,
        person_can_help=found.person_can_help,
        corrections_at_most=limits.max_attempts - 1,
    )
    if is_slip(state, failure, found.kind):
        decision = Recovery.CONTINUE
    return FailureClassified(
        step=state.step,
        call_id=pending.call.id,
        tool=pending.call.name,
        kind=found.kind,
        decision=decision,
        rule=found.rule,
        reason=found.reason,
        certain=found.certain,
        attempt=attempt,
        person_can_help=found.person_can_help,
        rule_kind=found.rule_kind,
        model=found.model,
        model_kind=found.model_kind,
        problem=found.problem,
    )


def is_slip(state: RunState, failure: Failure, kind: FailureKind) -> bool:
    """The first place outside that a run names, refused before anything ran: models take the workspace for the root of
    a disk. It is told where it is; who tries again is put before a person."""
    return kind is FailureKind.CRITICAL and failure.source is Source.POLICY and not state.recovering.strayed

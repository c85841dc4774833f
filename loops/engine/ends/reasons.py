"""THE table of reasons why runs end (SPEC D1, E4). ``decide`` ends a run by asking its rows, and nothing else does.

A row has the reason code, the words that people read, the event of the lifecycle, and when it holds. Most limits ask a
person first: a guard leaves the row's ``fact``, the ``gate`` follows, and the run is given up for the row's code only
when nobody lets it go on. A reason without a row, as a damaged or later journal may have, ends a run as
``internal_error``: nothing goes on by accident. ``docs/termination.md`` is this table in words.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from loops.engine.effects import End
from loops.engine.measures import limits
from loops.engine.state.evidence import WEAK
from loops.engine.state.failure import Recovery
from loops.engine.state.lifecycle import Event
from loops.engine.state.run import RunState
from loops.engine.verification.checks import outcome

Guard = Callable[[RunState], bool]


class When(StrEnum):
    """Where ``decide`` asks the row."""

    STOP = "a stop was requested"
    GIVEN_UP = "given up"
    CAP = "before every step"
    FAILURE = "after a failure"
    RESULT = "the result was checked"
    ELSEWHERE = "outside of the loop"


@dataclass(frozen=True, slots=True)
class EndReason:
    """``holds`` None: the run was given up for this very code. ``fact`` is the kind of fact that leads to it; ``gate``
    the kind of question to a person before the end; ``of_failure``: the latest failure belongs into its report."""

    code: str
    explanation: str
    event: Event = Event.ERROR
    when: When = When.GIVEN_UP
    holds: Guard | None = None
    fact: str = ""
    gate: str = ""
    of_failure: bool = False

    def ends(self, state: RunState) -> bool:
        return self.holds(state) if self.holds else state.fatal == self.code


def operator_stop(state: RunState) -> bool:
    return state.stop_reason == "operator_stop"


def user_stop(state: RunState) -> bool:
    return state.stop_reason == "user_stop"


def global_cap(state: RunState) -> bool:
    return state.model_calls >= limits.HARD_CAP_MODEL_CALLS


def depth_cap(state: RunState) -> bool:
    return state.spec.depth > state.limits.max_depth


def unrecoverable(state: RunState) -> bool:
    return state.recovering.next == Recovery.FAIL_GRACEFULLY


def criteria_met(state: RunState) -> bool:
    return outcome(state) == "criteria_met"


def accepted(state: RunState) -> bool:
    return outcome(state) == "accepted"


def no_criteria(state: RunState) -> bool:
    return outcome(state) == "no_criteria"


def unproven(state: RunState) -> bool:
    return outcome(state) == "unproven"


END_REASONS: tuple[EndReason, ...] = (
    EndReason(
        "criteria_met",
        "Every acceptance criterion is met: a check ran for each and held.",
        Event.QUALITY_GATE_PASS,
        When.RESULT,
        criteria_met,
        "ChecksCompleted",
    ),
    EndReason(
        "accepted",
        "A person accepted the result; checks alone did not prove it.",
        Event.QUALITY_GATE_PASS,
        When.RESULT,
        accepted,
        "GateDecided",
        "final_review",
    ),
    EndReason(
        "no_criteria",
        "Finished: the task names no acceptance criteria, so nothing had to be proven.",
        Event.QUALITY_GATE_PASS,
        When.RESULT,
        no_criteria,
        "ChecksCompleted",
    ),
    EndReason(
        "unproven",
        "Finished, not proven: no check proved every criterion, and the task asks for no review.",
        Event.QUALITY_GATE_PASS,
        When.RESULT,
        unproven,
        "ChecksCompleted",
    ),
    EndReason(
        "checks_not_run",
        "The acceptance checks could not run here, and nobody fixed that.",
        fact="ChecksCompleted",
        gate="checks_not_run",
    ),
    EndReason(
        "max_steps",
        "The step limit was reached and not extended.",
        Event.BUDGET_EXCEEDED,
        fact="LimitReached",
        gate="limit_reached",
    ),
    EndReason(
        "max_seconds",
        "The time limit was reached and not extended.",
        Event.TIMEOUT,
        fact="LimitReached",
        gate="limit_reached",
    ),
    EndReason(
        "max_tokens",
        "The token limit was reached and not extended.",
        Event.BUDGET_EXCEEDED,
        fact="LimitReached",
        gate="limit_reached",
    ),
    EndReason(
        "max_cost_usd",
        "The cost limit was reached and not extended.",
        Event.BUDGET_EXCEEDED,
        fact="LimitReached",
        gate="limit_reached",
    ),
    EndReason(
        "max_failures",
        "Too many steps in a row failed.",
        fact="LimitReached",
        gate="limit_reached",
        of_failure=True,
    ),
    EndReason(
        "too_many_backtracks",
        "Too many approaches failed and were given up.",
        fact="Backtracked",
        gate="limit_reached",
        of_failure=True,
    ),
    EndReason(
        "repair_budget",
        "Verification kept failing until the repairs allowed were used up.",
        Event.BUDGET_EXCEEDED,
        fact="ChecksCompleted",
        gate="limit_reached",
    ),
    EndReason(
        "loop_detected",
        "The agent was stuck in a loop, and nobody could resolve it.",
        fact="LoopDetected",
        gate="loop_detected",
    ),
    EndReason(
        "escalated",
        "A person was asked and did not let the run continue.",
        fact="FailureClassified",
        gate="escalation",
        of_failure=True,
    ),
    EndReason(
        "unrecoverable",
        "Something failed that no retry can fix.",
        when=When.FAILURE,
        holds=unrecoverable,
        fact="FailureClassified",
        of_failure=True,
    ),
    EndReason(
        "low_confidence",
        "Confidence was low, and a person did not let the run continue.",
        fact="ConfidenceChecked",
        gate="low_confidence",
    ),
    EndReason(
        "not_confirmed",
        "A person did not confirm that the long task should continue.",
        Event.HALTED,
        fact="GateDecided",
        gate="long_task",
    ),
    EndReason(
        "no_tool_call",
        "The model stopped calling tools and gave no result.",
        fact="ModelStopped",
    ),
    EndReason(
        "model_unavailable",
        "The model could not be reached or refused the request for good.",
        fact="ModelFailed",
    ),
    EndReason(
        "refused",
        "The model refused to continue.",
        fact="ModelAnswered",
    ),
    EndReason(
        "context_exceeded",
        "The conversation no longer fits the model's context window.",
        fact="ContextPruned",
    ),
    EndReason(
        "operator_stop",
        "A person stopped the run.",
        Event.HALTED,
        When.STOP,
        operator_stop,
        "StopRequested",
    ),
    EndReason(
        "user_stop",
        "A message said that the run should stop.",
        Event.HALTED,
        When.STOP,
        user_stop,
        "StopWished",
    ),
    EndReason(
        "global_cap",
        "The global cap on iterations was reached.",
        Event.BUDGET_EXCEEDED,
        When.CAP,
        global_cap,
        "RunEnded",
    ),
    EndReason(
        "depth_cap",
        "Runs started by runs were nested more deeply than allowed.",
        Event.BUDGET_EXCEEDED,
        When.CAP,
        depth_cap,
        "RunEnded",
    ),
    EndReason("workspace_unusable", "The workspace could not be prepared.", when=When.ELSEWHERE),
    EndReason("could_not_begin", "The run could not begin.", when=When.ELSEWHERE),
    EndReason(
        "loop_failed",
        "The execution loop or the program that leads the run failed; the run is kept for a manual retry.",
        when=When.ELSEWHERE,
    ),
    EndReason(
        "journal_unreadable",
        "The journal of the run is damaged; see System and verify_chain.",
        when=When.ELSEWHERE,
    ),
    EndReason(
        "internal_error",
        "AgentOps could not continue; the run is kept for a manual retry.",
        when=When.ELSEWHERE,
    ),
)
EXPLANATIONS = {reason.code: reason.explanation for reason in END_REASONS}
"""What people read of each reason code (SPEC D1)."""
UNPROVEN = "Finished, not proven: the checks hold, but do not prove the work."
"""The same of ``criteria_met`` where its evidence is weak."""


def explained(code: str, evidence: str = "") -> str:
    """Why a run ended, for people; an unknown code stands for itself."""
    return UNPROVEN if code == "criteria_met" and evidence in WEAK else EXPLANATIONS.get(code, code)


def due(state: RunState, when: When) -> End | None:
    """The end by the first row that holds; None when none does."""
    return next((End(one.event, one.code) for one in END_REASONS if one.when is when and one.ends(state)), None)


def end(state: RunState, when: When) -> End:
    """The end of a run that has to end now."""
    reason = {When.STOP: state.stop_reason, When.GIVEN_UP: state.fatal}.get(when, outcome(state))
    return due(state, when) or End(Event.ERROR, "internal_error", f"This version knows no end by the name of {reason}.")


def after_failure(state: RunState) -> End | None:
    """Before the next request: has the latest failure to be the last one?"""
    return due(state, When.FAILURE)


def as_markdown() -> str:
    """The table for people who read the documentation."""
    rows = [
        f"| `{one.code}` | {one.explanation} | {f'`{one.gate}`' if one.gate else 'no'} | {one.when} "
        f"| {f'`{one.fact}`' if one.fact else ''} | `{one.event.value}` |"
        for one in END_REASONS
    ]
    head = "| reason code | what happened | asks a person first | when it is decided | fact that leads to it | event |"
    return "\n".join((head, "| --- | --- | --- | --- | --- | --- |", *rows)) + "\n"

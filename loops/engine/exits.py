"""What every terminal state leaves behind (SPEC A5, E7, N1): plain values, ready for canonical bytes."""

from __future__ import annotations

from typing import Any

from loops.engine import windowing
from loops.engine.codec import to_plain
from loops.engine.facts import Check
from loops.engine.lifecycle import Phase
from loops.engine.limits import LABELS, REASON_OF, extensions_left, usage
from loops.engine.recovery.repair import FAILED, causes_of
from loops.engine.state import RunState
from loops.engine.verification import EVIDENCE, judged, not_run

REPORT_KINDS = {Phase.COMMIT: "AgentResult", Phase.FAIL: "FailureReport", Phase.HALT: "HaltRecord"}

REASONS: dict[str, str] = {
    "criteria_met": "Every acceptance criterion is met: a check ran for each and held.",
    "accepted": "A person accepted the result; checks alone did not prove it.",
    "no_criteria": "Finished: the task names no acceptance criteria, so nothing had to be proven.",
    "unproven": "Finished, not proven: no check proved every criterion, and the task asks for no review.",
    "max_steps": "The step limit was reached and not extended.",
    "max_seconds": "The time limit was reached and not extended.",
    "max_tokens": "The token budget was used up and not extended.",
    "max_cost_usd": "The spending limit was reached and not extended.",
    "max_failures": "Too many steps in a row failed.",
    "escalated": "A person was asked and did not let the run go on.",
    "low_confidence": "The confidence was low and a person did not let the run go on.",
    "loop_detected": "The agent went in circles and nobody could help it out.",
    "repair_budget": "Verification kept failing until the repairs allowed were used up.",
    "checks_not_run": "The acceptance checks could not run here, and nobody put that right.",
    "model_unavailable": "The model could not be reached or refused the request for good.",
    "refused": "The model refused to go on.",
    "context_exceeded": "The conversation no longer fits the model's context window.",
    "global_cap": "The global cap on iterations was reached.",
    "operator_stop": "A person stopped the run.",
    "user_stop": "A message said that the run should stop.",
    "no_tool_call": "The model stopped calling tools and gave no result.",
    "depth_cap": "Runs began runs more deeply than is allowed.",
    "unrecoverable": "Something failed that no attempt can put right.",
    "too_many_backtracks": "Too many approaches failed and were given up.",
    "not_confirmed": "A person did not want a long task to go on.",
    "workspace_unusable": "The workspace could not be prepared.",
    "could_not_begin": "The run could not begin.",
    "loop_failed": "The execution loop that the run works in failed; the run is kept for a manual retry.",
    "journal_unreadable": "The journal of the run is damaged; see System and verify_chain.",
    "internal_error": "AgentOps itself could not go on; the run is kept for a manual retry.",
}
"""Every reason code with the words people read (SPEC D1)."""
OF_A_BOUND = frozenset({"loop_detected", *(REASON_OF.get(name, name) for name in LABELS)})
"""What people may let a run go on past, so often and no oftener."""
FOR_A_FAILURE = frozenset({"escalated", "unrecoverable", "too_many_backtracks", "max_failures"})


def report(phase: Phase, state: RunState, reason: str, detail: str = "") -> dict[str, Any]:
    """The artifact of the terminal ``phase``: {"kind", "reason", "explanation", ...}."""
    checks, of_earlier = _checks(state)
    common: dict[str, Any] = {
        "kind": REPORT_KINDS[phase],
        "schema": 2,
        "run": state.spec.run_id,
        "reason": reason,
        "explanation": REASONS.get(reason, reason),
        "usage": {
            "steps": state.step - state.reused_steps,
            "model_calls": state.model_calls - state.reused_answers,
            "tool_calls": state.tool_calls,
            "tokens": state.tokens,
            "cost_microusd": state.cost_microusd,
            "cost_is_lower_bound": state.cost_unknown,
            "active_seconds": state.active_us // 1_000_000,
            "repairs": min(state.repairs, state.limits.max_repairs),  # earlier versions counted the one refused
            "extensions": state.extensions,
        },
        "limits": {name: {"used": used, "bound": bound} for name, (used, bound) in usage(state).items()},
        "checks": to_plain(checks),
    }
    if phase is Phase.COMMIT:
        return common | {"result": state.result or "", "approver": state.approver, "evidence": EVIDENCE.get(reason, "")}
    partial, what = _partial(state)
    common |= {
        "diagnosis": detail or _why(state, reason),
        "causes": list(_causes(state, reason, checks)),
        "latest_error": _latest_error(state),
        "checks_of_earlier_result": of_earlier,
        "done": _done(state),
        "not_done": _not_done(state, checks),
        "partial_output": partial,
        "partial_output_is": what,
    }
    checkpoint = {"seq": state.seq, "step": state.step, "phase": state.phase.value}
    if phase is Phase.HALT:
        return common | {"resume": checkpoint}
    return common | {"given_up": list(state.recovering.given_up), "checkpoint": checkpoint}


def _checks(state: RunState) -> tuple[tuple[Check, ...], bool]:
    """What was checked last, and whether that was a result before the latest one."""
    latest = judged(state)
    return (latest, False) if latest else (state.failed_checks, bool(state.failed_checks) and state.result is not None)


def _causes(state: RunState, reason: str, checks: tuple[Check, ...]) -> tuple[str, ...]:
    """Root causes of a failed verification; else the rule or code of the failure that ended it; else the reason."""
    of_checks = causes_of(checks) or state.causes
    if of_checks and reason not in (FOR_A_FAILURE | {"model_unavailable"}):
        return of_checks
    code = state.outage.why if reason == "model_unavailable" else state.recovering.rule
    return (code,) if code and reason in (FOR_A_FAILURE | {"model_unavailable"}) else of_checks or (reason,)


def _latest_error(state: RunState) -> dict[str, Any] | None:
    """Of the latest steps, the last one that failed."""
    failed = [seen for seen in state.confidence.latest if not seen.success and seen.error]
    return {"step": failed[-1].step, "error": failed[-1].error} if failed else None


def failure_behind(state: RunState, reason: str) -> str:
    """What failed, where that is why it ended: as the provider of a model said it, or in words of our own."""
    more = state.recovering.why if reason in FOR_A_FAILURE else ""
    if reason == "model_unavailable":
        more = state.outage.said
    if reason == "checks_not_run":
        more = " ".join(dict.fromkeys(check.wanted for check in not_run(state)))
    if reason == "context_exceeded":
        more = windowing.what_is_too_long(state)
    if reason == "repair_budget":
        failed = [check for check in judged(state) or state.failed_checks if check.status in FAILED]
        more = " ".join(f"{check.text}: {check.status}." for check in failed)
    if reason in OF_A_BOUND and state.extensions and not extensions_left(state):
        more = f"{more} All {state.limits.max_extensions} extensions that its limits allow were used.".strip()
    return more


def _why(state: RunState, reason: str) -> str:
    """The words of the reason, and the failure behind it where there was one."""
    return f"{REASONS.get(reason, reason)} {failure_behind(state, reason)}".strip()


def _partial(state: RunState) -> tuple[str, str]:
    """The best that there is of a result, and what it is: never the latest chatter where a result was proposed."""
    if state.result is not None:
        return state.result, "a result that was not accepted" if state.checks else "a result that was not checked"
    if state.failed_result is not None:
        return state.failed_result, "a result that was not accepted"
    return state.last_text, "the agent's latest words" if state.last_text else "nothing"


def _done(state: RunState) -> list[str]:
    found = []
    if state.files_changed:
        found.append(f"{state.files_changed} file changes were made in the workspace")
    if state.measured.tests.passed:
        found.append(f"{state.measured.tests.passed} tests passed {_latest_run(state)}")
    if state.tool_calls:
        found.append(f"{state.tool_calls} tool calls ran over {state.step} steps")
    return found or ["nothing was changed"]


def _not_done(state: RunState, checks: tuple[Check, ...]) -> list[str]:
    if checks:
        return [f"{check.text} ({check.status})" for check in checks if check.status != "passed"]
    missing = [criterion.text for criterion in state.spec.criteria] or [state.spec.goal[:300]]
    if state.measured.tests.failed:
        missing.append(f"{state.measured.tests.failed} tests failed {_latest_run(state)}")
    return missing


def _latest_run(state: RunState) -> str:
    by_command = state.measured.tests is not state.measured
    return f"in the latest test run{', as a command reported it' if by_command else ''}"

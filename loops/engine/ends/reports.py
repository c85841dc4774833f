"""What every terminal state leaves behind (SPEC A5, E7, N1): plain values, ready for canonical bytes."""

from __future__ import annotations

from typing import Any

from loops.engine.context_window import budget
from loops.engine.encoding.codec import to_plain
from loops.engine.ends.reasons import END_REASONS, EXPLANATIONS, explained
from loops.engine.facts import Check
from loops.engine.measures.extensions import extensions_left
from loops.engine.measures.limits import usage
from loops.engine.state.check import CheckStatus
from loops.engine.state.lifecycle import Phase
from loops.engine.state.remark import plain
from loops.engine.state.run import RunState
from loops.engine.text.truncation import shortened
from loops.engine.verification.checks import judged, levels, not_run, weakest_evidence
from loops.engine.verification.diagnosis import FAILED, causes_of

REPORT_KINDS = {Phase.COMMIT: "AgentResult", Phase.FAIL: "FailureReport", Phase.HALT: "HaltRecord"}

OF_A_BOUND = frozenset(reason.code for reason in END_REASONS if reason.gate in {"limit_reached", "loop_detected"})
"""What people may let a run go on past, so often and no oftener."""
FOR_A_FAILURE = frozenset(reason.code for reason in END_REASONS if reason.of_failure)


def report(phase: Phase, state: RunState, reason: str, detail: str = "") -> dict[str, Any]:
    """The artifact of the terminal ``phase``: {"kind", "reason", "explanation", ...}."""
    checks, of_earlier = _checks(state)
    common: dict[str, Any] = {
        "kind": REPORT_KINDS[phase],
        "schema": 2,
        "run": state.spec.run_id,
        "reason": reason,
        "explanation": EXPLANATIONS.get(reason, reason),
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
    } | ({"remarks": plain(state.remarks)} if state.remarks else {})
    if phase is Phase.COMMIT:
        level = weakest_evidence(state, reason).value
        proof = {"evidence": level, "levels": levels(state), "explanation": explained(reason, level)}
        return common | {"result": state.result or "", "approver": state.approver} | proof
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
        more = budget.what_is_too_long(state)
    if reason == "repair_budget":
        failed = [check for check in judged(state) or state.failed_checks if check.status in FAILED]
        more = " ".join(f"{check.text}: {check.status}." for check in failed)
    if reason in OF_A_BOUND and state.extensions and not extensions_left(state):
        more = f"{more} All {state.limits.max_extensions} extensions that its limits allow were used.".strip()
    return more


def _why(state: RunState, reason: str) -> str:
    """The words of the reason, and the failure behind it where there was one."""
    return f"{EXPLANATIONS.get(reason, reason)} {failure_behind(state, reason)}".strip()


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
        return [f"{check.text} ({check.status})" for check in checks if check.status != CheckStatus.PASSED]
    missing = [criterion.text for criterion in state.spec.criteria] or [shortened(state.spec.goal, 300)]
    if state.measured.tests.failed:
        missing.append(f"{state.measured.tests.failed} tests failed {_latest_run(state)}")
    return missing


def _latest_run(state: RunState) -> str:
    by_command = state.measured.tests is not state.measured
    return f"in the latest test run{', as a command reported it' if by_command else ''}"

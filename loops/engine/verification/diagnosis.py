"""From failed checks to a diagnosis and a word to the model (SPEC M4, first version: rules only)."""

from __future__ import annotations

from dataclasses import replace

from loops.engine import prompts
from loops.engine.effects import Effect, Record
from loops.engine.facts import Check, LimitReached
from loops.engine.measures import limits
from loops.engine.measures.extensions import limit_gate
from loops.engine.state.check import CheckStatus
from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import RunState
from loops.engine.values import Json
from loops.engine.verification.checks import judged

DETAIL_AT_MOST = 4000
FAILED = frozenset({CheckStatus.FAILED, CheckStatus.ERROR})


def ask_for_more(state: RunState) -> Effect | None:
    """Before a repair that the limits do not allow any more: shall they be extended? (SPEC D3)"""
    if state.reached:
        gate = limit_gate(state)
        failed: list[Json] = [
            {"text": check.text, "command": check.command, "status": check.status, "detail": check.detail}
            for check in judged(state) or state.failed_checks
        ]
        return replace(gate, view={**gate.view, "result": state.result, "criteria": failed})
    if not repair_budget(state):
        return None
    used, bound = limits.usage(state)["max_repairs"]
    return Record((LimitReached(limit="max_repairs", used=used, bound=bound),))


def repair_budget(state: RunState) -> bool:
    """Is another repair wanted, and none left? Runs of earlier versions may have begun it already."""
    begun = state.phase is Phase.REPAIR and state.repairs > state.limits.max_repairs
    return begun or (state.phase is Phase.CRITIQUE and state.repairs >= state.limits.max_repairs)


def cause(check: Check) -> str:
    """Root cause in the words of SPEC M4."""
    if check.method == "schema":
        return "SCHEMA_VIOLATION"
    if check.obstacle:
        return "ENVIRONMENT"
    if check.status == CheckStatus.ERROR:
        return "TOOL_FAILURE"
    if check.method == "review":
        return "INCOMPLETENESS"
    return "LOGIC_ERROR"


def causes_of(checks: tuple[Check, ...]) -> tuple[str, ...]:
    """Root causes of what did not pass, each once."""
    return tuple(dict.fromkeys(cause(check) for check in checks if check.status in FAILED))


def diagnose(checks: tuple[Check, ...]) -> tuple[tuple[str, ...], str]:
    """(causes, feedback to the model) for everything that did not pass."""
    failed = [check for check in checks if check.status in FAILED]
    lines: list[str] = []
    for check in failed:
        lines.append(f"\n- {check.text}: {check.status}")
        if check.command:
            lines.append(f"  command: {check.command}")
        if check.detail:
            lines.append(_indented(check.detail))
    feedback = prompts.fill("not_accepted", checks="".join(f"\n{line}" for line in lines))
    return causes_of(checks), feedback


def _indented(text: str) -> str:
    if len(text) > DETAIL_AT_MOST:
        half = DETAIL_AT_MOST // 2
        text = f"{text[:half]}\n{prompts.fill('check_cut', characters=len(text) - 2 * half)}\n{text[-half:]}"
    return "\n".join(f"  | {line}" for line in text.splitlines())

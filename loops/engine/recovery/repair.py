"""From failed checks to a diagnosis and a word to the model (SPEC M4, first version: rules only)."""

from __future__ import annotations

from loops.engine import texts
from loops.engine.facts import Check

DETAIL_AT_MOST = 4000


def cause(check: Check) -> str:
    """Root cause in the words of SPEC M4."""
    if check.method == "schema":
        return "SCHEMA_VIOLATION"
    if check.status == "error":
        return "TOOL_FAILURE"
    if check.method == "review":
        return "INCOMPLETENESS"
    return "LOGIC_ERROR"


def diagnose(checks: tuple[Check, ...], rejection: str = "") -> tuple[tuple[str, ...], str]:
    """(causes, feedback to the model) for everything that did not pass."""
    failed = [check for check in checks if check.status in {"failed", "error"}]
    if rejection:
        failed.append(Check(text="Review by a person", status="failed", detail=rejection, method="review"))
    lines: list[str] = []
    for check in failed:
        lines.append(f"\n- {check.text}: {check.status}")
        if check.command:
            lines.append(f"  command: {check.command}")
        if check.detail:
            lines.append(_indented(check.detail))
    feedback = texts.fill("not_accepted", checks="".join(f"\n{line}" for line in lines))
    return tuple(dict.fromkeys(cause(check) for check in failed)), feedback


def _indented(text: str) -> str:
    if len(text) > DETAIL_AT_MOST:
        half = DETAIL_AT_MOST // 2
        text = f"{text[:half]}\n{texts.fill('check_cut', characters=len(text) - 2 * half)}\n{text[-half:]}"
    return "\n".join(f"  | {line}" for line in text.splitlines())

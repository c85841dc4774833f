"""How far is it? Tests first, artifacts next; the method is stored with the score (SPEC G1)."""

from __future__ import annotations

from loops.engine.state import RunState

_ARTIFACTS_AT_MOST = 0.5
"""Files alone never prove more than half of a goal."""


def measure(state: RunState) -> tuple[float, str]:
    """(score 0..1, method: "checks" | "tests" | "artifacts" | "none")."""
    provable = [check for check in state.checks or () if check.status != "unproven"]
    if provable:
        return sum(check.status == "passed" for check in provable) / len(provable), "checks"
    ran = state.tests_passed + state.tests_failed
    if ran:
        return state.tests_passed / ran, "tests"
    if state.files_changed:
        return min(_ARTIFACTS_AT_MOST, 0.2 + 0.1 * state.files_changed), "artifacts"
    return 0.0, "none"

"""After so many steps without a person: shall it go on? (SPEC D4)"""

from __future__ import annotations

from loops.engine.effects import Effect, OpenGate
from loops.engine.state.run import RunState


def confirm_long_task(state: RunState) -> Effect | None:
    most = state.limits.confirm_after
    since = max(state.recovering.confirmed_at, state.step_base)
    taken = state.step - since - state.step_is_open
    if not most or taken < most:
        return None
    return OpenGate(
        kind="long_task",
        title=f"Continue? {taken} steps since the last confirmation, {state.step - state.step_is_open} in all",
        reasons=(f"a person confirms after {most} steps",),
        recommended="approve" if state.progress > 0 else "",
        view={
            "steps": state.step - state.step_is_open,
            "steps_since": taken,
            "asks_again_after": most,
            "progress": round(state.progress, 2),
            "spent_usd": round(state.cost_microusd / 1e6, 4),
            "tokens": state.tokens,
            "failures_in_row": state.failures_in_row,
        },
    )

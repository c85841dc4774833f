"""An execution loop: the planner's model answers first, then everything is as in ReAct."""

from __future__ import annotations

from dataclasses import replace
from importlib.resources import files

from agentops.sdk import CallModel, Effect, ModelRole, React, RunState


class PlannerFirst(React):
    """Pure: both methods decide from the state alone. Nothing is read, written or remembered here."""

    name = "planner_first"
    prompts = files(__package__) / "prompts"

    def act(self, state: RunState) -> Effect:
        """As ReAct does, with another model for the first answer."""
        effect = super().act(state)
        if isinstance(effect, CallModel) and state.model_calls == 0:
            return replace(effect, role=ModelRole.PLANNER)
        return effect

"""An agent that asks the planner's model at every second question, and logs the steps that fail."""

from __future__ import annotations

import logging
from dataclasses import replace

from agentops.sdk import BaseAgent, CallModel, Effect, ExecutionResult, ModelRole, RunSpec, RunState

log = logging.getLogger(__name__)


class CarefulAgent(BaseAgent):
    """A new one is made whenever a worker takes the run up, so it remembers nothing: all it knows is in the state."""

    async def run_task(self, task: RunSpec) -> ExecutionResult:
        """Work on the task until it is over, or has to wait."""
        async with self._working_on(task) as state:
            while not self._should_terminate(state):
                effect = self._plan_next_step(state)
                facts = await self._execute_step_with_retry(effect, state)
                state = self._update_state(state, facts)
                step = self._validate_step(facts, state)
                if step and not step.success:
                    log.warning("a step of %s failed: %s", task.run_id, step.error)
        return self._finalize_result()

    def _plan_next_step(self, state: RunState) -> Effect:
        """What AgentOps would do next; of two questions to a model, the first is the planner's."""
        effect = super()._plan_next_step(state)
        if isinstance(effect, CallModel) and state.model_calls % 2 == 0:
            return replace(effect, role=ModelRole.PLANNER)
        return effect

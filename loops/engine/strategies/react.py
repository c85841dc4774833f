"""ReAct: think, act, observe, until a result is proposed or a guard says stop (SPEC B2).

Planning is one node and needs no model. One step is one answer of the model with all the calls in it.
"""

from __future__ import annotations

from importlib.resources.abc import Traversable

from loops.engine.effects import Effect, Record
from loops.engine.run.phases import entered
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.run import RunState
from loops.engine.strategies import before_request, call_cycle, register


@register
class React:
    name = "react"
    prompts: Traversable | None = None

    def plan(self, state: RunState) -> Effect:
        """One node: pass through to ACT with every transition on record."""
        path = (
            (Phase.PLAN, Event.PLAN_READY),
            (Phase.DECOMPOSE, Event.DECOMPOSED),
            (Phase.RETRIEVE, Event.EVIDENCE_READY),
        )
        todo = path[[phase for phase, _ in path].index(state.phase) :]
        return Record(tuple(entered(phase, event) for phase, event in todo))

    def act(self, state: RunState) -> Effect:
        """The open calls first, then the step's end, then the next request (``decide`` says when it may be made)."""
        if open_answer := call_cycle.next_effect(state):
            return open_answer
        if state.result is not None:
            event = Event.REPAIR_SUCCESS if state.phase is Phase.REPAIR else Event.OUTPUTS_READY
            return Record((entered(state.phase, event),))
        return before_request.ask(state)

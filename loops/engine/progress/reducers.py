"""What calls, steps and checks make of the measured progress of a run."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.encoding.replace import evolve
from loops.engine.progress.score import after_call, after_step, measure
from loops.engine.reducers import means
from loops.engine.state.run import RunState


@means(f.ToolCompleted)
def tool_completed(state: RunState, fact: f.ToolCompleted) -> RunState:
    return evolve(state, measured=after_call(state.measured, fact.tool, fact.result))


@means(f.StepCompleted)
def step_completed(state: RunState, fact: f.StepCompleted) -> RunState:
    measured = after_step(state.measured, fact.progress, fact.step)
    return evolve(state, progress=fact.progress, progress_method=fact.progress_method, measured=measured)


@means(f.ChecksCompleted)
def checks_completed(state: RunState, fact: f.ChecksCompleted) -> RunState:
    found = measure(evolve(state, checks=fact.checks))
    return evolve(state, progress=found.score, progress_method=found.method)

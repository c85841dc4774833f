"""Our side of the benchmark: the real driver on the real journal, with a model and a tool that do nothing."""

from __future__ import annotations

import asyncio
import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from loops.driver import Driver, Ports
from loops.engine import facts as f
from loops.engine.apply import initial
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.state.limits import Limits
from loops.engine.state.thresholds import OFF
from loops.engine.values import ModelReply, ModelRequest, StopReason, ToolCall, ToolResult, Usage
from tests import fakes
from tests.bench.work import ARGUMENTS, RESULTS, Marks

ENOUGH: dict[str, Any] = {"max_seconds": 10**5, "max_tokens": 10**9, "max_cost_microusd": 10**12}
OnAsked = Callable[[int, ModelRequest], None]


class Constant:
    """A model that calls the same tool at every step, then says that it is done."""

    def __init__(self, marks: Marks, on_asked: OnAsked | None = None) -> None:
        self._marks, self._on_asked = marks, on_asked

    async def call(self, request: ModelRequest, on_event: Any) -> ModelReply:
        number = self._marks.ask()
        if self._on_asked:
            self._on_asked(number, request)
        call = (
            ToolCall(f"call_{number}", "task_completion", {"result": "done"})
            if number > self._marks.steps
            else ToolCall(f"call_{number}", "lookup", ARGUMENTS)
        )
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": dict(call.arguments)}
        usage = Usage(input_tokens=10, output_tokens=5, cost_microusd=1)
        return ModelReply((block,), "", "", (call,), StopReason.TOOL_USE, usage, "none", "none")


def lookup(arguments: Mapping[str, Any]) -> ToolResult:
    return ToolResult(ok=True, content=RESULTS[random.randrange(64)])


def new_run() -> Any:
    """A submitted run that nobody drives yet."""
    from django.contrib.auth import get_user_model

    from loops.models import Agent, Project, Run, Task
    from loops.services.models import ensure_script

    user, _ = get_user_model().objects.get_or_create(username="bench")
    project, _ = Project.objects.get_or_create(slug="bench", defaults={"name": "Bench"})
    agent, _ = Agent.objects.get_or_create(
        project=project, name="bench", defaults={"actor_model": ensure_script("writes_a_file")}
    )
    task = Task.objects.create(project=project, agent=agent, title="b", goal="b", content_sha256="", created_by=user)
    return Run.objects.create(agent=agent, task=task, project=project)


def journal_of(run: Any) -> Any:
    """The run's journal, claimed as a worker does; belongs to the calling thread."""
    from loops.runs.composition import publisher
    from loops.storage import journal

    held = journal.claim(run.pk, "bench")
    assert held is not None
    return journal.PgJournal(held, run.project_id, publisher())


def driver(run: Any, store: Any, marks: Marks, *, model: Any = None, tool: Any = lookup) -> Driver:
    """Ready to drive: RunStarted is written."""
    from loops.runs.composition import SystemClock, gatekeeper
    from loops.storage.provenance import PgArchive

    limits = replace(Limits(), max_steps=marks.steps + 10, circles=OFF, **ENOUGH)  # every step is alike on purpose
    spec = fakes.spec(run_id=str(run.pk), project_id=run.project_id, limits=limits)
    started = f.RunStarted(
        spec=spec, system="Be good.", prompt_version="p", tools_sha256="t", at=int(time.time() * 1e6)
    )
    state = initial(started)
    store.append([(started, state)])
    model, tools = model or Constant(marks), fakes.Tools({"lookup": tool})
    tools.ran = deque(maxlen=1)  # type: ignore[assignment]  # else the fake's own memory grows with the run
    in_memory = isinstance(store, fakes.Journal)
    keeper, archive = (fakes.Gatekeeper(), fakes.Archive()) if in_memory else (gatekeeper(), PgArchive())
    ports = Ports(store, model, tools, keeper, archive, fakes.Feed(), SystemClock(), lambda: "")
    return Driver(ports, state, extend(Transcript(), started), slice_s=1e9)


def drive(made: Driver) -> None:
    why = asyncio.run(made.drive())
    assert why == "ended", why


def run(marks: Marks) -> None:
    """One whole run on the real journal."""
    submitted = new_run()
    drive(driver(submitted, journal_of(submitted), marks))

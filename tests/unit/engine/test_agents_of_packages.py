"""Agents of packages as a worker has them lead a run: what they get wrong ends it, and nothing more (SPEC B6)."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from typing import Any

import pytest

from loops import agents
from loops.agents import BaseAgent, ExecutionResult, packages
from loops.driver import drain
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine.ports import ModelError
from loops.engine.state.lifecycle import Event
from loops.engine.state.run import RunState
from loops.engine.state.spec import RunSpec
from loops.engine.values import FailureKind, ToolCall
from loops.orchestrator import Orchestrator
from tests.fakes import done, says
from tests.unit.engine.test_agents import LOOK, Setting, Worker


@pytest.mark.spec("B6", "X5", "A5")
@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (lambda due: e.End(Event.QUALITY_GATE_PASS, "criteria_met"), "only verification says"),
        (lambda due: e.OpenGate("question", "?", ()), "it wanted OpenGate where CallModel is due"),
        (lambda due: e.RunTool(ToolCall("c", "look", {})), "it wanted RunTool where CallModel is due"),
        (lambda due: 1 / 0, "ZeroDivisionError"),
        (lambda due: sys.exit(3), "SystemExit: 3"),
        (lambda due: None, "it wanted NoneType"),
    ],
    ids=[
        "says that it is done",
        "a gate of its own",
        "a call that nobody judged",
        "raises",
        "ends the process",
        "no effect",
    ],
)
def test_an_agent_of_a_package_that_oversteps_ends_its_run_with_a_report(
    monkeypatch: pytest.MonkeyPatch, wanted: Any, said: str
) -> None:
    class Odd(Worker):
        def _plan_next_step(self, state: RunState) -> Any:
            due = super()._plan_next_step(state)
            return wanted(due) if isinstance(due, e.CallModel) and state.model_calls == 1 else due

    setting = Setting([says("", LOOK), says("", LOOK), done()])
    assert led(setting, Odd, monkeypatch) == "ended"
    (ended,) = setting.journal.of(f.RunEnded)
    assert ended.reason == "loop_failed"
    assert "the agent 'odd' failed" in ended.report["diagnosis"]
    assert said in ended.report["diagnosis"]
    assert [call.name for call in setting.tools.ran] == ["look"], "what it began is kept, and nothing is added"


@pytest.mark.spec("B6", "A5")
def test_an_agent_of_a_package_that_does_nothing_ends_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    class Idle(BaseAgent):
        async def run_task(self, task: RunSpec) -> ExecutionResult:
            return None  # type: ignore[return-value]

    class Fleeting(BaseAgent):
        async def run_task(self, task: RunSpec) -> ExecutionResult:
            async with self._working_on(task):
                pass
            return self._finalize_result()

    for kind, said in ((Idle, "without working"), (Fleeting, "without having done anything")):
        setting = Setting([done()])
        assert led(setting, kind, monkeypatch) == "ended"
        assert said in setting.journal.of(f.RunEnded)[0].report["diagnosis"]


@pytest.mark.spec("B6", "E6", "J4")
def test_an_agent_of_a_package_gives_its_worker_back(monkeypatch: pytest.MonkeyPatch) -> None:
    busy = ModelError("overloaded", kind=FailureKind.TRANSIENT, code="overloaded_error", retry_after_s=30)
    assert led(Setting([busy, done()]), Worker, monkeypatch) == "timer"
    setting = Setting([done()])
    drain.begin(60)
    try:
        assert led(setting, Worker, monkeypatch) == "drain"
    finally:
        drain.forget()
    assert setting.journal.released == [(0, True)]


def led(setting: Setting, kind: type[BaseAgent], monkeypatch: pytest.MonkeyPatch) -> str:
    """Have a worker lead a new run by an agent of a package; why it stopped."""
    monkeypatch.setattr(packages, "_found", {"odd": kind})
    monkeypatch.setattr(packages, "_loaded", True)
    ledger, state = agents._begin(setting.context(), setting.spec)
    orchestrator = Orchestrator(tools=setting.tools, models=setting.models, gatekeeper=setting.gatekeeper)
    context = replace(setting.context(), state=state, transcript=ledger.transcript, shared=True)
    return asyncio.run(packages.lead("odd", context, orchestrator))

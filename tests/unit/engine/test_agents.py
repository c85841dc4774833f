"""Decision 83's names: loops by name, agents that iterate, an orchestrator between them and the world."""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops import agents
from loops.agents import AgentContext, BaseAgent, ExecutionResult, LoopRunner, execution_loop
from loops.driver import interrupts
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports, strategies
from loops.engine.ports import ModelError
from loops.engine.state.lifecycle import Phase
from loops.engine.state.spec import ConfidenceTerms, RunSpec
from loops.engine.state.thresholds import OFF
from loops.engine.values import Access, FailureKind, ModelRole, ToolResult
from loops.llm import prompts
from loops.orchestrator import Orchestrator, parse_confidence
from tests.fakes import Journal, Models, Tools, World, done, says

LOOK = ("look", {"at": "it"})
ROOT = Path(__file__).parents[3]


class Worker(BaseAgent):
    """The loop of decision 83, as a subclass writes it."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.validations: list[agents.Validation] = []
        self.opinions: list[f.ConfidenceChecked] = []

    async def run_task(self, task: RunSpec) -> ExecutionResult:
        async with self._working_on(task) as state:
            while not self._should_terminate(state):
                effect = self._plan_next_step(state)
                facts = await self._execute_step_with_retry(effect, state)
                validation = self._validate_step(facts, state)
                state = self._update_state(state, facts)
                assert state == self._hand.state
                if validation:
                    self.validations.append(validation)
                if self._should_request_confidence_check(state):
                    opinion = await self._request_confidence_evaluation(state)
                    assert opinion is not None
                    self.opinions.append(opinion)
                    state = self._update_state(state, self._news(state))
                    state = self._update_state(state, await self._escalate_low_confidence(state))
        return self._finalize_result()


class Setting(World):
    """A world whose run is begun by an agent or a loop."""

    def __init__(self, models: Any, tools: Tools | None = None, **changes: Any) -> None:
        super().__init__(models, tools, **changes)
        self.journal = Journal()

    def context(self, before: ExecutionResult | None = None) -> AgentContext:
        begun: dict[str, Any] = {"state": before.state, "transcript": before.transcript} if before else {}
        return AgentContext(self.ports(), system="Be good.", prompt_version="p", **begun)

    def agent(self, before: ExecutionResult | None = None) -> Worker:
        orchestrator = Orchestrator(tools=self.tools, models=self.models, gatekeeper=self.gatekeeper)
        return Worker(self.context(before), orchestrator)

    def work(self, before: ExecutionResult | None = None) -> ExecutionResult:
        return asyncio.run(self.agent(before).run_task(self.spec))

    def run(self, loop: str = "react", before: ExecutionResult | None = None) -> ExecutionResult:
        return asyncio.run(execution_loop(loop).execute_task(self.context(before), self.spec, self.tools))


# --- loops ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("B1", "B2")
def test_a_loop_is_chosen_by_name_and_tells_what_it_did() -> None:
    setting = Setting([says("I look.", LOOK), says("", LOOK, LOOK), done("all good")])
    result = setting.run()
    assert (result.status, result.result, result.waiting_for) == ("completed", "all good", "")
    assert result.report["kind"] == "AgentResult"
    assert (result.metadata.turns, result.metadata.tool_calls) == (3, 3)
    assert result.metadata.tokens_per_turn == (120, 120, 120)
    assert execution_loop("react").get_loop_type() == "react"
    with pytest.raises(strategies.UnknownLoop, match=r"registered: .*react"):
        execution_loop("nonsense")


@pytest.mark.spec("B1", "C4")
def test_a_loop_that_waits_can_be_taken_up_again() -> None:
    setting = Setting([says("", ("ask_question", {"question": "Which?"})), done()])
    waiting = setting.run()
    assert (waiting.status, waiting.waiting_for, waiting.report) == ("waiting", "gate:question", {})
    setting.decide("respond", answer="a")
    result = setting.run(before=waiting)
    assert result.status == "completed"
    assert result.metadata.turns == 1
    assert result.state == setting.state


@pytest.mark.spec("B2", "A5", "D1")
@pytest.mark.parametrize(
    ("kind", "status"), [(FailureKind.UNRECOVERABLE, "failed"), (None, "halted")], ids=["failed", "halted"]
)
def test_every_end_has_its_report(kind: FailureKind | None, status: str) -> None:
    setting = Setting(lambda request: ModelError("no key", kind=kind or FailureKind.TRANSIENT, code="x"))
    if kind is None:
        setting.send("stop")
    result = setting.run()
    assert result.status == status
    assert result.report["kind"] == {"failed": "FailureReport", "halted": "HaltRecord"}[status]


@pytest.mark.spec("B2", "J3")
def test_a_loop_that_lost_its_run_says_so() -> None:
    setting = Setting([says("", LOOK), done()])

    def lose(arguments: object) -> str:
        setting.journal.lost = True
        return "seen"

    setting.tools.functions["look"] = lose
    assert setting.run().status == "lost"


STRATEGY = '''
from pathlib import Path
from loops.engine.strategies import register
from loops.engine.strategies.react import React

@register
class Twice(React):
    """ReAct under another name."""
    name = "twice"
    prompts = Path(__file__).parent / "acme_prompts"
'''


@pytest.mark.spec("B1")
def test_another_package_adds_a_loop_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_loops.py").write_text(STRATEGY)
    (tmp_path / "acme_prompts").mkdir()
    (tmp_path / "acme_prompts" / "twice.md").write_text("You are {{agent_name}}.")
    info = tmp_path / "acme_loops-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-loops\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[agentops.loops]\ntwice = acme_loops:Twice\n")
    monkeypatch.setattr(strategies, "_registered", dict(strategies._registered))
    monkeypatch.setattr(strategies, "_loaded", False)
    assert "twice" not in strategies._registered
    monkeypatch.syspath_prepend(tmp_path)
    assert {"react", "twice"} <= set(strategies.names())
    setting = Setting([says("", LOOK), done()])
    result = setting.run("twice")
    assert result.status == "completed"
    assert result.state.spec.loop == "twice"
    assert LoopRunner("twice").get_loop_type() == "twice"


# --- agents --------------------------------------------------------------------------------------------------------


@pytest.mark.spec("B6", "C1")
def test_an_agent_iterates_until_its_result_is_verified() -> None:
    outcomes = iter([ToolResult(ok=False, content="1 failed", error="exit 1", exit_code=1), ToolResult(True, "ok")])
    tools = Tools({"look": lambda a: "seen", "run_command": lambda a: next(outcomes)})
    setting = Setting([says("I look.", LOOK), done("first"), done("second")], tools, criteria=[("green", "make test")])
    result = setting.work()
    assert (result.status, result.result) == ("completed", "second")
    assert result.metadata.turns == 3
    assert result.state.repairs == 1
    assert result.state == setting.state
    assert setting.journal.released


@pytest.mark.spec("B6", "E6")
def test_an_agent_waits_out_what_passes() -> None:
    busy = ModelError("overloaded", kind=FailureKind.TRANSIENT, code="overloaded_error", retry_after_s=30)
    setting = Setting([busy, busy, says("", LOOK), done()])
    before = setting.clock.time
    assert setting.work().status == "completed"
    assert setting.clock.time - before >= 60
    assert len(setting.journal.of(f.ModelFailed)) == 2


@pytest.mark.spec("B6", "I1", "J1")
def test_an_agent_calls_tools_only_through_its_orchestrator() -> None:
    setting = Setting([says("", LOOK), says("", ("wipe", {})), done()])
    setting.tools = Tools({"look": lambda a: "seen", "wipe": lambda a: "gone"}, {"wipe": Access.DENY})
    routed: list[str] = []

    class Listening(Orchestrator):
        async def execute_tool(self, call: Any, context: Any, on_output: Any) -> ToolResult:
            routed.append(call.name)
            assert setting.journal.kinds()[-1] == "ToolIntended"
            return await super().execute_tool(call, context, on_output)

    orchestrator = Listening(tools=setting.tools, models=setting.models, gatekeeper=setting.gatekeeper)
    result = asyncio.run(Worker(setting.context(), orchestrator).run_task(setting.spec))
    assert result.status == "completed"
    assert routed == [call.name for call in setting.tools.ran] == ["look"]


@pytest.mark.spec("B6", "Q1")
def test_an_agent_waits_for_people_like_any_run() -> None:
    setting = Setting([says("", LOOK), done()], Tools({"look": lambda a: "seen"}, {"look": Access.ASK}))
    waiting = setting.work()
    assert (waiting.status, waiting.waiting_for) == ("waiting", "gate:tool_approval")
    setting.decide("approve")
    assert setting.work(waiting).status == "completed"
    setting = Setting([done()])
    setting.send("pause")
    waiting = setting.work()
    assert waiting.waiting_for == "paused"
    setting.send("resume")
    setting.send("message", text="hurry")
    assert setting.work(waiting).status == "completed"


@pytest.mark.spec("B6", "D1")
def test_an_agent_is_bounded_like_any_run() -> None:
    setting = Setting(lambda request: says("", LOOK), limits={"max_steps": 3})
    waiting = setting.work()
    assert waiting.waiting_for == "gate:limit_reached"
    setting.decide("reject")
    result = setting.work(waiting)
    assert (result.status, result.report["reason"]) == ("failed", "max_steps")


@pytest.mark.spec("B6", "C1")
def test_a_step_says_how_it_went() -> None:
    outcomes = iter([ToolResult(ok=False, content="", error="no such file"), ToolResult(True, "seen")])
    elsewhere = says("", ("look", {"at": "that"}))
    setting = Setting([says("", LOOK), elsewhere, done()], Tools({"look": lambda a: next(outcomes)}))
    agent = setting.agent()
    asyncio.run(agent.run_task(setting.spec))
    assert [(step.success, step.error) for step in agent.validations] == [
        (False, "no such file"),
        (True, ""),
        (True, ""),
    ]


@pytest.mark.spec("B6", "J3")
def test_an_agent_that_lost_its_run_writes_nothing_more() -> None:
    setting = Setting([says("", LOOK), done()])

    def lose(arguments: object) -> str:
        setting.journal.lost = True
        return "seen"

    setting.tools.functions["look"] = lose
    assert setting.work().status == "lost"
    assert setting.journal.kinds()[-1] == "ToolIntended"


@pytest.mark.spec("B6")
def test_an_agent_that_stops_early_gives_its_run_back() -> None:
    class Lazy(BaseAgent):
        async def run_task(self, task: RunSpec) -> ExecutionResult:
            async with self._working_on(task) as state:
                await self._execute_step_with_retry(self._plan_next_step(state), state)
            return self._finalize_result()

    setting = Setting([])
    orchestrator = Orchestrator(tools=setting.tools, models=setting.models, gatekeeper=setting.gatekeeper)
    result = asyncio.run(Lazy(setting.context(), orchestrator).run_task(setting.spec))
    assert (result.status, result.waiting_for, result.state.phase) == ("waiting", "agent", Phase.ACT)
    assert setting.journal.released == [(0, True)]


@pytest.mark.spec("B6", "I1")
def test_an_agent_has_every_port_that_a_run_has() -> None:
    """What a port learns, the way through the orchestrator learns too."""
    wanted = {name for port in (ports.Tools, ports.Gatekeeper) for name in vars(port) if not name.startswith("_")}
    assert wanted <= set(vars(agents._Routed))


# --- no single shot --------------------------------------------------------------------------------------------------


@pytest.mark.spec("B6", "C6")
def test_a_models_word_alone_is_never_a_result() -> None:
    """One answer with everything in it: reminded, proposed, checked, repaired, and failed in the end."""
    tools = Tools({"run_command": lambda a: ToolResult(ok=False, content="", error="exit 1", exit_code=1)})
    setting = Setting(lambda request: says("The task is done."), tools, criteria=[("green", "make test")])
    result = setting.work()
    while result.status == "waiting":
        setting.decide("reject")
        result = setting.work(result)
    assert result.status == "failed"
    assert len(setting.models.requests) > 1
    assert setting.archive.committed == []


@pytest.mark.spec("B6")
def test_an_agent_has_to_write_its_loop() -> None:
    setting = Setting([])
    with pytest.raises(TypeError, match="run_task"):
        BaseAgent(setting.context(), setting.agent().orchestrator)  # type: ignore[abstract]
    promised = {
        "_plan_next_step",
        "_execute_step_with_retry",
        "_validate_step",
        "_update_state",
        "_should_terminate",
        "_execute_via_orchestrator",
        "_request_confidence_evaluation",
    }
    assert promised <= set(vars(BaseAgent))


@pytest.mark.spec("B6")
def test_models_are_called_in_three_places_only() -> None:
    """By the driver, which journals request and answer, for a second opinion that becomes no result, and to test a
    model, for no run."""
    callers = set()
    for path in sorted((ROOT / "loops").rglob("*.py")):
        if path.is_relative_to(ROOT / "loops" / "llm"):
            continue
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if ".call(" in text else ():
            if isinstance(node, ast.Attribute) and node.attr == "call" and ast.unparse(node.value).endswith("models"):
                callers.add(str(path.relative_to(ROOT)))
    assert callers == {"loops/driver/model_calls.py", "loops/orchestrator.py", "loops/services/model_tests.py"}


@pytest.mark.spec("B6")
def test_no_method_of_an_agent_hands_out_an_answer() -> None:
    methods = [method for _, method in inspect.getmembers(BaseAgent, inspect.isfunction)]
    returned = {str(inspect.signature(method).return_annotation) for method in methods}
    assert not returned & {"str", "ModelReply", "Awaitable[str]"}


# --- confidence ------------------------------------------------------------------------------------------------------


@pytest.mark.spec("B6", "G2")
@pytest.mark.parametrize(
    ("text", "score", "said"),
    [
        ('{"confidence": 0.8, "reason": "tests pass"}', 0.8, "tests pass"),
        ('Here:\n```json\n{"confidence": 1}\n```', 1.0, "no reason given"),
        ('{"confidence": 0}', 0.0, "no reason given"),
        ("I am quite sure", None, "no JSON object"),
        ("", None, "no JSON object"),
        ("{not json}", None, "no JSON object"),
        ("[0.9]", None, "no JSON object"),
        ('{"confidence": 1.1}', None, "no confidence from 0 to 1"),
        ('{"confidence": -0.1}', None, "no confidence from 0 to 1"),
        ('{"confidence": NaN}', None, "no JSON object"),
        ('{"confidence": 0.2, "confidence": 0.9}', None, "no JSON object"),
        ('{"confidence": true}', None, "no confidence from 0 to 1"),
        ('{"confidence": "0.9"}', None, "no confidence from 0 to 1"),
        ('{"reason": "fine"}', None, "no confidence from 0 to 1"),
        ("{" * 100_000 + "}", None, "no JSON object"),
    ],
)
def test_a_confidence_is_a_number_or_nothing(text: str, score: float | None, said: str) -> None:
    found, _, reason, problem = parse_confidence(text)
    assert found == score
    assert said in (reason if score is not None else problem)


@pytest.mark.spec("G1")
@pytest.mark.parametrize(("given", "progress"), [(0.4, 0.4), (2, None), ("much", None), (True, None)])
def test_an_estimate_of_progress_is_a_number_or_nothing(given: Any, progress: float | None) -> None:
    assert parse_confidence(json.dumps({"confidence": 0.5, "progress": given}))[1] == progress


@pytest.mark.spec("B6", "G2")
def test_confidence_is_asked_of_its_own_role_with_its_own_prompt() -> None:
    opinions = iter(['{"confidence": 0.9, "reason": "fine"}', '{"confidence": 0.2, "reason": "stuck"}'])

    def answer(request: Any) -> Any:
        return says(next(opinions)) if request.role is ModelRole.CONFIDENCE else says("", LOOK)

    models: Mapping[str, str] = {"actor": "big", "confidence": "small"}
    setting = Setting(answer, criteria=[("it works", "")], limits={"max_steps": 40, "warn_at": 2.0, "circles": OFF})
    setting.spec = replace(setting.spec, models=models, confidence=ConfidenceTerms(5, 0.5, by_model=True))
    agent = setting.agent()
    waiting = asyncio.run(agent.run_task(setting.spec))
    assert [(opinion.raw_score, opinion.reason) for opinion in agent.opinions] == [(0.9, "fine"), (0.2, "stuck")]
    assert agent.opinions[0].usage.total_tokens == 120
    asked = [request for request in setting.models.requests if request.role is ModelRole.CONFIDENCE]
    assert [request.model for request in asked] == ["small", "small"]
    assert asked[0].system == prompts.load("confidence").fill(goal="Do it")
    assert asked[0].tools == ()
    assert '"step": 5' in str(asked[0].messages)
    assert '"it works"' in str(asked[0].messages)
    assert (waiting.status, waiting.waiting_for, waiting.state.step) == ("waiting", "gate:low_confidence", 10)
    gate = setting.gatekeeper.opened[0]
    assert (gate.kind, gate.confidence) == ("low_confidence", 0.2)
    setting.decide("reject", reason="leave it")
    result = setting.work(waiting)
    assert (result.status, result.report["reason"]) == ("failed", "low_confidence")


@pytest.mark.spec("G2")
def test_a_second_opinion_that_cannot_be_had_says_why() -> None:
    models = Models([ModelError("no key", kind=FailureKind.UNRECOVERABLE, code="auth")])
    setting = Setting([])
    orchestrator = Orchestrator(tools=setting.tools, models=models, gatekeeper=setting.gatekeeper)
    found = asyncio.run(orchestrator.evaluate_confidence(orchestrator.confidence_request({}, goal="x", model="small")))
    assert found.score is None
    assert "auth: no key" in found.problem


@pytest.mark.spec("B6", "K1")
def test_planning_reads_mail_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person asked for since the last step is part of what comes next."""
    monkeypatch.setattr(interrupts, "LOOK_EVERY_S", 0)

    class Once(BaseAgent):
        effects: list[e.Effect]

        async def run_task(self, task: RunSpec) -> ExecutionResult:
            async with self._working_on(task) as state:
                setting.send("stop")
                for _ in range(3):
                    await asyncio.sleep(0)
                self.effects = [self._plan_next_step(state)]
                await self._execute_step_with_retry(self.effects[0], state)
            return self._finalize_result()

    setting = Setting([])
    orchestrator = Orchestrator(tools=setting.tools, models=setting.models, gatekeeper=setting.gatekeeper)
    agent = Once(setting.context(), orchestrator)
    result = asyncio.run(agent.run_task(setting.spec))
    assert [type(effect) for effect in agent.effects] == [e.End]
    assert result.status == "halted"


@pytest.mark.spec("G2", "X5")
def test_a_judge_reads_that_what_it_judges_by_was_cut() -> None:
    setting = Setting([])
    orchestrator = Orchestrator(tools=setting.tools, models=Models([]), gatekeeper=setting.gatekeeper)
    asked = orchestrator.confidence_request({"steps": "s" * 30_000}, goal="g" * 9_000, model="small")
    assert "[cut at 8,000 of 9,000 characters]" in asked.system
    assert asked.messages[0]["content"][0]["text"].endswith("[cut at 20,000 of 30,013 characters]")
    whole = orchestrator.confidence_request({"steps": "s"}, goal="g", model="small")
    assert "[cut" not in f"{whole.system} {whole.messages}"
    reason = parse_confidence(json.dumps({"confidence": 0.5, "reason": "r" * 600}))[2]
    assert (len(reason), reason[-18:]) == (500, "… (600 characters)")

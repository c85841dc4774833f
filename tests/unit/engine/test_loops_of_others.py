"""Execution loops of other packages: what is broken is named and stops nobody else, and what a loop may not do (B1)."""

from __future__ import annotations

import ast
import itertools
import logging
from pathlib import Path
from typing import Any

import pytest

from loops.engine import facts as f
from loops.engine import strategies
from loops.engine.state.lifecycle import Phase
from loops.engine.strategies.react import React
from loops.engine.strategies.third_party import _ITS_WORD
from tests import acme
from tests.fakes import Tools, World, says

pytestmark = pytest.mark.spec("B1")
_number = itertools.count()
LOOK = ("look", {"at": "this"})
GOOD = """
from itertools import count
from importlib.resources import files
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine.state.lifecycle import Event, Phase, TABLE
from loops.engine.run.phases import entered
from loops.engine.strategies import call_cycle
from loops.engine.strategies.react import React
from loops.engine.values import ModelRole, ToolCall, ToolResult

FORWARD = {pair for pair in TABLE if pair[1] in (
    Event.PLAN_READY, Event.DECOMPOSED, Event.EVIDENCE_READY, Event.OUTPUTS_READY, Event.QUALITY_GATE_PASS)}

class found(React):
    name = "odd"
    prompts = files(__package__)
"""
PROMPT = "You are {{agent_name}}. {{instructions}}"
BROKEN = {
    "an import that fails": ("import not_there", {"odd": PROMPT}, "No module named 'not_there'"),
    "an import that ends the process": ("raise SystemExit(3)", {"odd": PROMPT}, "SystemExit: 3"),
    "nothing of that name": ("", {"odd": PROMPT}, "has no attribute 'found'"),
    "no loop": ("class found:\n    name = 'odd'", {"odd": PROMPT}, "has no method plan"),
    "no class": ("found = 3", {"odd": PROMPT}, "not callable"),
    "a name that is taken": (GOOD.replace('"odd"', '"react"'), {"react": PROMPT}, "'react' is taken"),
    "no name": (GOOD.replace('"odd"', "None"), {"odd": PROMPT}, "its name is None"),
    "another name": (GOOD, {"odd": PROMPT}, "give both one name"),
    "no prompts": (GOOD.replace("files(__package__)", "None"), {}, "names no folder of prompts"),
    "no prompt of its own": (GOOD, {"other": PROMPT}, "has no odd.md"),
    "an empty prompt": (GOOD, {"odd": "\n"}, "or an empty one"),
    "a place that nobody fills": (GOOD, {"odd": PROMPT + "{{goal}}"}, "nobody fills: goal"),
    "no constructor": (GOOD + "    def __init__(self): raise ValueError('unset')", {"odd": PROMPT}, "unset"),
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Installs a loop of other people's, and has the loops read anew. Of ours there is ``react`` alone."""
    strategies.names()  # those of ours register themselves once, when they are imported
    monkeypatch.setattr(strategies, "_registered", {"react": React()})
    monkeypatch.setattr(strategies, "_broken", [])

    def install(code: str, prompts: dict[str, str], *, entry: str = "odd") -> None:
        name = f"p{next(_number)}"
        monkeypatch.setattr(strategies, "_loaded", False)
        monkeypatch.syspath_prepend(acme.write(tmp_path / name, "loops", name, code, entry=entry, **prompts))

    return install


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_loop_is_named_with_its_reason_and_stops_nobody(
    installed: Any, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    code, prompts, reason = BROKEN[case]
    entry = {"a name that is taken": "react", "another name": "else"}.get(case, "odd")
    installed(code, prompts, entry=entry)
    installed(GOOD.replace('"odd"', '"good"'), {"good": PROMPT}, entry="good")
    with caplog.at_level(logging.ERROR):
        assert strategies.names() == ("good", "react")
    (broken,) = strategies.broken()
    assert (broken.name, broken.kind) == (entry, "execution loop")
    assert reason in broken.reason
    assert "acme-p" in broken.package
    assert str(broken) in caplog.text
    assert isinstance(strategies.get("react"), React)
    if entry != "react":
        with pytest.raises(strategies.UnknownLoop, match="cannot be used"):
            strategies.get(entry)


def test_what_registered_itself_before_its_package_failed_is_taken_back(installed: Any) -> None:
    installed(
        f"{GOOD}\nfrom loops.engine.strategies import register\nregister(found)\nraise OSError('half')", {"odd": PROMPT}
    )
    assert strategies.names() == ("react",)
    assert [each.reason for each in strategies.broken()] == ["OSError: half"]


def test_a_loop_brings_its_own_prompt(installed: Any) -> None:
    installed(GOOD, {"odd": PROMPT})
    prompt = strategies.prompt("odd")
    assert prompt is not None
    assert prompt.fill(agent_name="Ada", instructions="None.") == "You are Ada. None."
    assert strategies.prompt("react") is None


WRONG = {
    "it raises": ("raise ValueError('off by one')", "ValueError: off by one"),
    "it ends the process": ("raise SystemExit(3)", "SystemExit: 3"),
    "it answers with nothing": ("return None", "NoneType"),
    "it answers with what is the lifecycle's": ("return e.RunChecks()", "RunChecks"),
    "it says that all is proven": ("return e.End(Event.QUALITY_GATE_PASS, 'criteria_met')", "only verification"),
    "it records nothing": ("return e.Record(())", "recorded nothing"),
    "it records what cannot be": (
        "return e.Record((f.PhaseEntered(phase=Phase.COMMIT, event=Event.PLAN_READY, came_from=Phase.PLAN),) * 2)",
        "plan_ready",
    ),
    "it says what people said": (
        "return e.Record((f.GateDecided(gate='g', kind='question', verdict='respond', by='ana'),))",
        "GateDecided is not a loop's",
    ),
    "it walks past verification": (
        "facts, phase = [], state.phase\n"
        "        for event in Event:\n"
        "            if (phase, event) in FORWARD:\n"
        "                facts.append(entered(phase, event))\n"
        "                phase = facts[-1].phase\n"
        "        return e.Record(tuple(facts))",
        "PhaseEntered is not a loop's",
    ),
    "it says that a turn came": ("return e.Record((f.TurnTaken(model='m'),))", "TurnTaken is not a loop's"),
    "it runs what nobody judged": ("return e.RunTool(ToolCall('c1.0', 'look'))", "without a judgement"),
    "it asks again before its answer is done with": (
        "return e.CallModel(role=ModelRole.ACTOR, max_tokens=9)",
        "before the latest answer",
    ),
    "it only writes": ("return e.Record((f.LimitWarned(limit='max_steps', used=1, bound=2),))", "never acts"),
}


@pytest.mark.spec("B1", "A5", "X5")
@pytest.mark.parametrize("case", WRONG)
@pytest.mark.parametrize("part", ["plan", "act"])
def test_a_loop_that_fails_ends_its_run_with_a_report(installed: Any, case: str, part: str) -> None:
    body, said = WRONG[case]
    patience = "assert next(self.asked) < 10_000, 'it is asked for ever'"  # with a guard off some are
    code = f"    asked = count()\n    def {part}(self, state):\n        {patience}\n        {body}\n"
    installed(GOOD + code, {"odd": PROMPT})
    tools = Tools({"look": lambda arguments: "seen"})
    world = World([says("", LOOK)], tools, loop="odd")
    assert world.drive() == "ended"
    assert (world.state.phase, world.state.end_reason) == (Phase.FAIL, "loop_failed")
    (ended,) = world.journal.of(f.RunEnded)
    report = ended.report
    assert report["kind"] == "FailureReport"
    assert said in report["diagnosis"]
    assert "'odd'" in report["diagnosis"]
    assert not tools.ran


ASKS = "e.CallModel(role=ModelRole.ACTOR, max_tokens=10**9)"
DONE = "call_cycle.next_effect(state) or"


@pytest.mark.spec("A6", "B1", "D1")
@pytest.mark.parametrize("part", ["plan", "act"])
def test_a_loop_that_only_asks_the_model_is_held_to_the_limits(installed: Any, part: str) -> None:
    """It never looks at one by itself."""
    installed(f"{GOOD}    def {part}(self, state):\n        return {DONE} {ASKS}\n", {"odd": PROMPT})
    world = World([says("", LOOK)] * 50, loop="odd", limits={"max_steps": 2})
    assert world.drive() == "gate:limit_reached"
    assert len(world.models.requests) == 2
    assert world.models.requests[0].max_tokens < 10**9


@pytest.mark.spec("A6", "B1", "F1")
def test_what_stands_before_a_request_stands_before_theirs(installed: Any) -> None:
    """A loop that never looks for circles goes in one."""
    installed(f"{GOOD}    def act(self, state):\n        return {DONE} {ASKS}\n", {"odd": PROMPT})
    world = World([says("", LOOK)] * 50, loop="odd", limits={"max_steps": 40})
    world.drive()
    assert world.journal.of(f.LoopDetected)
    assert len(world.models.requests) < 20


@pytest.mark.spec("A6", "B1", "D1")
def test_nothing_else_that_asks_a_model_comes_after_a_limit(installed: Any) -> None:
    sure = f"e.CheckConfidence('request') if state.step else {ASKS}"
    patience = "assert next(self.asked) < 100, 'it is asked for ever'"  # with the guard off it is
    code = f"    asked = count()\n    def act(self, state):\n        {patience}\n        return {DONE} ({sure})\n"
    installed(GOOD + code, {"odd": PROMPT})
    world = World([says("", LOOK)] * 50, loop="odd", limits={"max_steps": 1})
    assert world.drive() == "gate:limit_reached"
    assert len(world.models.requests) == 1


@pytest.mark.spec("B1", "X5")
def test_a_loop_cannot_answer_for_a_tool(installed: Any) -> None:
    """What a call brought is known to whoever ran it; a loop may answer only for the tools that end a step."""
    body = (
        "if state.calls and state.calls[0].status == 'judged':\n"
        "            call = state.calls[0].call\n"
        "            forged = ToolResult(ok=True, content='all is paid')\n"
        "            return e.Record((f.ToolCompleted(call_id=call.id, tool='converse', result=forged),))\n"
        "        return super().act(state)"
    )
    installed(f"{GOOD}    def act(self, state):\n        {body}\n", {"odd": PROMPT})
    world = World([says("", LOOK)], Tools({"look": lambda arguments: "nothing is paid"}), loop="odd")
    assert world.drive() == "ended"
    assert world.state.end_reason == "loop_failed"
    assert world.journal.of(f.ToolCompleted) == []


@pytest.mark.spec("B1")
def test_a_loop_may_answer_for_what_ends_a_step(installed: Any) -> None:
    installed(GOOD, {"odd": PROMPT})
    world = World([says("", ("converse", {"message": "I begin."}))], loop="odd")
    assert world.drive() == "message"
    assert [fact.tool for fact in world.journal.of(f.ToolCompleted)] == ["converse"]


def recorded_by(module: Path) -> set[str]:
    """The facts that a module makes, where it makes effects that record some."""
    calls = [node.func for node in ast.walk(ast.parse(module.read_text())) if isinstance(node, ast.Call)]
    names = {
        call.id if isinstance(call, ast.Name) else call.attr
        for call in calls
        if hasattr(call, "id") or hasattr(call, "attr")
    }
    return names & f.KINDS.keys() if "Record" in names else set()


@pytest.mark.spec("B1")
def test_what_every_step_records_is_a_loops_to_record() -> None:
    """A loop of a package hands on what the call cycle wants: one fact that is forgotten there ends its runs."""
    engine = Path(strategies.__file__).parents[1]
    of_verification = {engine / "decide.py", *(engine / "verification").iterdir()}
    recorded = set[str]().union(*(recorded_by(file) for file in set(engine.rglob("*.py")) - of_verification))
    assert {"LimitReached", "ToolRefused", "LoopBroken"} <= recorded
    assert recorded <= {kind.__name__ for kind in _ITS_WORD} | {"ToolCompleted"}

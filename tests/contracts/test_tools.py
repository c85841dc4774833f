"""What every tool service promises the driver, as far as the fake of the unit tests and the real one overlap."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pytest

from loops.engine import ports as p
from loops.engine.values import Access, Reversibility, ToolCall, ToolResult, ToolSpec
from loops.tools.policy import AccessRule
from loops.tools.registry import Tool, ToolRegistry
from tests import fakes
from tests.unit.tools.harness import Desk

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
NAMES = ("ask", "broken", "deny", "look")
CONTEXT = p.CallContext("run-1", 3, "coder", "project-1", "/nowhere")


class ToolRig(Protocol):
    tools: p.Tools
    context: p.CallContext
    ran: list[str]


class FakeTools:
    def __init__(self, folder: Path) -> None:
        self.ran: list[str] = []
        functions = {name: self.function(name) for name in NAMES}
        self.tools = fakes.Tools(functions, {"ask": Access.ASK, "deny": Access.DENY})
        self.context = CONTEXT

    def function(self, name: str) -> Callable[[Any], ToolResult]:
        def run(arguments: Any) -> ToolResult:
            self.ran.append(name)
            if name == "broken":
                raise ValueError("inside")
            return ToolResult(ok=True, content=f"{name} done")

        return run


class RealTools:
    def __init__(self, folder: Path) -> None:
        self.ran: list[str] = []
        ending = Tool(ToolSpec("task_completion", "ends", {"type": "object"}, loop_breaking=True))
        registry = ToolRegistry([*(self.tool(name) for name in NAMES), ending])
        rules = (
            AccessRule(Access.ALLOW, operation="look"),
            AccessRule(Access.ASK, tool="ask"),
            AccessRule(Access.DENY, tool="deny"),
        )
        desk = Desk(folder, rules, registry=registry)
        self.tools, self.context = desk.service, desk.context

    def tool(self, name: str) -> Tool:
        async def run(arguments: Any, about: Any) -> ToolResult:
            self.ran.append(name)
            if name == "broken":
                raise ValueError("inside")
            return ToolResult(ok=True, content=f"{name} done")

        return Tool(ToolSpec(name, name, SCHEMA, operation="look", reversibility=Reversibility.PURE), run)


@pytest.fixture(params=[FakeTools, RealTools], ids=["fake", "real"])
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> ToolRig:
    """The four tools and the one that ends a run, on either service."""
    made: ToolRig = request.param(tmp_path)
    return made


def judge(rig: ToolRig, name: str, **arguments: Any) -> p.Judgement:
    return asyncio.run(rig.tools.judge(ToolCall("c1.0", name, arguments), rig.context))


def execute(rig: ToolRig, name: str, **arguments: Any) -> ToolResult:
    call = ToolCall("c1.0", name, arguments)
    return asyncio.run(rig.tools.execute(call, rig.context, lambda stream, chunk: None))


@pytest.mark.spec("I2")
def test_tools_are_listed_in_the_same_order_each_time(rig: ToolRig) -> None:
    names = [spec.name for spec in rig.tools.specs()]
    assert names == [spec.name for spec in rig.tools.specs()]
    assert {"ask", "broken", "look", "task_completion"} <= set(names)
    assert next(spec for spec in rig.tools.specs() if spec.name == "task_completion").loop_breaking


@pytest.mark.spec("I3")
@pytest.mark.parametrize(("name", "access"), [("look", Access.ALLOW), ("ask", Access.ASK), ("deny", Access.DENY)])
def test_a_judgement_says_why_and_runs_nothing(rig: ToolRig, name: str, access: Access) -> None:
    judgement = judge(rig, name, n=1)
    assert (judgement.call_id, judgement.access, judgement.invalid) == ("c1.0", access, False)
    assert judgement.reasons
    assert judgement.policy_version
    assert judgement.gate_kind == ("tool_approval" if access is Access.ASK else "")
    assert not rig.ran


@pytest.mark.spec("I2")
def test_an_unknown_tool_is_denied_as_a_mistake_of_the_model(rig: ToolRig) -> None:
    judgement = judge(rig, "lok")
    assert (judgement.access, judgement.invalid) == (Access.DENY, True)
    assert "lok" in judgement.reasons[0]


@pytest.mark.spec("Q5")
def test_what_an_approval_binds_to_is_the_same_for_the_same_call_only(rig: ToolRig) -> None:
    assert judge(rig, "ask", n=1).subject
    assert judge(rig, "ask", n=1).subject == judge(rig, "ask", n=1).subject
    assert judge(rig, "ask", n=1).subject != judge(rig, "ask", n=2).subject


def test_a_call_runs_once(rig: ToolRig) -> None:
    result = execute(rig, "look", n=1)
    assert (result.ok, result.content) == (True, "look done")
    assert rig.ran == ["look"]


@pytest.mark.spec("E1")
def test_the_failure_of_a_tool_is_a_result(rig: ToolRig) -> None:
    result = execute(rig, "broken")
    assert not result.ok
    assert "inside" in result.error


@pytest.mark.spec("I1")
@pytest.mark.parametrize("name", ["deny", "unknown", "task_completion"])
def test_what_may_not_run_does_not_run_even_when_asked_directly(rig: ToolRig, name: str) -> None:
    assert not execute(rig, name).ok
    assert not rig.ran


@pytest.mark.spec("J2")
def test_an_interrupted_call_nobody_can_tell_of_is_unknown(rig: ToolRig) -> None:
    call = ToolCall("c1.0", "look", {"n": 1})
    assert asyncio.run(rig.tools.verify(call, rig.context)) is p.Verified.UNKNOWN

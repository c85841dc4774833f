"""Tools by the decorator: what is not declared is asked about, and what undoes is nobody's to call (I2, O1)."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator

from agentops.sdk import Access, ArgumentError, Danger, Effects, Reversibility, ToolHarness, ToolRun, tool
from loops.engine.ports import CallContext
from loops.engine.values import Compensation, ToolCall
from loops.tools.builtin import builtin_registry
from loops.tools.decorator import DeclaredTool
from loops.tools.gateway import ToolGateway
from loops.tools.registry import RegistrationError, ToolRegistry
from loops.tools.sandbox.capability import FULL, SandboxLevel
from tests import acme

pytestmark = pytest.mark.spec("I2")


@tool()
def bare(run: ToolRun, count: int = 1) -> str:
    """Say nothing of itself."""
    return str(count)


def even(number: int) -> int:
    if number % 2:
        raise ValueError("take an even number")
    return number


def marking() -> DeclaredTool:
    """A tool that writes a file; made anew for each test."""

    @tool(
        operation="write", reversibility=Reversibility.REVERSIBLE, danger=Danger.LOW, effects=Effects(writes=["path"])
    )
    async def mark(run: ToolRun, path: str, number: Annotated[int, AfterValidator(even)] = 2) -> str:
        """Mark a file."""
        run.workspace.write(path, str(number).encode())
        if number > 10:
            raise ArgumentError("take a smaller number")
        return "marked"

    @mark.undo
    async def unmark(run: ToolRun, path: str, number: int = 2) -> str:
        run.workspace.delete(path)
        return "gone"

    return mark


def test_what_is_not_declared_is_asked_about_as_the_worst(tmp_path: Path) -> None:
    judged = ToolHarness(bare, tmp_path).judge()
    assert (judged.access, judged.gate_kind, judged.risk) == (Access.ASK, "irreversible_action", "high")
    harness = ToolHarness(bare, tmp_path)
    harness.run()
    with pytest.raises(AssertionError, match="cannot be undone"):
        harness.undo()


@pytest.mark.spec("O1")
def test_an_agent_cannot_call_what_undoes(tmp_path: Path) -> None:
    registry = ToolRegistry(marking().offered)
    service = ToolGateway(registry, (), "v", SandboxLevel(FULL, "full"), save_blob=lambda data: "")
    call = ToolCall("c", "undo_mark", {"path": "a", "undoes_key": "k"})
    judged = asyncio.run(service.judge(call, CallContext("r", 1, "coder", "p", str(tmp_path))))
    assert judged.access is Access.DENY
    assert "unknown tool 'undo_mark'" in judged.reasons[0]
    assert [spec.name for spec in service.specs()] == ["mark"]


@pytest.mark.spec("I7", "O1")
def test_paths_are_held_to_the_workspace_and_the_call_is_undone(tmp_path: Path) -> None:
    harness = ToolHarness(marking(), tmp_path)
    assert harness.judge(path="../out").access is Access.DENY
    assert harness.judge(path="in").access is Access.ALLOW
    assert harness.run(path="in", number=4).ok
    assert (tmp_path / "in").read_text() == "4"
    assert harness.undo().ok
    assert not (tmp_path / "in").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [({"number": 3}, "take an even number"), ({"number": 12}, "take a smaller number")],
    ids=["a type's own check", "the tool's word"],
)
def test_the_model_is_told_what_to_do_instead(tmp_path: Path, arguments: dict[str, Any], said: str) -> None:
    result = ToolHarness(marking(), tmp_path).run(path="in", **arguments)
    assert not result.ok
    assert said in result.content


@tool()
async def leaving(run: ToolRun) -> str:
    """End the process."""
    sys.exit(3)


@tool()
def leaving_in_a_thread(run: ToolRun) -> str:
    """End the process."""
    sys.exit(3)


@pytest.mark.spec("X5")
@pytest.mark.parametrize("made", [leaving, leaving_in_a_thread])
def test_a_tool_that_ends_the_process_has_failed(tmp_path: Path, made: DeclaredTool) -> None:
    result = ToolHarness(made, tmp_path).run()
    assert not result.ok
    assert "SystemExit: 3" in result.content
    assert result.fault == "crash"


@pytest.mark.spec("X5", "O2")
def test_a_tool_that_ends_the_process_where_its_undoing_is_planned_has_none(tmp_path: Path) -> None:
    def leave(*_: Any) -> Any:
        sys.exit(3)

    mark, *undoing = marking().offered
    registry = ToolRegistry([replace(mark, undo=leave, learn=leave), *undoing])
    service = ToolGateway(registry, (), "v", SandboxLevel(FULL, "full"), save_blob=lambda data: "")
    call, context = ToolCall("c", "mark", {"path": "a"}), CallContext("r", 1, "coder", "p", str(tmp_path))
    planned = asyncio.run(service.plan_undo(call, context))
    learnt = asyncio.run(service.learn_undo(call, context, Compensation(tool="undo_mark")))
    assert planned == Compensation(why_not="how to undo it could not be recorded: 3")
    assert learnt == Compensation(why_not="what it changed could not be recorded: 3")


def test_unknown_and_mistyped_arguments_never_reach_the_function(tmp_path: Path) -> None:
    harness = ToolHarness(bare, tmp_path)
    assert "Additional properties" in harness.judge(other=1).reasons[0]
    assert "is not of type 'integer'" in harness.judge(count="1").reasons[0]


def test_a_parameter_without_a_type_is_refused() -> None:
    with pytest.raises(TypeError, match="needs a type"):

        @tool()
        def untyped(run: ToolRun, anything):  # type: ignore[no-untyped-def]
            """Whatever."""

    with pytest.raises(RegistrationError):
        ToolRegistry([*bare.offered, *bare.offered])


MODULE = """
from agentops.sdk import ToolRun, tool
@tool()
def first(run: ToolRun) -> str: return ""
again = first
@tool()
def {second}(run: ToolRun) -> str: return ""
"""


@pytest.mark.parametrize(("second", "added"), [("second", {"first", "second"}), ("read_file", set())])
def test_a_module_brings_all_its_tools_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str, added: set[str]
) -> None:
    name = f"declared_{second}"
    acme.write(tmp_path, "tools", name, MODULE.format(second=second))
    (tmp_path / f"acme_{name}-1.0.dist-info/entry_points.txt").write_text(f"[agentops.tools]\nall = acme_{name}\n")
    monkeypatch.syspath_prepend(tmp_path)
    registry = builtin_registry()
    broken = registry.load_entry_points()
    assert set(registry.names()) - set(builtin_registry().names()) == added
    assert ["is taken" in str(one) for one in broken] == ([] if added else [True])

"""What nobody declared is asked: a tool without declarations, an operation that no rule of the matrix names."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import loops.tools.builtin
from loops.engine.values import Access, Danger, Reversibility, ToolResult, ToolSpec
from loops.tools.builtin import builtin_registry
from loops.tools.policy import AccessRule, evaluate, without_rule
from loops.tools.registry import Tool, ToolRegistry
from tests.unit.tools.harness import MATRIX, Desk

OBJECT: dict[str, Any] = {"type": "object", "properties": {"amount": {"type": "integer"}}}
paid: list[int] = []


async def _pay(arguments: Mapping[str, Any], run: Any) -> ToolResult:
    paid.append(arguments["amount"])
    return ToolResult(ok=True, content="paid")


def _entry_point(monkeypatch: pytest.MonkeyPatch, spec: ToolSpec) -> ToolRegistry:
    class Entry:
        name, value, dist = "accounts", "acme:register", None

        def load(self) -> Any:
            return lambda registry: registry.add(Tool(spec, _pay))

    monkeypatch.setattr("loops.engine.packages.entry_points", lambda group: [Entry()])
    registry = builtin_registry()
    registry.load_entry_points()
    return registry


def _local(monkeypatch: pytest.MonkeyPatch, spec: ToolSpec) -> ToolRegistry:
    registry = builtin_registry()
    registry.add(Tool(spec, _pay))
    return registry


DOORS = {"entry point": _entry_point, "local": _local}


@pytest.mark.spec("I2", "I3", "O1")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("server", ["", "mcp://accounts"], ids=["package", "server"])
@pytest.mark.parametrize(
    "rules",
    [(), MATRIX, (*MATRIX, AccessRule(Access.ALLOW)), (*MATRIX, AccessRule(Access.ALLOW, tool="pay"))],
    ids=["no matrix", "the default matrix", "a rule that names nothing", "a rule that names it"],
)
def test_a_tool_that_declares_nothing_is_asked_for_and_irreversible(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rules: tuple[AccessRule, ...], server: str, door: str
) -> None:
    registry = DOORS[door](monkeypatch, ToolSpec("pay", "Pays.", OBJECT, server=server))
    judgement = Desk(tmp_path, rules, registry=registry, matrix=()).judge("pay", amount=900)
    assert (judgement.access, judgement.gate_kind) == (Access.ASK, "irreversible_action")
    assert judgement.reversibility == Reversibility.IRREVERSIBLE.value
    assert judgement.risk == Danger.HIGH.value


@pytest.mark.spec("I3")
@pytest.mark.parametrize(
    "rule",
    [
        AccessRule(Access.ALLOW),
        AccessRule(Access.ALLOW, tool="?*", operation="**"),
        AccessRule(Access.ALLOW, "coder"),
        AccessRule(Access.ALLOW, paths=("a/**",)),
    ],
    ids=["nothing", "patterns of nothing", "an agent", "a path"],
)
@pytest.mark.parametrize("declared", list(Access))
def test_an_operation_that_no_rule_names_is_never_below_ask(rule: AccessRule, declared: Access) -> None:
    spec = ToolSpec("charge", "", {}, operation="bank", reversibility=Reversibility.REVERSIBLE, default_access=declared)
    unnamed = evaluate(MATRIX, spec, "coder")
    assert unnamed.access is (Access.DENY if declared is Access.DENY else Access.ASK)
    verdict = evaluate((*MATRIX, rule), spec, "coder", paths=["a/b"])
    assert verdict.access is Access.ASK
    assert "names neither" in verdict.reason
    named = (*MATRIX, AccessRule(Access.ALLOW, operation="bank"))
    assert evaluate(named, spec, "coder").access is Access.ALLOW


@pytest.mark.spec("I2", "I5")
def test_every_tool_of_ours_declares_what_it_does() -> None:
    folder = Path(loops.tools.builtin.__file__).parent
    calls = [
        node
        for file in folder.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ToolSpec"
    ]
    assert len(calls) == len(builtin_registry().names())
    for call in calls:
        missing = {"operation", "reversibility", "danger", "default_access"} - {word.arg for word in call.keywords}
        assert not missing, f"{ast.unparse(call.keywords[0].value)} leaves to a default: {missing}"


@pytest.mark.spec("I3")
def test_what_we_bring_works_with_the_matrix_that_a_project_begins_with() -> None:
    """Reading and writing go on unasked, what ends a step is nobody's to allow, and the rest is asked."""
    registry = builtin_registry()
    allowed = {spec.name for spec in registry.specs() if evaluate(MATRIX, spec, "coder").access is Access.ALLOW}
    asked = {spec.name for spec in registry.specs()} - allowed
    assert asked == {"delete_file", "run_command", "run_tests"}
    unruled = {spec.name for spec in registry.specs() if without_rule(spec) is Access.ALLOW}
    assert unruled == {"task_completion", "ask_question", "converse"}

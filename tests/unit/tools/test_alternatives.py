"""What the tool access service says besides no: other tools, other paths, other agents; and what a grant is (I4)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from loops.engine.ports import Specialist
from loops.engine.values import Access, Reversibility, ToolSpec
from loops.tools.alternatives import MOST, alternatives, specialist_for
from loops.tools.policy import AccessRule
from loops.tools.sandbox.capability import FILES_ONLY, SandboxLevel
from tests.unit.tools.harness import Desk

pytestmark = pytest.mark.spec("I4")
NO_DELETE = AccessRule(Access.DENY, operation="delete")


def tool(name: str, operation: str = "read", **more: Any) -> ToolSpec:
    declared: dict[str, Any] = {"operation": operation, "reversibility": Reversibility.REVERSIBLE, **more}
    return ToolSpec(name=name, description="", parameters={"type": "object"}, **declared)


READ, WRITE, DELETE, RUN = tool("r"), tool("w", "write"), tool("d", "delete"), tool("x", "execute")
ALLOWED = tuple(AccessRule(Access.ALLOW, operation=name) for name in ("read", "write", "delete", "execute", "odd"))
OFFERED = (READ, WRITE, DELETE, RUN, tool("ask", "ask", loop_breaking=True), tool("odd", "odd"))


def others(denied: ToolSpec, *rules: AccessRule, paths: tuple[str, ...] = ()) -> tuple[str, ...]:
    return alternatives(OFFERED, (*ALLOWED, *rules), denied, "coder", paths)


def test_only_tools_that_do_the_same_or_less_are_named_nearest_first() -> None:
    assert others(DELETE) == ("w (allowed)", "r (allowed)")
    assert others(READ) == ()
    assert others(RUN) == ("d (allowed)", "w (allowed)", "r (allowed)")


def test_what_the_matrix_denies_or_asks_for_is_said_so() -> None:
    rules = (AccessRule(Access.DENY, tool="w"), AccessRule(Access.ASK, tool="r"))
    assert others(DELETE, *rules) == ("r (a person is asked)",)


def test_the_paths_of_the_call_decide() -> None:
    secret = AccessRule(Access.DENY, paths=("secrets/**",))
    assert others(DELETE, secret, paths=("secrets/key",)) == ("d on other paths (allowed)",)
    assert others(DELETE, secret, NO_DELETE, paths=("notes",)) == ("w (allowed)", "r (allowed)")


def test_an_operation_nobody_ranked_compares_with_itself_only() -> None:
    assert others(tool("odder", "odd")) == ("odd (allowed)",)


@pytest.mark.spec("X5")
def test_the_list_is_bounded_and_says_how_many_more() -> None:
    many = [tool(f"t{number:03}") for number in range(100)]
    assert len(alternatives(many[:MOST], ALLOWED, WRITE, "coder")) == MOST
    named = alternatives(many, ALLOWED, WRITE, "coder")
    assert (len(named), named[-1]) == (MOST + 1, f"and {100 - MOST} more")


def test_a_specialist_is_another_type_that_may_and_one_who_asks_nobody_comes_first() -> None:
    access = {"asks": Access.ASK, "may": Access.ALLOW, "not": Access.DENY}
    colleagues = [("Ann", "not"), ("Bob", "asks"), ("Cid", "may"), ("Dan", "coder")]
    assert specialist_for(colleagues, "coder", access.__getitem__) == Specialist("Cid", "may", 3)
    assert specialist_for(colleagues[:2], "coder", access.__getitem__) == Specialist("Bob", "asks", 2)
    assert specialist_for(colleagues[:1], "coder", access.__getitem__) == Specialist(looked_at=1)
    assert specialist_for([("Dan", "coder")], "coder", access.__getitem__) == Specialist()


# --- the service ------------------------------------------------------------------------------------------------------


def test_a_denial_tells_what_else_there_is_and_what_a_person_would_grant(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [NO_DELETE])
    (desk.workspace / "a.txt").write_text("kept\n")
    judged = desk.judge("delete_file", path="a.txt")
    assert (judged.access, judged.operation, judged.grantable) == (Access.DENY, "delete", True)
    assert "write_file (allowed)" in judged.alternatives
    assert judged.subject["tool"] == "delete_file"
    assert "-kept" in str(judged.view["diff"])
    assert (desk.workspace / "a.txt").exists()


@pytest.mark.parametrize("granted", [False, True])
def test_without_a_grant_a_denied_call_is_not_run(tmp_path: Path, granted: bool) -> None:
    desk = Desk(tmp_path, [NO_DELETE])
    (desk.workspace / "a.txt").write_text("kept\n")
    call = desk.call("delete_file", path="a.txt")
    context = replace(desk.context, grant="gate-1") if granted else desk.context
    result = asyncio.run(desk.service.execute(call, context, desk.heard))
    assert result.ok is granted
    assert (desk.workspace / "a.txt").exists() is not granted


def test_a_grant_does_not_open_the_sandbox(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    desk = Desk(tmp_path, [NO_DELETE], level=SandboxLevel(FILES_ONLY, "none"))
    granted = replace(desk.context, grant="gate-1")
    escape = desk.call("delete_file", path="../outside.txt")
    assert not asyncio.run(desk.service.execute(escape, granted, desk.heard)).ok
    command = desk.call("run_command", command="rm ../outside.txt")
    assert not asyncio.run(desk.service.execute(command, granted, desk.heard)).ok
    assert outside.read_text() == "mine"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("delete_file", {"path": "../outside.txt"}),
        ("delete_file", {"path": "AGENTS.md"}),
        ("task_completion", {"result": "x"}),
        ("apply_diff", {"path": "secret", "edits": [{"search": "not there", "replace": "y"}]}),
    ],
)
def test_what_a_person_cannot_grant_or_may_not_be_shown_has_nothing_to_approve(
    tmp_path: Path, name: str, arguments: dict[str, Any]
) -> None:
    desk = Desk(tmp_path, [AccessRule(Access.DENY)])
    (desk.workspace / "secret").write_text("the key is 42\n")
    judged = desk.judge(name, **arguments)
    assert (judged.access, judged.grantable, judged.subject) == (Access.DENY, False, {})
    assert "42" not in str(judged.reasons)


def test_the_access_of_another_type_is_asked_without_a_record(tmp_path: Path) -> None:
    desk = Desk(tmp_path, [NO_DELETE, AccessRule(Access.ALLOW, agent_type="janitor", operation="delete")])
    (desk.workspace / "a.txt").write_text("x")
    call = desk.call("delete_file", path="a.txt")
    assert desk.service.access_of(call, desk.context, "janitor") is Access.ALLOW
    assert desk.service.access_of(call, desk.context, "coder") is Access.DENY
    assert not desk.events

"""Verbs that set up what Admin does: what they list, make, change and delete (SPEC T3). What they refuse stands in
``test_configuration_doors``."""

from __future__ import annotations

import json
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from agentops import command_line
from loops.management.commands.agentops import Command
from loops.models import AccessRule, Agent, ModelConfig, Policy, PolicyVersion, Workspace
from tests.integration.services.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.spec("T3", "S1")]


def agentops(*arguments: object) -> str:
    out = StringIO()
    call_command("agentops", "--as", "root", *map(str, arguments), stdout=out, stderr=out)
    return out.getvalue().strip()


def here(*arguments: object) -> str:
    return agentops(*arguments, "--project", "invoices")


def test_a_model_is_made_changed_listed_and_deleted(world: World) -> None:
    agentops("model", "make", "spare", "--provider", "scripted", "--model-id", "repair_a_bug")
    said = agentops(
        *("model", "make", "fast", "--provider", "anthropic", "--model-id", "m", "--key", "ANTHROPIC_API_KEY"),
        *("--max-tokens", 2000, "--fallback", "spare"),
    )
    assert said == "fast: anthropic, m, key in ANTHROPIC_API_KEY"
    agentops("model", "set", "fast", "--thinking", "adaptive", "--xml-tools", "yes", "--fallback", "")
    row = ModelConfig.objects.get(name="fast")
    assert (row.thinking, row.xml_tools, row.fallback, row.max_tokens) == ("adaptive", True, None, 2000)
    listed = [json.loads(line) for line in agentops("model", "list", "--json").splitlines()]
    assert {"fast", "spare"} <= {one["name"] for one in listed}
    assert agentops("model", "delete", "fast") == "Deleted: fast"
    assert not ModelConfig.objects.filter(name="fast").exists()
    with pytest.raises(CommandError, match="agents refer to it"):
        agentops("model", "delete", world.agent.actor_model.name)


def test_an_agent_is_made_changed_listed_and_deleted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", StringIO("Read only.\n"))
    model = world.agent.actor_model.name
    said = here("agent", "make", "Reviewer", "--model", model, "--type", "reviewer", "--instructions", "-")
    assert said == f"Reviewer: reviewer, react, {model}"
    here("agent", "set", "Reviewer", "--active", "no", "--critic-model", model)
    row = Agent.objects.get(name="Reviewer")
    assert (row.instructions, row.is_active, row.critic_model.name) == ("Read only.\n", False, model)
    assert "Reviewer: reviewer, react" in here("agent", "list")
    assert json.loads(here("agent", "list", "--json").splitlines()[-1])["models"] == {"actor": model, "critic": model}
    here("agent", "delete", "Reviewer")
    assert not Agent.objects.filter(name="Reviewer").exists()
    with pytest.raises(CommandError, match="There are: Mender"):
        here("agent", "set", "Reviewer", "--active", "yes")


def test_a_rule_is_made_changed_listed_and_deleted(world: World) -> None:
    cell = (
        "--agent-type",
        "reviewer",
        "--operation",
        "write",
        "--access",
        "deny",
        "--path",
        "src/**",
        "--path",
        "*.md",
    )
    said = here("rule", "make", *cell, "--reason", "It reads")
    row = AccessRule.objects.get(agent_type="reviewer")
    assert said == f"{row.pk}  reviewer / * / write: deny on src/** *.md"
    here("rule", "set", row.pk, "--access", "ask", "--reason", "Sometimes")
    row.refresh_from_db()
    assert (row.access, row.paths) == ("ask", ["src/**", "*.md"])
    assert PolicyVersion.objects.filter(project=world.project)[0].reason == "Sometimes"
    assert str(row.pk) in here("rule", "list")
    here("rule", "delete", row.pk)
    assert not AccessRule.objects.filter(pk=row.pk).exists()
    with pytest.raises(CommandError, match="There is no rule"):
        here("rule", "delete", row.pk)


def test_a_policy_is_changed_and_listed(world: World) -> None:
    limits = ("--limit", "max_steps", 80, "--limit", "max_cost_usd", "2.5")
    said = here("policy", "set", "--final-review", "always", "--own-approval-allowed", "no", *limits, "--reason", "r")
    row = Policy.objects.get(project=world.project)
    assert (row.final_review, row.own_approval_allowed) == ("always", False)
    assert row.task_limits == {"max_steps": 80, "max_cost_microusd": 2_500_000}
    assert "final_review: always" in said
    assert json.loads(here("policy", "list", "--json"))["task_limits"] == row.task_limits


def test_a_workspace_is_changed_listed_and_deleted(world: World, settings: Any, tmp_path: Path) -> None:
    settings.WORKSPACE_ROOTS = [str(tmp_path)]
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    here("workspace", "make", "shop", tmp_path / "one")
    assert here("workspace", "set", "shop", tmp_path / "two", "--in-place").startswith(
        f"shop: {tmp_path}/two, runs change"
    )
    assert here("workspace", "set", "shop", "--copies").startswith(f"shop: {tmp_path}/two, runs work on copies")
    listed = [json.loads(line) for line in here("workspace", "--json").splitlines()]
    assert [one["name"] for one in listed] == ["Invoices", "shop"]
    here("workspace", "delete", "shop")
    assert not Workspace.objects.filter(name="shop").exists()


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["workspace", "delete"], "Which one"),
        (["workspace", "a", "b", "c"], "Too many words"),
        (["agent", "make", "x"], "actor_model"),
        (["agent", "make", "x", "--model", "none"], "no model none. There are"),
        (["policy", "set", "--limit", "max_steps", "many", "--reason", "r"], "max_steps must be a whole number"),
        (["policy", "set", "--final-review", "always"], "reason: Why"),
    ],
)
def test_what_is_missing_is_said_in_one_line(world: World, words: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why):
        here(*words)


def test_the_short_command_knows_every_verb() -> None:
    """``agentops agent list`` has to come to this command; the table there is written down by hand."""
    parser = Command().create_parser("agentops", "agentops")
    verbs = next(action.choices for action in parser._actions if action.dest == "verb")
    assert set(verbs) == command_line.OF_RUNS

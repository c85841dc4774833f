"""A folder of one's own becomes a workspace from a terminal, by the rules of the admin's form (SPEC I7, T3)."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command

from loops.models import AuditEvent, Workspace
from loops.services import people
from tests.integration.services.world import World

pytestmark = pytest.mark.spec("I7", "T3")


def agentops(*arguments: object) -> tuple[str, str]:
    out, told = StringIO(), StringIO()
    call_command("agentops", *map(str, arguments), stdout=out, stderr=told)
    return out.getvalue(), told.getvalue()


@pytest.fixture
def mine(world: World, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.WORKSPACE_ROOTS = [str(tmp_path / "roots")]
    for name in ("src/shop", "roots/shop"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "src")
    people.ensure_groups()
    world.admin.groups.add(Group.objects.get(name="admin"))
    world.admin.is_staff = True
    world.admin.save()
    return tmp_path / "src" / "shop"


def test_a_superuser_opens_a_folder_and_a_task_can_name_it(world: World, mine: Path) -> None:
    said, _ = agentops("--as", "root", "workspace", "shop", "shop", "--project", "invoices", "--allow")
    assert said == f"shop: {mine}, runs work on copies of it\n"
    row = Workspace.objects.get(name="shop")
    assert (row.path, row.copy_for_each_run, row.allowed_by.username) == (str(mine), True, "root")
    kinds = AuditEvent.objects.filter(kind__startswith="workspace.").values_list("kind", flat=True)
    assert sorted(kinds) == ["workspace.allowed", "workspace.changed"]
    listed, _ = agentops("--as", "root", "workspace", "--project", "invoices")
    assert said in listed
    ordinary = ("submit", "Mend it", "--project", "invoices", "--agent", "Mender", "--workspace", "shop")
    assert len(agentops("--as", "operator", *ordinary)[0].strip()) == 36


def test_an_admin_of_the_project_chooses_below_a_root(world: World, mine: Path) -> None:
    folder = mine.parents[1] / "roots/shop"
    said, _ = agentops("--as", "admin", "workspace", "shop", folder, "--project", "invoices", "--in-place")
    assert said == f"shop: {folder}, runs change it in place\n"
    assert not Workspace.objects.get(name="shop").allowed_by


@pytest.mark.parametrize(
    ("person", "folder", "more", "why"),
    [
        ("root", "shop", [], "tick “Allow this folder”"),
        ("admin", "shop", [], "a superuser can allow it"),
        ("admin", "../roots/shop", ["--allow"], "need to be a superuser"),
        ("operator", "../roots/shop", [], "you need the role admin"),
        ("root", "/etc", ["--allow"], "belongs to the system"),
        ("root", "", [], "Which folder"),
    ],
)
def test_what_the_form_refuses_is_refused_here(
    world: World, mine: Path, person: str, folder: str, more: list[str], why: str
) -> None:
    names = ["workspace", "shop", folder] if folder else ["workspace", "shop"]
    with pytest.raises(CommandError, match=why):
        agentops("--as", person, *names, "--project", "invoices", *more)
    assert not Workspace.objects.filter(name="shop").exists()
    if folder:
        refused = AuditEvent.objects.filter(kind__in=("workspace.refused", "access.refused"))
        assert refused.get().actor.username == person


def test_a_folder_that_is_not_here_is_said(world: World, mine: Path) -> None:
    """It may lie on the machines of workers alone."""
    made, told = agentops("--as", "root", "workspace", "typo", "shpo", "--project", "invoices", "--allow")
    assert made.startswith("typo: ")
    assert "/shpo is not on worker" in told


def test_a_name_is_given_once(world: World, mine: Path) -> None:
    agentops("--as", "root", "workspace", "shop", "shop", "--project", "invoices", "--allow")
    with pytest.raises(CommandError, match="already exists"):
        agentops("--as", "root", "workspace", "shop", "shop", "--project", "invoices", "--allow")
    assert Workspace.objects.filter(name="shop").count() == 1

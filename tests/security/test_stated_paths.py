"""What an accepted `agentops.toml` protects, no tool and no command of an agent changes (SPEC I7, X2), in the real
sandbox."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from loops.engine.ports import CallContext
from loops.engine.values import Access, ToolCall
from loops.models import AccessRule, Agent, Workspace
from loops.runs import composition
from loops.services import repository_files, tasks
from loops.storage import journal
from loops.tools.limits import Limits
from loops.tools.sandbox import capability
from loops.tools.sandbox.safe_paths import SafeDirectory
from loops.tools.sandbox.workspace_guard.protected_files import guard
from loops.workspaces.repository_file import parse
from tests import factories as make
from tests.unit.tools.harness import Desk, reachable

pytestmark = pytest.mark.spec("I7", "X2")
STATED = ("LICENSE", "deploy/prod", "new/plan.md")
COMMANDS = [
    "echo x > LICENSE",
    "rm -f LICENSE",
    "rm -f LICENSE; ln -s /etc/passwd LICENSE",
    "echo x >> deploy/prod/site.yaml",
    "echo x > deploy/prod/more.yaml",
    "mv deploy elsewhere",
    "rm -rf deploy; mkdir -p deploy/prod; echo x > deploy/prod/site.yaml",
    "mkdir new; echo x > new/plan.md",
    "chmod 777 LICENSE",
]


def fill(folder: Path) -> None:
    (folder / "deploy/prod").mkdir(parents=True)
    (folder / "LICENSE").write_text("mine\n")
    (folder / "deploy/prod/site.yaml").write_text("mine\n")
    (folder / "deploy/notes.md").write_text("anybody's\n")


def stands(folder: Path) -> tuple[str, int, list[str], str, bool]:
    mode = (folder / "LICENSE").stat().st_mode & 0o777
    inside = sorted(path.name for path in (folder / "deploy/prod").iterdir())
    plan = os.path.lexists(folder / "new/plan.md")
    return (folder / "LICENSE").read_text(), mode, inside, (folder / "deploy/prod/site.yaml").read_text(), plan


def desk_of(folder: Path, *stated: str) -> Desk:
    assert capability.probe().level == capability.FULL, capability.probe().warning
    desk = Desk(folder, level=capability.probe(), limits=Limits(stated=stated))
    fill(desk.workspace)
    return desk


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_changes_what_is_stated(tmp_path: Path, command: str) -> None:
    desk = desk_of(tmp_path, *STATED)
    before = stands(desk.workspace)
    desk.shell(command)
    assert stands(desk.workspace) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_control_without_the_statement_each_changes_it(tmp_path: Path, command: str) -> None:
    desk = desk_of(tmp_path)
    before = stands(desk.workspace)
    desk.shell(command)
    try:
        after = stands(desk.workspace)
    except OSError:
        return
    assert after != before


def test_it_means_one_place_and_leaves_the_rest_to_the_agent(tmp_path: Path) -> None:
    desk = desk_of(tmp_path, *STATED)
    done = "mkdir -p dist/prod && cp LICENSE dist/LICENSE && echo x > dist/prod/site.yaml && echo y > deploy/notes.md"
    assert desk.shell(done).ok
    assert desk.run("write_file", path="packages/LICENSE", content="another\n").ok
    assert (desk.workspace / "dist/LICENSE").exists()
    assert (desk.workspace / "deploy/notes.md").read_text() == "y\n"


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("write_file", {"path": "LICENSE", "content": "x"}),
        ("write_file", {"path": "license", "content": "x"}),
        ("write_file", {"path": "deploy/prod/more.yaml", "content": "x"}),
        ("write_file", {"path": "new/plan.md", "content": "x"}),
        ("delete_file", {"path": "LICENSE"}),
        ("move_file", {"path": "deploy", "target": "elsewhere"}),
    ],
)
def test_no_file_tool_changes_it(tmp_path: Path, tool: str, arguments: dict[str, str]) -> None:
    desk = desk_of(tmp_path, *STATED)
    before = stands(desk.workspace)
    assert "only a person changes it" in str(desk.run(tool, **arguments).error)
    assert stands(desk.workspace) == before


def test_what_lies_behind_a_link_has_another_path(tmp_path: Path) -> None:
    """A person's own link is no reason to refuse every command."""
    desk = desk_of(tmp_path, "away/x", "inside/site.yaml")
    (desk.workspace / "away").symlink_to("/etc")
    (desk.workspace / "inside").symlink_to("deploy/prod")
    assert desk.shell("true").ok


def test_a_folder_that_is_too_large_to_be_guarded_is_said(tmp_path: Path) -> None:
    desk = desk_of(tmp_path, "many")
    (desk.workspace / "many").mkdir()
    for number in range(1_001):
        (desk.workspace / f"many/{number}").touch()
    assert "'many' has more than 1000 entries and cannot be guarded" in desk.shell("true").error


def test_where_nothing_can_be_mounted_it_is_put_back(tmp_path: Path) -> None:
    fill(tmp_path)
    before = stands(tmp_path)
    with SafeDirectory(str(tmp_path)) as root:
        guarded = guard(root, Limits().protected, mounts=False, stated=STATED)
        (tmp_path / "LICENSE").write_text("theirs\n")
        (tmp_path / "new").mkdir()
        (tmp_path / "new/plan.md").write_text("theirs\n")
        assert guarded.restore(root) == ["LICENSE", "new/plan.md"]
    assert stands(tmp_path) == before


@pytest.mark.parametrize("command", ["echo x > agentops.toml", "mkdir sub && echo x > sub/agentops.toml"])
def test_no_agent_makes_or_changes_the_file_itself(tmp_path: Path, command: str) -> None:
    desk = desk_of(tmp_path)
    desk.shell(command)
    assert not (desk.workspace / "agentops.toml").exists()
    assert not (desk.workspace / "sub/agentops.toml").exists()
    assert not desk.run("write_file", path="agentops.toml", content="[tests]\ncommand = 'true'\n").ok


# --- from the file to a run -----------------------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_a_run_on_the_workspace_is_held_as_soon_as_it_is_accepted(
    tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.AGENTOPS_WORKSPACES = str(reachable(tmp_path) / "runs")
    settings.WORKSPACE_ROOTS = [str(tmp_path)]
    monkeypatch.setattr(composition, "RULES_FRESH_S", 0.0)
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    project, ada = make.project("Shop"), make.superuser("ada")
    AccessRule.objects.filter(project=project).update(access="allow")
    agent: Agent = make.agent(project)
    (tmp_path / "shop").mkdir()
    text = "[files]\nprotected = ['LICENSE']\n"
    (tmp_path / "shop/agentops.toml").write_text(text)
    row = Workspace.objects.create(project=project, name="shop", path=str(tmp_path / "shop"))
    run = tasks.submit_task(actor=ada, project=project, agent=agent, workspace=row, goal="Mend it").run
    folder = tmp_path / "runs" / str(run.pk)
    folder.mkdir(parents=True)
    connection = journal.raw_connection()
    tools = composition.tools_of(run, connection)
    context = CallContext(str(run.pk), 1, agent.agent_type, str(project.pk), str(folder))

    def wrote(content: str) -> bool:
        call = ToolCall("call-1", "write_file", {"path": "LICENSE", "content": content})
        is_allowed = asyncio.run(tools.judge(call, context)).access is Access.ALLOW
        return is_allowed and asyncio.run(tools.execute(call, context, lambda stream, chunk: None)).ok

    assert wrote("first\n"), "nobody accepted it"
    repository_files.accept(actor=ada, workspace=row, sha256=parse(text.encode()).sha256)
    assert not wrote("second\n")
    assert (folder / "LICENSE").read_text() == "first\n"
    connection.close()

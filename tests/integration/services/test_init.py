"""``agentops init``: model, workspace and agent of a first task, asked for at a terminal, and nothing twice."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from loops.llm.endpoints import keys
from loops.llm.providers import OURS
from loops.management import first_steps
from loops.models import Agent, AuditEvent, ModelConfig, Policy, PolicyVersion, Preflight, Project, Run, Workspace
from loops.services import demo, first_set_up, models
from loops.services.configuration import Unfit
from tests.integration.services.world import World
from tests.wire.say import Say
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S3", "T3")]
SECRET = "sk-ant-0123456789-very-secret"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(first_steps, "WORKER_S", 0)


@pytest.fixture
def world(transactional_db: None) -> World:
    from tests.integration.services.world import make

    return make()


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(lambda seen: Say(calls=[("report", {"text": "ready"})])) as running:
        yield running


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with tests, and the folder in which somebody stands."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.WORKSPACE_ROOTS = []
    folder = tmp_path / "My Shop"
    (folder / ".git").mkdir(parents=True)
    (folder / "test_shop.py").write_text("import unittest\n")
    monkeypatch.chdir(folder)
    return folder


def init(*arguments: object) -> tuple[str, str]:
    out, told = StringIO(), StringIO()
    call_command("agentops", "--as", "root", "init", *map(str, arguments), stdout=out, stderr=told)
    return out.getvalue(), told.getvalue()


def options(server: WireServer) -> list[str]:
    return ["--project", "invoices", "--model-url", server.openai_url, "--model-id", "tiny"]


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A terminal, at which somebody types lines."""
    ours, theirs = os.openpty()
    with os.fdopen(theirs, "r") as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        yield lambda *lines: os.write(ours, "".join(f"{line}\n" for line in lines).encode())
    os.close(ours)


def kept() -> list[Any]:
    return [list(model.objects.order_by("pk").values()) for model in (Agent, Workspace, PolicyVersion)]


def test_options_alone_make_all_that_a_first_task_needs(world: World, server: WireServer, shop: Path) -> None:
    said, told = init(*options(server), "--allow", "--yes")
    model = ModelConfig.objects.get(base_url=server.openai_url)
    agent = Agent.objects.get(project=world.project, name="Engineer")
    workspace = Workspace.objects.get(path=str(shop))
    assert (model.model_id, model.api_key_env) == ("tiny", "")
    assert agent.actor_model == model
    assert "own tests before and after" in agent.instructions
    assert (workspace.name, workspace.copy_for_each_run, workspace.allowed_by) == ("my-shop", True, world.root)
    assert "Tool use: yes" in said
    line = (
        "agentops submit 'Mend the first failing test' --agent Engineer --workspace my-shop "
        "--criterion 'Tests pass :: python3 -m unittest' --project invoices --watch"
    )
    assert said.endswith(f"Next:\n  {line}\n")
    assert "no worker took it" in told
    kinds = {"model.changed", "agent.changed", "workspace.changed", "workspace.allowed", "task.preflight"}
    assert kinds <= set(AuditEvent.objects.filter(actor=world.root).values_list("kind", flat=True))


def test_a_second_time_changes_nothing_and_says_so(world: World, server: WireServer, shop: Path) -> None:
    init(*options(server), "--allow", "--yes")
    Agent.objects.filter(name="Engineer").update(instructions="Mine.")
    before = kept()
    said, _ = init(*options(server), "--allow", "--yes")
    assert kept() == before
    assert ModelConfig.objects.filter(base_url=server.openai_url).count() == 1
    assert said.count("there already") == 3


def test_an_agent_keeps_the_model_that_it_has(world: World, server: WireServer, shop: Path) -> None:
    Agent.objects.create(project=world.project, name="Engineer", actor_model=models.preferred())
    _, told = init(*options(server), "--allow", "--yes")
    assert Agent.objects.get(name="Engineer", project=world.project).actor_model == models.preferred()
    assert "agentops agent set Engineer --model tiny --project invoices" in told


def test_a_terminal_asks_three_questions_and_offers_what_it_found(
    world: World, server: WireServer, shop: Path, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(server.openai_url, "", "make check", "y")
    said, _ = init("--project", "invoices", "--model-id", "tiny")
    asked = capsys.readouterr().out
    assert "name of the variable with its key" in asked
    assert f"Folder of your repository [{shop}]: " in asked
    assert "(test_shop.py suggests one) [python3 -m unittest]: " in asked
    assert f"Let agents read {shop} and work on copies of it? [y/N]: " in asked
    assert "'Tests pass :: make check'" in said
    assert Workspace.objects.get(path=str(shop)).allowed_by == world.root


def test_at_a_terminal_too_yes_asks_nothing_and_allows_nothing(
    world: World, server: WireServer, shop: Path, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    typed("y", "y", "y")
    with pytest.raises(CommandError, match=r"lies outside the workspace roots.*--allow"):
        init(*options(server), "--yes")
    assert "[y/N]" not in capsys.readouterr().out
    assert not Workspace.objects.filter(path=str(shop)).exists()


def test_a_terminal_offers_the_model_that_is_set_up_already(
    world: World, server: WireServer, shop: Path, typed: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """As whoever started AgentOps in another shell with its key."""
    row = ModelConfig.objects.create(name="own", provider="openai", model_id="tiny", base_url=server.openai_url)
    typed("", "", "true", "y")
    said, _ = init("--project", "invoices")
    assert f"address of its server [{server.openai_url}]: " in capsys.readouterr().out
    assert "Model there already" in said
    assert Agent.objects.get(project=world.project, name="Engineer").actor_model == row


@pytest.mark.parametrize(("tools", "works"), [("yes, it called the tool", True), ("no, it answered in words", False)])
def test_a_worker_tests_a_model_whose_key_this_shell_lacks(
    world: World, shop: Path, monkeypatch: pytest.MonkeyPatch, tools: str, works: bool
) -> None:
    """The worker is played."""
    monkeypatch.setattr(
        "loops.storage.dispatch.dispatch",
        lambda job, after=0, **given: ModelConfig.objects.filter(pk=given.get("model")).update(
            tested_at=timezone.now(), test_result=f"It answered in 1.0 seconds as m.\nTool use: {tools}."
        ),
    )
    out = StringIO()
    given = ["--project", "invoices", "--model", "ANTHROPIC_API_KEY", "--folder", "", "--tests", ""]
    try:
        call_command("agentops", "--as", "root", "init", *given, stdout=out, stderr=StringIO())
        ended = True
    except CommandError:
        ended = False
    assert (ended, "It answered in 1.0 seconds" in out.getvalue()) == (works, True)
    assert "This shell has no ANTHROPIC_API_KEY: a worker tests the model" in out.getvalue()


def test_the_next_line_can_be_typed_as_it_stands(
    world: World, server: WireServer, shop: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By whoever has not put the command on the path, and by whoever has."""
    command = tmp_path / "of mine" / "agentops"
    command.parent.mkdir()
    command.touch(0o755)
    monkeypatch.setattr(sys, "argv", [str(command), "init"])
    said, told = init(*options(server), "--allow", "--yes")
    assert f"Next:\n  '{command}' submit " in said
    assert f"Try it later: '{command}' try " in told
    monkeypatch.setenv("PATH", f"{command.parent}:{os.environ['PATH']}")
    assert "Next:\n  agentops submit " in init(*options(server), "--allow", "--yes")[0]


def test_who_does_not_answer_for_a_folder_opens_none(world: World, server: WireServer, shop: Path, typed: Any) -> None:
    typed("n")
    with pytest.raises(CommandError, match="With --allow you answer for it"):
        init(*options(server), "--folder", shop, "--tests", "")
    assert not Workspace.objects.filter(path=str(shop)).exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--yes"], "No model of a provider"),
        (["--model", SECRET], "name of an environment variable"),
        (["--model", "HOME"], "which server takes HOME"),
        (["--model", "ODD_KEY"], "which server takes ODD_KEY"),
        (["--model-url", "http://169.254.169.254/v1", "--model-id", "m"], "address of the network itself"),
        (["--model-url", "http://name:word@127.0.0.1/v1", "--model-id", "m"], "no name and no password"),
    ],
)
def test_what_is_no_model_is_refused_in_one_line(world: World, shop: Path, arguments: list[str], why: str) -> None:
    with pytest.raises(CommandError, match=why) as refused:
        init("--project", "invoices", *arguments)
    assert "\n" not in str(refused.value)
    assert SECRET not in str(refused.value)
    assert not Agent.objects.filter(name="Engineer", project=world.project).exists()


@pytest.mark.parametrize(("folder", "why"), [("/etc", "belongs to the system"), ("/not/here", "is not on worker")])
def test_some_folders_nobody_opens(world: World, server: WireServer, shop: Path, folder: str, why: str) -> None:
    with pytest.raises(CommandError, match=why):
        init(*options(server), "--allow", "--folder", folder)
    assert not Workspace.objects.filter(path=folder).exists()


def test_a_model_that_cannot_be_worked_with_is_set_up_and_named(world: World, shop: Path) -> None:
    with WireServer(lambda seen: Say(text="ready")) as server, pytest.raises(CommandError, match="Not every model"):
        init(*options(server), "--allow", "--run", "Mend it")
    assert Agent.objects.filter(name="Engineer", project=world.project).exists()
    assert not Run.objects.exists()


def test_without_a_terminal_and_options_only_models_are_tested(world: World, shop: Path) -> None:
    said, _ = init()
    assert said.startswith("No model of a provider")
    assert not Workspace.objects.filter(path=str(shop)).exists()


@pytest.mark.usefixtures("live_worker")
def test_a_worker_tries_the_tests_and_a_first_task_runs_to_its_end(
    world: World, server: WireServer, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_steps, "WORKER_S", 60)
    Policy.objects.update(final_review="never")
    script = models.ensure_script("writes_a_file")
    Agent.objects.create(project=world.project, name="Engineer", actor_model=script)
    said, _ = init(*options(server), "--allow", "--tests", "true")
    assert "Tests: passed true" in said
    assert Preflight.objects.get().workspace == Workspace.objects.get(path=str(shop))
    init(*options(server), "--tests", "", "--run", "Write a file", "--watch")
    run = Run.objects.get()
    assert (run.task.goal, run.task.workspace.path) == ("Write a file", str(shop))
    assert run.status == Run.Status.COMPLETED


def test_the_demonstration_has_the_same_agent(db: None, monkeypatch: pytest.MonkeyPatch, server: WireServer) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
    monkeypatch.setenv("AGENTOPS_OPENAI_MODEL", "tiny")
    project: Project = demo.seed()
    assert Agent.objects.get(project=project, name="Engineer").instructions


@pytest.fixture
def packaged(shop: Path) -> Path:
    (shop / "requirements.txt").write_text("six\n")
    return shop


INSTALL = "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt"
HOSTS = ["files.pythonhosted.org", "pypi.org"]


@pytest.mark.spec("J4")
def test_packages_are_installed_where_somebody_answers_for_their_hosts(
    world: World, server: WireServer, packaged: Path
) -> None:
    init(*options(server), "--yes", "--allow")
    row = Workspace.objects.get(path=str(packaged))
    assert (row.setup_command, row.granted_hosts) == (INSTALL, HOSTS)
    assert row.test_command == "python3 -m unittest"
    assert row.setups.get().hosts == HOSTS
    before = kept()
    init(*options(server), "--yes", "--allow")
    assert (kept(), row.setups.count()) == (before, 1), "and nothing twice"


@pytest.mark.spec("J4")
@pytest.mark.parametrize(("named", "hosts"), [([], HOSTS), (["--host", "pkgs.example"], ["pkgs.example"])])
def test_a_set_up_of_ones_own_reaches_the_hosts_that_are_named_else_those_of_the_folder(
    world: World, server: WireServer, packaged: Path, named: list[str], hosts: list[str]
) -> None:
    init(*options(server), "--yes", "--allow", "--setup", "make setup", *named)
    row = Workspace.objects.get(path=str(packaged))
    assert (row.setup_command, row.granted_hosts, row.setups.get().hosts) == ("make setup", hosts, hosts)


@pytest.mark.spec("J4")
def test_else_the_line_that_does_it_is_printed(world: World, server: WireServer, packaged: Path, settings: Any) -> None:
    settings.WORKSPACE_ROOTS = [str(packaged.parent)]
    _, told = init(*options(server), "--yes")
    row = Workspace.objects.get(path=str(packaged))
    assert (row.setup_command, row.granted_hosts, row.test_command) == ("", [], "python3 -m unittest")
    assert f"agentops setup {row.name} --command '{INSTALL}' --host pypi.org --host files.pythonhosted.org" in told
    assert "--run --project invoices" in told


@pytest.mark.spec("J4")
@pytest.mark.parametrize(("answer", "hosts"), [("y", HOSTS), ("", []), ("no", [])])
def test_a_person_at_a_terminal_is_asked(
    world: World, server: WireServer, packaged: Path, settings: Any, typed: Any, answer: str, hosts: list[str]
) -> None:
    settings.WORKSPACE_ROOTS = [str(packaged.parent)]
    typed(answer)
    init(*options(server), "--folder", str(packaged), "--tests", "true")
    assert Workspace.objects.get(path=str(packaged)).granted_hosts == hosts


STATES_ITSELF = """\
[setup]
command = "mkdir .venv && touch .venv/it"
hosts = ["pypi.org"]

[tests]
command = "make check"

[files]
protected = ["LICENSE"]
"""


@pytest.fixture
def stating(shop: Path, settings: Any) -> Path:
    settings.WORKSPACE_ROOTS = [str(shop.parent)]
    (shop / "agentops.toml").write_text(STATES_ITSELF)
    return shop


@pytest.mark.spec("X2")
@pytest.mark.parametrize("more", [(), ("--allow",)])
def test_what_a_repository_states_is_not_taken_by_yes(
    world: World, server: WireServer, stating: Path, more: tuple[str, ...]
) -> None:
    said, _ = init(*options(server), "--yes", *more)
    row = Workspace.objects.get(path=str(stating))
    assert (row.toml_by, row.protected, row.test_command) == (None, [], "python3 -m unittest")
    assert "  Set-up command: mkdir .venv && touch .venv/it\n" in said
    assert f"To use it: agentops toml {row.name} --accept " in said


@pytest.mark.spec("X2")
@pytest.mark.parametrize("answer", ["y", "", "no"])
def test_a_person_at_a_terminal_is_asked_about_what_it_states(
    world: World, server: WireServer, stating: Path, typed: Any, answer: str
) -> None:
    typed(answer)
    said, told = init(*options(server), "--folder", str(stating), "--tests", "true")
    row = Workspace.objects.get(path=str(stating))
    assert (row.toml_by, row.protected) == ((world.root, ["LICENSE"]) if answer == "y" else (None, []))
    assert ("'Tests pass :: make check'" in said) == (answer == "y")
    assert row.granted_hosts == []
    assert ("may not reach pypi.org yet" in told) == (answer == "y")


@pytest.mark.spec("X2")
def test_options_say_yes_to_what_it_states_and_to_its_hosts(world: World, server: WireServer, stating: Path) -> None:
    init(*options(server), "--yes", "--toml", "--allow")
    row = Workspace.objects.get(path=str(stating))
    assert (row.test_command, row.granted_hosts, row.protected) == ("make check", ["pypi.org"], ["LICENSE"])


@pytest.mark.spec("X2")
def test_one_that_cannot_be_used_is_named_and_keeps_nothing_else(
    world: World, server: WireServer, stating: Path
) -> None:
    (stating / "agentops.toml").write_text("[tests]\ncomand = 'x'\n")
    _, told = init(*options(server), "--yes", "--toml")
    assert "Line 2: 'tests.comand' is not a key that it may have" in told
    assert Workspace.objects.get(path=str(stating)).test_command == "python3 -m unittest"


@pytest.mark.parametrize("variable", keys.OF_PROVIDERS)
def test_each_key_leads_to_the_provider_that_takes_it(world: World, variable: str) -> None:
    """Ours where its address is that of the key, else the server of the key as far as it speaks like OpenAI."""
    row = first_set_up.model_from(variable, actor=world.root, model_id="m-1", allow=True).row
    ours = {"ANTHROPIC_API_KEY": "anthropic", "OPENAI_API_KEY": "openai"}
    assert (row.provider, row.api_key_env) == (ours.get(variable, "openai"), variable)
    assert row.base_url.startswith("" if variable in ours else keys.OF_PROVIDERS[variable] + "/")
    assert bool(row.base_url) is (variable not in ours)


def test_no_model_is_made_up_for_a_provider_of_which_none_is_known(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = replace(OURS["openai"], name="other", address="https://api.other.example")
    monkeypatch.setitem(OURS, "other", other)
    monkeypatch.setitem(first_set_up.OF_PROVIDERS, "OTHER_API_KEY", other.address)
    with pytest.raises(Unfit, match="Name one with --model-id"):
        first_set_up.model_from("OTHER_API_KEY", actor=world.root, allow=True)

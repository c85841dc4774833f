"""``agentops init``: three questions, and a set-up that a first task can be submitted to (SPEC S3, T3)."""

from __future__ import annotations

import argparse
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from loops.management.lookup import one, user
from loops.management.orders import wait
from loops.management.repository_files import show
from loops.management.run_follower import RunFollower
from loops.management.set_up import Options, described, tested
from loops.management.setups import follow
from loops.management.terminal import TerminalCommand, program
from loops.models import Agent, Preflight, Project, Workspace
from loops.printable.text import printable
from loops.services import first_set_up, models, preflight, repository_files, setups, tasks
from loops.services.configuration import Unfit
from loops.services.people import NotPossible
from loops.services.steering import NotPossible as NotPossibleNow
from loops.workspaces import copies, detection

NO_MODEL = "No model of a provider: set ANTHROPIC_API_KEY, OPENAI_API_KEY or OPENAI_BASE_URL first."
NOT_YET = "Not every model can be used by an agent yet."
WORKER_S = 20
"""How long a worker may take to begin with the test command."""
ASK_WHAT = "Mend the first failing test"
USE_FILE = "Use what its agentops.toml states? [y/N]"
OUTSIDE = " lies outside the workspace roots"
TO_ALLOW = "With --allow you answer for it, and that is recorded in your name."


@dataclass(frozen=True, slots=True)
class Answers:
    """What the questions are about; "" for what is left out."""

    model: str
    folder: str
    tests: str


def declare(parser: argparse.ArgumentParser) -> None:
    """Each question as an option."""
    parser.add_argument("--model", help="name of the variable with the key, such as ANTHROPIC_API_KEY")
    parser.add_argument("--model-url", help="address of an OpenAI-compatible server, instead of --model")
    parser.add_argument("--model-id", default="", help="the provider's own name of the model")
    parser.add_argument("--folder", help="your repository; runs work on copies of it")
    parser.add_argument("--tests", help="the command that runs its tests")
    parser.add_argument("--setup", help="the command that installs the packages its tests need, once for all runs")
    parser.add_argument("--host", action="append", help="the set-up may reach it, with --allow; once for each")
    parser.add_argument("--toml", action="store_true", help="use what the folder's agentops.toml states now")
    parser.add_argument("--project", default="demo", help="slug or id (default: %(default)s)")
    parser.add_argument(
        "--allow",
        action="store_true",
        help="answer for the folder, the address and the hosts of packages, in your name",
    )
    parser.add_argument("--yes", action="store_true", help="ask nothing: take what is found; allow what --allow does")
    parser.add_argument("--run", metavar="GOAL", default="", help="submit this as a first task")
    parser.add_argument("--watch", action="store_true", help="with --run: follow it to its end")


def do(command: TerminalCommand, options: Options) -> None:
    """Ask, set up, and say what to type next."""
    given = [options[name] for name in ("model", "model_url", "folder", "tests")]
    if not (sys.stdin.isatty() or options["yes"] or options["run"] or any(answer is not None for answer in given)):
        _test_models(command, options)
        return
    answers = _answers(options)
    actor = user(options["actor"])
    project: Project = one(Project.objects.visible_to(actor), "project", options["project"], "slug")
    agent, works = _agent(command, actor, project, answers.model, options)
    workspace = _workspace(command, actor, project, answers.folder, options)
    if workspace is not None:
        answers = _by_its_file(command, actor, workspace, answers, options)
        _install(command, actor, workspace, answers, options)
    if answers.tests and workspace is not None:
        _try(command, actor, agent, workspace, answers.tests)
    criterion = {"text": "Tests pass", "command": answers.tests} if answers.tests else None
    command.stdout.write("Next:")
    command.stdout.write(f"  {_line(options, agent, workspace, criterion)}")
    if not works:
        raise CommandError(NOT_YET)
    if options["run"]:
        run = tasks.submit_task(
            actor=actor,
            project=project,
            agent=agent,
            workspace=workspace,
            goal=options["run"],
            criteria=[criterion] if criterion else [],
        ).run
        command.stdout.write(str(run.pk))
        if options["watch"]:
            RunFollower(run, actor, command.stdout, as_json=False).follow()


def _test_models(command: TerminalCommand, options: Options) -> None:
    """For scripts that say nothing: the models that the environment names, each tested."""
    rows = [row for row in models.ensure_default_models() if not row.is_scripted]
    if not rows:
        command.stdout.write(NO_MODEL)
    works = [tested(command, row, options["actor"]) for row in rows]
    if not all(works):
        raise CommandError(NOT_YET)


def _asks(options: Options) -> bool:
    """Is there a person at the terminal who has not said that nothing is to be asked?"""
    return sys.stdin.isatty() and not options["yes"]


def _answers(options: Options) -> Answers:
    """From the options, else from the person, else from what is found."""
    asks = _asks(options)
    here = str(Path.cwd()) if (Path.cwd() / ".git").exists() else ""
    model = options["model_url"] or options["model"]
    if model is None:
        suggested = first_set_up.suggested_source() or first_set_up.known_source()
        model = _ask("Model: name of the variable with its key, or address of its server", suggested, asks=asks)
    folder = options["folder"]
    if folder is None:
        folder = _ask("Folder of your repository", here, asks=asks)
    folder = str(Path(folder).expanduser().resolve()) if folder else ""
    tests = options["tests"]
    if tests is None:
        found = detection.look(folder) if folder else detection.Found()
        why = f" ({found.why} suggests one)" if found.why else ""
        tests = _ask(f"Command that runs its tests{why}", found.tests, asks=asks) if folder else ""
    return Answers(model.strip(), folder, tests.strip())


def _ask(question: str, default: str, *, asks: bool) -> str:
    if not asks:
        return default
    try:
        answer = input(printable(f"{question}{f' [{default}]' if default else ''}: ")).strip()
    except EOFError:
        raise CommandError("Nothing was set up.") from None
    return answer or default


def _agent(command: TerminalCommand, actor: Any, project: Project, source: str, options: Options) -> tuple[Agent, bool]:
    """The agent, and whether its model can be worked with."""
    if not source:
        raise CommandError(f"{NO_MODEL} Or name the server: {program()} init --model-url URL")
    try:
        model = first_set_up.model_from(source, actor=actor, model_id=options["model_id"], allow=options["allow"])
    except Unfit as error:
        raise _refusal(error) from error
    command.stdout.write(f"Model {_state(model)}")
    works = tested(command, model.row, options["actor"])
    agent = first_set_up.engineer(actor=actor, project=project, model=model.row)
    asked = agent.row.actor_model
    command.stdout.write(f"Agent {_state(agent)}: {agent.row.name}, with the model {asked.name}")
    if asked != model.row:
        change = f"{program()} agent set {agent.row.name} --model {model.row.name}"
        command.stderr.write(f"It stays with its model. To change that: {change}{_in(options)}")
    return agent.row, works


def _workspace(
    command: TerminalCommand, actor: Any, project: Project, folder: str, options: Options
) -> Workspace | None:
    allow = options["allow"]
    if not folder:
        later = f"{program()} workspace NAME FOLDER"
        command.stdout.write(f"No workspace: tasks begin in an empty folder. {later} makes one.")
        return None
    if fault := copies.why_missing(folder):
        raise CommandError(f"{fault}. Name a folder that is there: --folder FOLDER")
    try:
        workspace = first_set_up.workspace_of(Path(folder), actor=actor, project=project, allow=allow)
    except Unfit as error:
        if allow or not _asks(options) or not _agrees(error):
            raise _refusal(error) from error
        workspace = first_set_up.workspace_of(Path(folder), actor=actor, project=project, allow=True)
    command.stdout.write(f"Workspace {_state(workspace)}: {described(workspace.row)}")
    if obstacle := copies.why_unusable(workspace.row):
        command.stderr.write(obstacle)
    return workspace.row


def _by_its_file(command: TerminalCommand, actor: Any, row: Workspace, answers: Answers, options: Options) -> Answers:
    """With the test command of the folder's `agentops.toml`, where somebody says that it is to be used: silence and
    ``--yes`` do not."""
    standing = repository_files.look(row)
    if standing.fault:
        command.stderr.write(printable(standing.said))
    if not standing.is_open or standing.found is None:
        return answers
    show(command, standing)
    if not (options["toml"] or (_asks(options) and _says_yes(USE_FILE))):
        return answers
    sha256, allow = standing.found.sha256, options["allow"] and bool(standing.found.hosts)
    try:
        for line in repository_files.accept(actor=actor, workspace=row, sha256=sha256, allow=allow):
            command.stderr.write(printable(line))
    except NotPossible as error:
        command.stderr.write(printable(str(error)))
    row.refresh_from_db()
    return replace(answers, tests=row.test_command or answers.tests)


def _install(command: TerminalCommand, actor: Any, row: Workspace, answers: Answers, options: Options) -> None:
    """State how the folder is tested, and install the packages that it names where somebody answers for their hosts.
    What was stated before stays."""
    found = detection.look(answers.folder)
    line = found.setup if options["setup"] is None else options["setup"]
    hosts = list(found.hosts) if options["host"] is None else options["host"]
    tests = row.test_command or answers.tests
    if row.setup_command or not line:
        setups.state(actor=actor, workspace=row, stated=setups.Stated(tests=tests))
        return
    words = ["setup", row.name, "--command", line, *(word for host in hosts for word in ("--host", host))]
    later = f"{program()} {shlex.join([*words, '--run'])}{_in(options)}"
    question = f"Install its packages ({line}), reaching {', '.join(hosts)} and no other host? [y/N]"
    if hosts and not (options["allow"] or (_asks(options) and _says_yes(question))):
        setups.state(actor=actor, workspace=row, stated=setups.Stated(tests=tests))
        command.stderr.write(f"The packages that it names are not installed. To do that: {later}")
        return
    try:
        setups.state(actor=actor, workspace=row, stated=setups.Stated(line, tests, hosts=hosts))
        follow(command, setups.run(actor=actor, workspace=row), WORKER_S)
    except (NotPossible, CommandError) as error:
        command.stderr.write(f"The set-up: {error} Try it again: {later}")


def _says_yes(question: str) -> bool:
    return _ask(question, "", asks=True).lower() in ("y", "yes")


def _agrees(error: Unfit) -> bool:
    """Does the person at the terminal answer for the folder? What nobody can allow is not asked."""
    place, outside, _ = error.errors.get("path", "").partition(OUTSIDE)
    if not outside:
        return False
    return _says_yes(f"Let agents read {place} and work on copies of it? [y/N]")


def _refusal(error: Unfit) -> CommandError:
    """With what a person can do about it, where they can."""
    can_allow = "allow" in error.errors or OUTSIDE in error.errors.get("path", "")
    return CommandError(" ".join([*error.errors.values(), *([TO_ALLOW] if can_allow else [])]))


def _try(command: TerminalCommand, actor: Any, agent: Agent, workspace: Workspace, tests: str) -> None:
    """Once, by a worker. What keeps that from happening keeps nothing else."""
    later = f"Try it later: {program()} try --agent {agent.name} --workspace {workspace.name} {shlex.quote(tests)}"
    criteria = [{"text": tests, "command": tests}]
    try:
        asked = preflight.ask(actor=actor, project=agent.project, agent=agent, workspace=workspace, criteria=criteria)
    except (NotPossible, NotPossibleNow) as error:
        command.stderr.write(f"The test command was not tried: {error} {later}")
        return
    wait(asked, WORKER_S, for_its_begin=True)
    if asked.state == Preflight.State.WAITING:
        command.stderr.write(f"The test command was not tried: no worker took it in {WORKER_S} s. {later}")
        return
    wait(asked, (asked.until - asked.asked_at).total_seconds())
    for tried in asked.results:
        command.stdout.write(f"Tests: {tried['status']} {tried['command']}: {tried['said']}")


def _state(made: first_set_up.Made) -> str:
    return "made" if made.is_new else "there already"


def _in(options: Options) -> str:
    return "" if options["project"] == "demo" else f" --project {shlex.quote(options['project'])}"


def _line(options: Options, agent: Agent, workspace: Workspace | None, criterion: dict[str, str] | None) -> str:
    """What submits a first task."""
    words = ["submit", options["run"] or ASK_WHAT, "--agent", agent.name]
    words += ["--workspace", workspace.name] if workspace else []
    words += ["--criterion", f"{criterion['text']} :: {criterion['command']}"] if criterion else []
    return f"{program()} {shlex.join(words)}{_in(options)} --watch"

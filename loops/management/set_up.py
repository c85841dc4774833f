"""Verbs for what Admin sets up: workspaces, agents, models, access rules, policies, tokens (SPEC S1, S3, T3)."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError
from django.db import models as fields

from loops.api import configuration_shapes as shapes
from loops.api.outputs import AgentOutput
from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.llm.endpoints import keys
from loops.management.lookup import one, user
from loops.management.orders import PAUSE_S
from loops.management.setups import WORKER_S, follow
from loops.management.terminal import TerminalCommand
from loops.models import AccessRule, Agent, ModelConfig, Policy, Project, Workspace
from loops.services import model_tests, setups, tokens
from loops.services.access import NotAllowed
from loops.services.access_rules import ACCESS_RULES
from loops.services.agents import AGENTS
from loops.services.configuration import SAY_WHY, Kind
from loops.services.model_configs import MODELS
from loops.services.people import NotPossible
from loops.services.policy_settings import POLICIES
from loops.workspaces import copies
from loops.workspaces.configured import FETCHED, WORKSPACES

Options = dict[str, Any]
Declare = Callable[[argparse.ArgumentParser], None]
Do = Callable[[TerminalCommand, Options], None]


@dataclass(frozen=True, slots=True)
class Verb:
    """A word of the command line: what it is for, what it takes, what it does."""

    help: str
    declare: Declare
    do: Do


@dataclass(frozen=True, slots=True)
class Rows:
    """One kind of rows on the command line. ``options`` leads from an option to the field that it fills in."""

    kind: Kind
    what: str
    options: Mapping[str, str]
    output: Any
    shown: Callable[[Any], str]
    name: str = "name"
    """The field by which people name one."""
    of_project: bool = True
    related: tuple[str, ...] = ()
    """Rows that are shown beside each."""

    def declare(self, parser: argparse.ArgumentParser) -> None:
        """Its actions, each with its options."""
        actions = parser.add_subparsers(dest="action", required=True, parser_class=argparse.ArgumentParser)
        listed = actions.add_parser("list", help="list them")
        listed.add_argument("--json", action="store_true", help="one JSON line each, as the API gives it")
        parsers = [listed]
        for action in ("make", "set", "delete") if self.what != "policy" else ("set",):
            parsers.append(actions.add_parser(action, help=f"{action} one"))
            if not (self.what == "policy" or (self.what == "rule" and action == "make")):
                parsers[-1].add_argument("name", help="id" if self.what == "rule" else "name or id")
            if action != "delete":
                self._declare_fields(parsers[-1])
        for each in parsers if self.of_project else ():
            each.add_argument("--project", default="demo", help="slug or id (default: %(default)s)")

    def _declare_fields(self, parser: argparse.ArgumentParser) -> None:
        for option, name in self.options.items():
            field = self.kind.model._meta.get_field(name)
            more: dict[str, Any] = {"metavar": "VALUE"}
            if isinstance(field, fields.BooleanField):
                more = {"choices": ("yes", "no")}
            elif name == "paths":
                more = {"action": "append", "metavar": "GLOB"}
            elif name == "task_limits":
                more = {"action": "append", "nargs": 2, "metavar": ("NAME", "AMOUNT")}
            help_text = str(getattr(field, "help_text", "")).replace("%", "%%")
            parser.add_argument(f"--{option}", dest=f"field_{name}", help=help_text or None, **more)
        parser.add_argument("--reason", default="", help=SAY_WHY)
        if not self.of_project:
            parser.add_argument("--allow", action="store_true", help="the key may go to this address, in your name")

    def do(self, command: TerminalCommand, options: Options) -> None:
        """List them, or make, change or delete one."""
        actor, action = user(options["actor"]), options["action"]
        project = _project(actor, options) if self.of_project else None
        rows = self.kind.model._default_manager.select_related(*(self.related or (None,)))
        rows = rows.filter(project=project) if project else rows
        if action == "list":
            for row in rows:
                command.stdout.write(
                    json.dumps(self.output(row).data, default=str) if options["json"] else self.shown(row)
                )
            return
        if action == "delete":
            self.kind.delete(actor=actor, row=self._named(rows, options))
            command.stdout.write(f"Deleted: {options['name']}")
            return
        how = {"reason": options["reason"], "allow": options.get("allow", False)}
        given = self._given(options)
        if action == "make":
            named = {} if self.what == "rule" else {self.name: options["name"]}
            row = self.kind.make(actor=actor, project=project, given={**named, **given}, **how)
        else:
            row = self.kind.change(actor=actor, row=self._named(rows, options), given=given, **how)
        command.stdout.write(self.shown(row))

    def _named(self, rows: Any, options: Options) -> Any:
        return rows.get() if self.what == "policy" else one(rows, self.what, options["name"], self.name)

    def _given(self, options: Options) -> dict[str, Any]:
        found = {}
        for name in self.options.values():
            if (value := options.get(f"field_{name}")) is not None:
                found[name] = _read(self.kind.model._meta.get_field(name), value)
        return found


def _read(field: Any, value: Any) -> Any:
    """What was typed for a field; "" takes away what may be missing. Numbers and choices are read by the service."""
    if isinstance(field, fields.BooleanField):
        return value == "yes"
    if field.name == "task_limits":
        return {name: _number(amount) for name, amount in value}
    if value == "" and field.null:
        return None
    if isinstance(field, fields.ForeignKey):
        return one(ModelConfig.objects.all(), "model", value, "name")
    return sys.stdin.read() if value == "-" and field.name == "instructions" else value


def _number(text: str) -> Any:
    """An amount, or what was typed: the service says what is wrong with it."""
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def _project(actor: Any, options: Options) -> Project:
    found: Project = one(Project.objects.visible_to(actor), "project", options["project"], "slug")
    return found


def _agent(row: Agent) -> str:
    models = ", then ".join(model.name for model in row.actor_model.chain())
    return f"{row.name}: {row.agent_type}, {row.execution_loop}, {models}{'' if row.is_active else ', not active'}"


def _model(row: ModelConfig) -> str:
    where = f" at {row.base_url}" if row.base_url else ""
    return (
        f"{row.name}: {row.provider}, {row.model_id}{where}{f', key in {row.api_key_env}' if row.api_key_env else ''}"
    )


def _rule(row: AccessRule) -> str:
    where = f" on {' '.join(row.paths)}" if row.paths else ""
    return f"{row.pk}  {row}{where}{f'  ({row.note})' if row.note else ''}"


def _policy(row: Policy) -> str:
    named = {
        field.name: getattr(row, field.name) for field in Policy._meta.fields if field.name not in ("id", "project")
    }
    return "\n".join(f"{name}: {value}" for name, value in named.items())


def _fields_of(model: Any, *left_out: str) -> dict[str, str]:
    """An option for each field that people fill in."""
    names = [field.name for field in model._meta.fields if field.editable and field.name not in ("project", *left_out)]
    return {name.replace("_", "-"): name for name in names}


OF_AGENT = {"type": "agent_type", "loop": "execution_loop", "model": "actor_model", "active": "is_active"}
OF_MODEL = {"url": "base_url", "key": "api_key_env"}
AGENT = Rows(
    AGENTS,
    "agent",
    OF_AGENT | _fields_of(Agent, "name", *OF_AGENT.values()),
    AgentOutput,
    _agent,
    related=("actor_model__fallback__fallback", *(f"{role}_model" for role in Agent.MODEL_ROLES)),
)
MODEL = Rows(
    MODELS,
    "model",
    OF_MODEL | _fields_of(ModelConfig, "name", *OF_MODEL.values()),
    shapes.ModelSettings,
    _model,
    of_project=False,
    related=("fallback",),
)
RULE = Rows(
    ACCESS_RULES,
    "rule",
    {"path": "paths"} | _fields_of(AccessRule, "paths"),
    shapes.AccessRuleOutput,
    _rule,
    name="pk",
)
POLICY = Rows(
    POLICIES, "policy", {"limit": "task_limits"} | _fields_of(Policy, "task_limits"), shapes.PolicyOutput, _policy
)


def declare_workspace(parser: argparse.ArgumentParser) -> None:
    """``NAME FOLDER`` makes one, as does ``make NAME FOLDER``."""
    parser.usage = (
        "%(prog)s [list | [make] NAME FOLDER | NAME --git URL | set NAME [FOLDER] | fetch NAME | delete NAME] [options]"
    )
    parser.add_argument("words", nargs="*", metavar="WORD", help="without any, all are listed")
    parser.add_argument("--project", default="demo", help="slug or id (default: %(default)s)")
    parser.add_argument("--git", metavar="URL", help="instead of a folder: a repository on a server. Superusers only")
    parser.add_argument("--ref", help="its branch, tag or commit; with a folder: of the repository there")
    parser.add_argument("--token-env", metavar="NAME", help="variable of the worker that holds a token for it")
    parser.add_argument("--push-token-env", metavar="NAME", help="the same of one that may write: results are pushed")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--in-place", action="store_true", help="let runs change the folder itself, not copies of it")
    how.add_argument("--copies", action="store_true", help="let each run work on a copy of it, as at first")
    for field, limit in COMMAND_LIMITS.items():
        option = f"--{field.replace('_', '-')}"
        what = f"{limit.form_label}; '' for the project's"
        parser.add_argument(option, dest=f"field_{field}", metavar="VALUE", help=what)
    parser.add_argument("--allow", action="store_true", help="open a folder outside the roots to agents, in your name")
    parser.add_argument("--json", action="store_true", help="list them as JSON, one line each, as the API gives it")


def workspace(command: TerminalCommand, options: Options) -> None:
    """List workspaces, or make, change or delete one."""
    actor = user(options["actor"])
    project = _project(actor, options)
    rows = Workspace.objects.filter(project=project).select_related("project", "allowed_by")
    action, name, folder = _asked(options["words"], has_source=bool(options["git"]))
    if action == "list":
        for row in rows:
            output = json.dumps(shapes.WorkspaceOutput(row).data, default=str) if options["json"] else described(row)
            command.stdout.write(output)
        return
    if action == "delete":
        WORKSPACES.delete(actor=actor, row=one(rows, "workspace", name, "name"))
        command.stdout.write(f"Deleted: {name}")
        return
    if action == "fetch":
        follow(command, setups.fetch(actor=actor, workspace=one(rows, "workspace", name, "name")))
        return
    given = _stated(options, folder)
    if action == "set":
        row = one(rows, "workspace", name, "name")
        row = WORKSPACES.change(actor=actor, row=row, given=given, allow=options["allow"])
    else:
        row = WORKSPACES.make(actor=actor, project=project, given={"name": name, **given}, allow=options["allow"])
    command.stdout.write(described(row))
    if row.is_fetched and FETCHED & set(given):
        command.stdout.write(f"A worker fetches it; agentops setup {row.name} says what came of that.")
    if obstacle := copies.why_unusable(row) or copies.why_missing(row.path):
        command.stderr.write(obstacle)


def _stated(options: Options, folder: str) -> dict[str, Any]:
    """What the words say of a workspace, by field."""
    stated = {
        "path": str(Path(folder).expanduser().resolve()) if folder else None,
        "git_url": options["git"],
        "git_ref": options["ref"],
        "git_token_env": options["token_env"],
        "git_push_token_env": options["push_token_env"],
        "copy_for_each_run": options["copies"] if options["in_place"] or options["copies"] else None,
    }
    given = {field: value for field, value in stated.items() if value is not None}
    limits = {field: options[f"field_{field}"] for field in COMMAND_LIMITS}
    return given | {field: value.strip() or None for field, value in limits.items() if value is not None}


def _asked(words: list[str], *, has_source: bool = False) -> tuple[str, str, str]:
    """Action, name and folder."""
    actions = ("list", "make", "set", "fetch", "delete")
    action, rest = (words[0], words[1:]) if words and words[0] in actions else ("make" if words else "list", words)
    name, folder = [*rest, "", ""][:2]
    if len(rest) > (0 if action == "list" else 1 if action in ("fetch", "delete") else 2):
        raise CommandError(f"Too many words: {' '.join(rest)}. A name or a folder with spaces goes in quotes.")
    if action != "list" and not name:
        raise CommandError(f"Which one? agentops workspace {action} NAME")
    if action == "make" and not folder and not has_source:
        raise CommandError(f"Which folder? agentops workspace {name} FOLDER")
    return action, name, folder


def described(row: Workspace) -> str:
    """A workspace in one line."""
    how = "runs work on copies of it" if row.copy_for_each_run else "runs change it in place"
    source = f"{row.source} at {row.git_ref or 'its own branch'}" if row.is_fetched else row.path
    return f"{row.name}: {f'{source}, {how}' if source else 'an empty folder for each run'}"


def declare_test(parser: argparse.ArgumentParser) -> None:
    """One model."""
    parser.add_argument("name", help="of the configured model")


def test_model(command: TerminalCommand, options: Options) -> None:
    """One call with a tool."""
    row = one(ModelConfig.objects.all(), "model", options["name"], "name")
    if not tested(command, row, options["actor"]):
        raise CommandError("An agent cannot work with it yet.")


def tested(command: TerminalCommand, row: ModelConfig, actor: str) -> bool:
    """Test a model, and print what came of it: here, or by a worker where this shell does not have its key."""
    command.stdout.write(f"{row.name} ({row.model_id}{f' at {row.base_url}' if row.base_url else ''})")
    tried = _tested_by_a_worker(command, row, actor) or model_tests.try_model(row)
    for line in tried.lines:
        command.stdout.write(f"  {line}")
    return tried.works


def _tested_by_a_worker(command: TerminalCommand, row: ModelConfig, actor: str) -> model_tests.Tried | None:
    """None where the key is here, no worker may be asked, or none says anything in time."""
    if not row.api_key_env or keys.is_set(row.api_key_env, os.environ):
        return None
    try:
        model_tests.order_test(actor=user(actor), row=row)
    except (CommandError, NotAllowed, NotPossible):
        return None
    command.stdout.write(f"  This shell has no {row.api_key_env}: a worker tests the model ...")
    deadline = time.monotonic() + WORKER_S
    while time.monotonic() < deadline:
        row.refresh_from_db()
        if (tried := model_tests.outcome(row)) is not None:
            return tried
        time.sleep(PAUSE_S)
    return None


def declare_token(parser: argparse.ArgumentParser) -> None:
    """Of one person."""
    parser.add_argument("username")
    parser.add_argument("--name", default="", help="what it is for; one of the same name ends")
    parser.add_argument("--days", type=int, default=tokens.DAYS, help="how long it works (default: %(default)s)")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="those that work")
    what.add_argument("--end", type=uuid.UUID, metavar="ID", help="end one at once")


def token(command: TerminalCommand, options: Options) -> None:
    """Make one, list them, or end one."""
    person = user(options["username"])
    if options["list"]:
        for row in tokens.tokens_of(person):
            used = f"{row.last_used_at:%Y-%m-%d %H:%M}" if row.last_used_at else "never"
            command.stdout.write(f"{row.pk}  until {row.expires_at:%Y-%m-%d}  last used {used}  {row.name}")
    elif options["end"]:
        if not tokens.end_token(actor=None, user=person, token_id=options["end"]):
            raise CommandError(f"{person} has no such token.")
    else:
        new = tokens.new_token(actor=None, user=person, name=options["name"], days=options["days"])
        command.stdout.write(new[0])


VERBS = {
    "workspace": Verb(
        "let agents work on a folder of yours; list, change or delete those", declare_workspace, workspace
    ),
    "agent": Verb("list, make, change or delete agents", AGENT.declare, AGENT.do),
    "model": Verb("list, make, change or delete models", MODEL.declare, MODEL.do),
    "rule": Verb("list, make, change or delete access rules: who may use which tool", RULE.declare, RULE.do),
    "policy": Verb("list or change the limits and gates of a project", POLICY.declare, POLICY.do),
    "test-model": Verb("make one call with a tool, and say what the model can do", declare_test, test_model),
    "token": Verb("make an API token, list those that work, or end one", declare_token, token),
}

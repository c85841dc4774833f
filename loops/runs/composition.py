"""Build the engine's ports from Django's world: the only place that knows every part (architecture#layers)."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from loops.agents import packages
from loops.driver import idempotency_key
from loops.engine import ports as p
from loops.engine import strategies
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.packages import Broken
from loops.engine.state.command_limits import COMMAND_LIMITS, CommandLimits
from loops.engine.state.remark import Remark
from loops.engine.values import Access, Compensation, Json, ToolCall, ToolResult, ToolSpec
from loops.llm import providers
from loops.models import Run, ToolCallRecord
from loops.orchestrator import Orchestrator
from loops.storage import audit_rows, blobs, journal
from loops.storage.feed import Publisher
from loops.tools.alternatives import specialist_for
from loops.tools.gateway import ToolGateway
from loops.tools.limits import Limits, within
from loops.tools.policy import AccessRule
from loops.tools.registry import ToolRegistry
from loops.tools.sandbox.capability import SandboxLevel, probe
from loops.tools.seals import Seal
from loops.tools.workspace_roots import Folders, Roots, lies_in, plain, why_nested

log = logging.getLogger(__name__)
LONGEST_SHOWN = 60
CHECKOUT = "checkout-"
"""How the folder begins, before the name of the run, in which its criteria are measured."""
RULES_FRESH_S = 2.0
"""A change of the matrix, or of what commands may use, holds for every call judged this much later, in runs under way
too."""


@cache
def tool_registry() -> ToolRegistry:
    """All tools there are: built in, and from installed packages."""
    from loops.tools.builtin import builtin_registry

    registry = builtin_registry()
    registry.load_entry_points()
    return registry


def broken_packages() -> tuple[Broken, ...]:
    """Tools, execution loops, providers and agents that installed packages should have brought."""
    return (*tool_registry().broken, *strategies.broken(), *providers.broken(), *packages.broken())


def run_folders() -> str:
    """Where the folders of all runs lie."""
    return str(getattr(settings, "AGENTOPS_WORKSPACES", None) or settings.PATHS.state / "workspaces")


def command_records() -> str:
    """Where it is kept what stood in workspaces before the commands that run on this machine."""
    return str(settings.PATHS.state / "commands")


def roots() -> Roots:
    """Where the folders of workspaces may lie, as this installation says."""
    runs, state = run_folders(), str(settings.PATHS.state)
    ours = [
        (state, "the state folder of this installation"),
        (runs, "the folders of runs"),
        (str(settings.BASE_DIR), "AgentOps itself"),
        (sys.prefix, "the Python of AgentOps"),
    ]
    return Roots(settings.WORKSPACE_ROOTS, (f"{state}/demo",), ours, runs)


ONLY_A_SUPERUSER = "a superuser can allow it in Admin > Workspaces"


def why_folder_refused(slug: str, path: str, *, in_place: bool, allowed: bool) -> str:
    """Why agents of the project ``slug`` may not work in the folder ``path``, or in a copy of it; "" when they may.

    ``allowed`` says that a superuser opened it to the project. Asked where a task names the folder, and again wherever
    a worker or a page is about to use it.
    """
    places, path = roots(), plain(path)
    if said := places.why_forbidden(path):
        return said
    if not allowed and not places.covers(path, slug, in_place=in_place):
        return f"{shortened(path)} lies outside the workspace roots; {ONLY_A_SUPERUSER}"
    return places.why_unreachable(path)


def shortened(path: str) -> str:
    """Its end is what people know it by."""
    return path if len(path) <= LONGEST_SHOWN else f"…{path[-LONGEST_SHOWN:]}"


def sandbox_level() -> SandboxLevel:
    """What this machine's sandbox really holds now, found by trying; kept while nothing changes."""
    return probe()


@cache
def publisher() -> Publisher:
    return Publisher()


def gatekeeper() -> p.Gatekeeper:
    """The gates app at run time: the one dependency of loops on gates, by dotted path (architecture#layers)."""
    path = getattr(settings, "AGENTOPS_GATEKEEPER", "gates.gatekeeper.SqlGatekeeper")
    keeper: p.Gatekeeper = import_string(path)()
    return keeper


class SystemClock:
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


ReadRules = Callable[[], tuple[tuple[AccessRule, ...], Limits]]
Audit = Callable[[Mapping[str, Json]], None]
Refused = Callable[[str], str]
ReadVariables = Callable[[], Mapping[str, str]]


class LiveTools:
    """Port Tools with the project's access rules and limits of commands, and the workspace's variables, as they are
    now, re-read every ``RULES_FRESH_S`` seconds. Every call gets the variables here, whoever describes it: an approval
    binds them."""

    def __init__(  # noqa: PLR0913  # wired in two places
        self,
        agent_type: str,
        read_rules: ReadRules,
        audit: Audit,
        stored: blobs.Stored,
        save_blob: Callable[[bytes], str],
        refused: Refused = lambda path: "",
        read_variables: ReadVariables = dict,
    ) -> None:
        self._agent_type, self._read_rules, self._audit = agent_type, read_rules, audit
        self._refused, self._read_variables = refused, read_variables
        self._stored, self._save_blob = stored, save_blob
        self._read_at = 0.0
        self._rules: tuple[AccessRule, ...] | None = None
        self._variables: Mapping[str, str] = {}
        self._level: SandboxLevel | None = None
        self._service = self._fresh()

    def specs(self) -> Sequence[ToolSpec]:
        return self._service.specs()

    async def judge(self, call: ToolCall, context: p.CallContext) -> p.Judgement:
        return await self._fresh().judge(call, self._with_variables(context))

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        return await self._service.execute(call, self._with_variables(context), on_output)

    async def look(self, call: ToolCall, context: p.CallContext) -> Mapping[str, Json]:
        return await self._service.look(call, self._with_variables(context))

    def obeyed(self, context: p.CallContext) -> str:
        return self._service.obeyed(self._with_variables(context))

    def stands(self, context: p.CallContext) -> Mapping[str, Json]:
        return self._service.stands(context)

    async def verify(self, call: ToolCall, context: p.CallContext) -> p.Verified:
        return await self._service.verify(call, self._with_variables(context))

    async def plan_undo(self, call: ToolCall, context: p.CallContext) -> Compensation | None:
        return await self._service.plan_undo(call, self._with_variables(context))

    def access_of(self, call: ToolCall, context: p.CallContext, agent_type: str) -> Access:
        """See ``ToolGateway.access_of``."""
        return self._fresh().access_of(call, self._with_variables(context), agent_type)

    def snapshot(self, context: p.CallContext) -> str:
        """Keep the workspace as it is (SPEC O3); see ``ToolGateway.snapshot``."""
        return self._service.snapshot(self._with_variables(context))

    def seal(self, context: p.CallContext, start: str, leftovers: Set[str]) -> Seal:
        """See ``ToolGateway.seal``."""
        return self._service.seal(context, start, leftovers)

    async def learn_undo(self, call: ToolCall, context: p.CallContext, planned: Compensation) -> Compensation | None:
        return await self._service.learn_undo(call, self._with_variables(context), planned)

    def changed_otherwise(self, context: p.CallContext, start: str, recorded: Mapping[str, str]) -> Compensation | None:
        return self._service.changed_otherwise(context, start, recorded)

    async def remarks(
        self, context: p.CallContext, changes: Mapping[str, tuple[str, str]], goal: str
    ) -> tuple[Remark, ...]:
        return await self._service.remarks(context, changes, goal)

    def _with_variables(self, context: p.CallContext) -> p.CallContext:
        return replace(context, environment=self._variables)

    def _fresh(self) -> ToolGateway:
        if time.monotonic() - self._read_at < RULES_FRESH_S:
            return self._service
        (rules, limits), level = self._read_rules(), sandbox_level()
        self._variables = self._read_variables()
        self._read_at = time.monotonic()
        if (rules, level) != (self._rules, self._level):
            self._rules, self._level = rules, level
            self._service = ToolGateway(
                tool_registry(),
                rules,
                sha256([to_plain(rule) for rule in rules])[:16],
                level,
                save_blob=self._save_blob,
                agent_type=self._agent_type,
                on_audit=self._audit,
                read_blob=self._stored.read,
                stored_blobs=self._stored.among,
                folders=Folders(run_folders(), self._refused, command_records()),
            )
        self._service.limits = limits
        return self._service


_RULES = (
    "SELECT access, agent_type, tool, operation, paths, note FROM loops_accessrule WHERE project_id = %s ORDER BY id"
)
_LIMITS = (
    "SELECT w.protected, "  # noqa: S608
    f"{', '.join(f'{row}.{name}' for row in 'pw' for name in COMMAND_LIMITS)} "  # names of ours
    "FROM loops_policy p LEFT JOIN loops_workspace w ON w.id = "
    "COALESCE(%(workspace)s::uuid, (SELECT workspace_id FROM loops_task WHERE id = %(task)s)) "
    "WHERE p.project_id = %(project)s"
)
_COLLEAGUES = "SELECT name, agent_type FROM loops_agent WHERE project_id = %s AND id <> %s AND is_active ORDER BY name"
_VARIABLES = (
    "SELECT w.variables FROM loops_task t JOIN loops_workspace w ON w.id = t.workspace_id "
    "WHERE t.id = %s AND w.variables <> '{}'"
)
_IN_PLACE = (
    "SELECT name, path, NOT copy_for_each_run, "
    "allowed_path = %(path)s AND allowed_in_place AND allowed_by_id IS NOT NULL FROM loops_workspace "
    "WHERE project_id = %(project)s AND (NOT copy_for_each_run OR allowed_path = %(path)s) ORDER BY name"
)


def tools_of(run: Run, connection: Any, save_blob: Callable[[bytes], str] | None = None) -> LiveTools:
    """The TAS of one run on one plain connection: no ORM, since it works inside an event loop.

    ``save_blob`` keeps bytes for later where they are to be stored together with a fact.
    """

    def audit(event: Mapping[str, Json]) -> None:
        """Refusals, and what a command planted, get an audit row; what ran, and why, is in the journal already."""
        planted = event.get("restored") or event.get("taken")
        kind = "tool.denied" if event.get("access") == "deny" else "tool.planted" if planted else ""
        if kind:
            audit_rows.insert(connection, kind, project=run.project_id, run=run.pk, detail=event, cut=2000)

    stored, refused = blobs.Stored(connection), refusing(run, connection)
    rules = rules_of(run.project_id, connection, run.task_id)
    variables = variables_of(run.task_id, connection)
    return LiveTools(run.agent.agent_type, rules, audit, stored, save_blob or stored.save, refused, variables)


def variables_of(task_id: str, connection: Any) -> ReadVariables:
    """The variables of a task's workspace, read whenever they are asked for."""

    def read_variables() -> Mapping[str, str]:
        found = connection.execute(_VARIABLES, [task_id]).fetchone()
        return dict(journal.from_jsonb(found[0])) if found else {}

    return read_variables


def rules_of(project_id: str, connection: Any, task_id: str = "", workspace_id: uuid.UUID | None = None) -> ReadRules:
    """The access matrix of a project, what commands may use in a workspace of it, and what that protects, read whenever
    they are asked for. The workspace is the one of a task, or named."""
    asked = {"project": project_id, "task": task_id, "workspace": workspace_id}

    def read_rules() -> tuple[tuple[AccessRule, ...], Limits]:
        rows = connection.execute(_RULES, [project_id]).fetchall()
        rules = tuple(
            AccessRule(Access(access), agent_type, tool, operation, tuple(journal.from_jsonb(paths)), note=note)
            for access, agent_type, tool, operation, paths, note in rows
        )
        given = connection.execute(_LIMITS, asked).fetchone()
        if given is None:
            return rules, Limits()
        stated, of_project, own = given[0], given[1 : 1 + len(COMMAND_LIMITS)], given[1 + len(COMMAND_LIMITS) :]
        holds = CommandLimits(*of_project).with_those_of(dict(zip(COMMAND_LIMITS, own, strict=True)))
        return rules, replace(within(holds), stated=tuple(journal.from_jsonb(stated) or ()))

    return read_rules


def refusing(run: Run, connection: Any) -> Refused:
    """Why the run may not use the folder at a path. Its own, which AgentOps made, costs no question."""
    project, runs, checkout = run.project, run_folders(), f"{CHECKOUT}{run.pk}-"

    def refused(path: str) -> str:
        name = Path(path).name
        if not path or ((name == str(run.pk) or name.startswith(checkout)) and lies_in(path, runs)):
            return ""
        here = plain(path)
        rows = connection.execute(_IN_PLACE, {"path": here, "project": project.pk}).fetchall()
        others = [(its_name, its_path) for its_name, its_path, in_place, _ in rows if in_place]
        mine = next((its_name for its_name, its_path in others if plain(its_path) == here), shortened(here))
        said = why_folder_refused(project.slug, path, in_place=True, allowed=any(allowed for *_, allowed in rows))
        return said or why_nested(mine, here, others)

    return refused


def orchestrator_of(run: Run, tools: LiveTools, models: p.Models, connection: Any) -> Orchestrator:
    """The orchestrator of one run, who knows the other agents of its project (SPEC G2, I4)."""

    def specialists(call: ToolCall, context: p.CallContext) -> p.Specialist:
        colleagues = connection.execute(_COLLEAGUES, [run.project_id, run.agent_id]).fetchall()
        return specialist_for(colleagues, context.agent_type, lambda kind: tools.access_of(call, context, kind))

    return Orchestrator(tools=tools, models=models, gatekeeper=gatekeeper(), specialists=specialists)


def rejudge(run_id: uuid.UUID | str, call_id: str, tool: str, arguments: Mapping[str, Json]) -> p.Judgement:
    """What the TAS says of a call with edited arguments; for reviewers, from the web (SPEC Q4)."""
    run = Run.objects.select_related("agent", "task").get(pk=run_id)
    record = ToolCallRecord.objects.get(run_id=run_id, call_id=call_id)
    call = ToolCall(id=call_id, name=tool, arguments=arguments)
    context = p.CallContext(
        run_id=str(run.pk),
        step=record.step_number,
        agent_type=run.agent.agent_type,
        project_id=run.project_id,
        workspace=run.workspace_path,
        criteria=tuple(filter(None, (criterion.get("command", "") for criterion in run.task.criteria))),
        idempotency_key=idempotency_key(str(run.pk), call),
    )
    tools = tools_of(run, journal.raw_connection())
    return asyncio.run(tools.judge(call, context))

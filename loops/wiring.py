"""Build the engine's ports from Django's world and drive one run. The only place that knows every part (ARCHITECTURE 2)."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string
from psycopg.types.json import Jsonb

from loops.driver import Driver, Ports, idempotency_key
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.canonical import clean_json, sha256
from loops.engine.codec import from_plain, to_plain
from loops.engine.context import Transcript, extend
from loops.engine.exits import REPORT_KINDS, report
from loops.engine.fold import apply, initial
from loops.engine.lifecycle import Event, Phase
from loops.engine.spec import RunSpec
from loops.engine.state import RunState
from loops.engine.values import Access, Json, ToolCall, ToolResult, ToolSpec
from loops.ids import new_id, new_key
from loops.llm import prompts
from loops.llm.registry import ModelService
from loops.models import Run, ToolCallRecord
from loops.services.models import model_configs
from loops.services.tasks import run_spec
from loops.services.workspaces import WorkspaceUnusable, prepare
from loops.storage import blobs, journal
from loops.storage.feed import Publisher, RunFeed
from loops.storage.provenance import PgArchive
from loops.tools.matrix import AccessRule
from loops.tools.registry import ToolRegistry
from loops.tools.sandbox.levels import SandboxLevel, probe
from loops.tools.service import ToolAccessService

log = logging.getLogger(__name__)
RULES_FRESH_S = 2.0
"""A change of the matrix holds for every call judged this much later, in runs under way too."""
RECOVERIES_AT_MOST = 5
"""Workers lost in a row without a step completed, before a run is failed instead of tried again (RELIABILITY P21)."""


@cache
def tool_registry() -> ToolRegistry:
    """All tools there are: built in, and from installed packages."""
    from loops.tools.builtin import builtin_registry

    registry = builtin_registry()
    registry.load_entry_points()
    return registry


@cache
def sandbox_level() -> SandboxLevel:
    """What this machine's sandbox really holds, found by trying; once a process."""
    return probe()


@cache
def publisher() -> Publisher:
    return Publisher()


def gatekeeper() -> p.Gatekeeper:
    """The gates app at run time: the one dependency of loops on gates, by dotted path (ARCHITECTURE 2)."""
    path = getattr(settings, "AGENTOPS_GATEKEEPER", "gates.gatekeeper.SqlGatekeeper")
    keeper: p.Gatekeeper = import_string(path)()
    return keeper


class SystemClock:
    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


ReadRules = Callable[[], tuple[AccessRule, ...]]
Audit = Callable[[Mapping[str, Json]], None]


class LiveTools:
    """Port Tools with the project's access rules as they are now, re-read every ``RULES_FRESH_S`` seconds."""

    def __init__(
        self, agent_type: str, read_rules: ReadRules, audit: Audit, save_blob: Callable[[bytes], str] = blobs.save
    ) -> None:
        self._agent_type, self._read_rules, self._audit, self._save_blob = agent_type, read_rules, audit, save_blob
        self._read_at = 0.0
        self._rules: tuple[AccessRule, ...] | None = None
        self._service = self._fresh()

    def specs(self) -> Sequence[ToolSpec]:
        return self._service.specs()

    async def judge(self, call: ToolCall, context: p.CallContext) -> p.Judgement:
        return await self._fresh().judge(call, context)

    async def execute(self, call: ToolCall, context: p.CallContext, on_output: p.OnOutput) -> ToolResult:
        return await self._service.execute(call, context, on_output)

    async def verify(self, call: ToolCall, context: p.CallContext) -> p.Verified:
        return await self._service.verify(call, context)

    def _fresh(self) -> ToolAccessService:
        if time.monotonic() - self._read_at < RULES_FRESH_S:
            return self._service
        rules = self._read_rules()
        self._read_at = time.monotonic()
        if rules != self._rules:
            self._rules = rules
            self._service = ToolAccessService(
                tool_registry(),
                rules,
                sha256([to_plain(rule) for rule in rules])[:16],
                sandbox_level(),
                save_blob=self._save_blob,
                agent_type=self._agent_type,
                on_audit=self._audit,
            )
        return self._service


_RULES = (
    "SELECT access, agent_type, tool, operation, paths, note FROM loops_accessrule WHERE project_id = %s ORDER BY id"
)
_AUDIT = (
    "INSERT INTO loops_auditevent (id, at, kind, project_id, run_id, detail) "
    "VALUES (%s, clock_timestamp(), %s, %s, %s, %s)"
)


def _tools(run: Run, connection: Any, save_blob: Callable[[bytes], str] = blobs.save) -> LiveTools:
    """The TAS of one run on one plain connection: no ORM, since it works inside an event loop."""

    def read_rules() -> tuple[AccessRule, ...]:
        rows = connection.execute(_RULES, [run.project_id]).fetchall()
        return tuple(
            AccessRule(Access(access), agent_type, tool, operation, tuple(journal.from_jsonb(paths)), note=note)
            for access, agent_type, tool, operation, paths, note in rows
        )

    def audit(event: Mapping[str, Json]) -> None:
        """Refusals get an audit row; what ran, and why, is in the journal already."""
        if event.get("access") == "deny":
            detail = Jsonb(clean_json(dict(event), 2000))
            connection.execute(_AUDIT, [new_id(), "tool.denied", run.project_id, run.pk, detail])

    return LiveTools(run.agent.agent_type, read_rules, audit, save_blob)


def rejudge(run_id: uuid.UUID | str, call_id: str, tool: str, arguments: Mapping[str, Json]) -> p.Judgement:
    """What the TAS says of a call with edited arguments; for reviewers, from the web (SPEC Q4)."""
    run = Run.objects.select_related("agent").get(pk=run_id)
    record = ToolCallRecord.objects.get(run_id=run_id, call_id=call_id)
    call = ToolCall(id=call_id, name=tool, arguments=arguments)
    context = p.CallContext(
        run_id=str(run.pk),
        step=record.step_number,
        agent_type=run.agent.agent_type,
        project_id=run.project_id,
        workspace=run.workspace_path,
        idempotency_key=idempotency_key(str(run.pk), call),
    )
    tools = _tools(run, journal.raw_connection())
    return asyncio.run(tools.judge(call, context))


def drive(run_id: uuid.UUID, owner: str) -> str:
    """Own the run for as long as there is something to do; why it stopped, or "taken" when somebody else has it.

    An error of AgentOps itself leaves the lease to run out: the sweeper finds the run, another try is made, and after
    ``RECOVERIES_AT_MOST`` the run ends with a FailureReport instead of going round for ever.
    """
    held = journal.claim(run_id, owner)
    if held is None:
        return "taken"
    run = Run.objects.select_related("task__workspace", "agent__actor_model", "project").get(pk=run_id)
    store = journal.PgJournal(held, run.project_id, publisher())
    loaded = journal.load(run_id)
    if loaded is None:
        state, transcript = _start(run, store)
    else:
        state, transcript = loaded.state, loaded.transcript
    if held.abandoned and not state.is_ended:
        state = _note(store, state, f.RunTakenOver(epoch=held.epoch, worker=owner))
        if held.recoveries > RECOVERIES_AT_MOST:
            _fail(store, state, "internal_error", f"{held.recoveries} workers were lost in a row at this point")
    if state.is_ended and not store.mail_kinds():
        store.release()
        return "ended"
    return asyncio.run(_drive(run, store, ModelService(model_configs()), state, transcript))


async def _drive(
    run: Run, store: journal.PgJournal, models: ModelService, state: RunState, transcript: Transcript
) -> str:
    ports = Ports(
        journal=store,
        models=models,
        tools=_tools(run, store.connection, store.stage),
        gatekeeper=gatekeeper(),
        archive=PgArchive(),
        feed=RunFeed(publisher(), str(run.pk)),
        clock=SystemClock(),
        new_id=new_key,
    )
    driver = Driver(ports, state, transcript, sandbox_level=sandbox_level().level)
    try:
        return await driver.drive()
    finally:
        await models.close()


def _start(run: Run, store: journal.PgJournal) -> tuple[RunState, Transcript]:
    """The first fact. A workspace that cannot be made ends the run with a report, it never blocks it."""
    problem = ""
    try:
        prepare(run)
    except (WorkspaceUnusable, OSError) as error:
        problem = str(error)
    spec = from_plain(RunSpec, run_spec(run))
    prompt = prompts.load(f"{spec.loop}")
    tools = _tools(run, store.connection)
    started = f.RunStarted(
        at=int(time.time() * 1e6),
        spec=spec,
        system=_system(prompt, spec),
        prompt_version=f"{prompt.name}:{prompt.version_hash}",
        tools_sha256=sha256([to_plain(tool) for tool in tools.specs()]),
        sandbox_level=sandbox_level().level,
    )
    state = initial(started)
    store.append([(started, state)])
    if problem:
        state = _fail(store, state, "workspace_unusable", problem)
    return state, extend(Transcript(), started)


def _system(prompt: prompts.Prompt, spec: RunSpec) -> str:
    values = {"agent_name": spec.agent.name, "instructions": spec.agent.instructions or "None."}
    return prompt.fill(**{name: values[name] for name in prompt.places})


def _note(store: journal.PgJournal, state: RunState, fact: f.Fact) -> RunState:
    stamped = _stamped(fact, state)
    after = apply(state, stamped)
    store.append([(stamped, after)])
    return after


def _fail(store: journal.PgJournal, state: RunState, reason: str, detail: str) -> RunState:
    body = report(Phase.FAIL, state, reason, detail)
    entries: list[tuple[f.Fact, RunState]] = []
    facts = (
        f.PhaseEntered(phase=Phase.FAIL, event=Event.ERROR, came_from=state.phase),
        f.RunEnded(phase=Phase.FAIL, reason=reason, report=body, report_kind=REPORT_KINDS[Phase.FAIL]),
    )
    for fact in facts:
        stamped = _stamped(fact, state)
        state = apply(state, stamped)
        entries.append((stamped, state))
    store.append(entries, [gatekeeper().withdraw(state.spec.run_id, reason)])
    return state


def _stamped(fact: f.Fact, state: RunState) -> Any:
    from dataclasses import replace

    return replace(fact, at=max(int(time.time() * 1e6), state.last_at))

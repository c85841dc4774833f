"""Drive one run: own it, fold its journal, let the engine go on, give it back (SPEC J2, J3, J4)."""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from django.db.models import Q

from loops.agents import AgentContext, packages
from loops.crash_points import CrashPoint, reach
from loops.driver import Driver, Ports
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine import prompts
from loops.engine.apply import apply, initial
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.encoding.replace import evolve
from loops.engine.ends.reports import REPORT_KINDS, report
from loops.engine.rollback import plan
from loops.engine.state.lifecycle import Event, Phase
from loops.engine.state.run import RunState
from loops.engine.state.spec import RunSpec
from loops.engine.strategies import UnknownLoop
from loops.ids import new_key
from loops.llm.registry import ModelService
from loops.masking import known
from loops.models import AuditEvent, Run
from loops.runs import recovery
from loops.runs.composition import (
    LiveTools,
    SystemClock,
    gatekeeper,
    orchestrator_of,
    publisher,
    refusing,
    sandbox_level,
    tools_of,
)
from loops.runs.forks import fork_of, take_over
from loops.runs.surroundings import surroundings
from loops.runs.unreadable_journal import condemn
from loops.services.models import ask_windows, model_configs
from loops.services.prompts import classifier_prompt, prompt_versions, short_prompt, summary_prompt, system_prompt
from loops.services.tasks import models_by_role, run_spec
from loops.storage import journal, owners
from loops.storage.breakers import PgBreakers
from loops.storage.context_windows import learn_window
from loops.storage.feed import RunFeed
from loops.storage.provenance import PgArchive
from loops.storage.turns import PgTurns
from loops.workspaces.checkouts import RunCheckouts, installed_for
from loops.workspaces.copies import prepare, where, why_missing
from loops.workspaces.folder_copy import WorkspaceElsewhere, WorkspaceUnusable, meanwhile

log = logging.getLogger(__name__)


def drive(run_id: uuid.UUID, owner: str) -> str:
    """Own the run for as long as there is something to do; why it stopped, "taken" when somebody else has it, "lost"
    when somebody else got it meanwhile, "newer" when only newer code can read it, or "folder" when that is elsewhere.

    An error of AgentOps itself leaves the lease to run out: the sweeper finds the run, another try is made, until
    ``recovering.why_given_up`` ends it with a FailureReport instead of going round for ever.
    """
    reach(CrashPoint.BELL_HEARD)
    before = Run.objects.filter(pk=run_id).values_list("owner", "epoch").first()
    held = journal.claim(run_id, owner)
    if held is None:
        return "taken"
    reach(CrashPoint.CLAIMED)
    try:
        return _drive_claimed(held, owner, before)
    except p.LeaseLost as lost:
        log.info("run %s is not ours any more: %s", run_id, lost)
        return "lost"
    except WorkspaceElsewhere as away:
        recovery.leave_for_its_folder(held, _lost(held, before), str(away))
        return "folder"
    except (Exception, SystemExit) as error:
        recovery.say_why(held, error)
        raise


def _drive_claimed(held: journal.Claim, owner: str, before: tuple[str, int] | None) -> str:
    run = Run.objects.select_related("task__workspace__project", "agent__actor_model", "project").get(pk=held.run_id)
    store = journal.PgJournal(held, run.project_id, publisher())
    given_up = recovery.why_given_up(held)
    try:
        state, transcript = _where_it_stands(run, store)
    except (p.LeaseLost, WorkspaceElsewhere):
        raise
    except Exception as error:  # its own facts, or those a fork is to take over
        if unknown := recovery.unknown_kinds(run):
            log.warning("run %s is for newer code, which knows %s", run.pk, ", ".join(unknown))
            recovery.leave_to_newer_code(held, _lost(held, before))
            return "newer"
        if not given_up:
            raise
        condemn(held, run, error)
        return "condemned"
    if held.abandoned and not state.is_ended:
        state = _note(store, state, _taken_over(held, owner, before))
        state = _given_up_or_aside(store, state, given_up)
    if _is_over(state, given_up) and not store.mail_kinds():
        store.release()
        return "ended"
    state = _with_texts(store, state, transcript)
    models, checkouts = ModelService(model_configs()), partial(RunCheckouts, run, installed_for(run))
    return asyncio.run(_drive(run, store, models, checkouts, state, transcript))


def _given_up_or_aside(store: journal.PgJournal, state: RunState, given_up: str) -> RunState:
    """What was lost too often ends, or waits for a person."""
    if given_up:
        return _fail(store, state, "internal_error", given_up)
    aside = recovery.put_aside(state)
    return _note(store, state, aside) if aside else state


def _where_it_stands(run: Run, store: journal.PgJournal) -> tuple[RunState, Transcript]:
    loaded = journal.load(run.pk)
    if loaded is None or loaded.state.reusing:
        with meanwhile(store.renew):  # else others take the run, and copy its folder once more, while it is copied
            return _start(run, store)
    return _where_it_lies(run, loaded.state), loaded.transcript


def _is_over(state: RunState, given_up: str) -> bool:
    """Nothing is to be asked or undone any more; where workers keep being lost, nothing is asked either."""
    return state.is_ended and ((bool(given_up) and state.rollback != "wanted") or plan.is_settled(state))


async def _drive(
    run: Run,
    store: journal.PgJournal,
    models: ModelService,
    checkouts: Callable[[LiveTools], RunCheckouts],
    state: RunState,
    transcript: Transcript,
) -> str:
    tools = tools_of(run, store.connection, store.stage)
    refused = refusing(run, store.connection)
    orchestrator = orchestrator_of(run, tools, models, store.connection)
    ports = Ports(
        journal=store,
        models=models,
        tools=tools,
        gatekeeper=gatekeeper(),
        archive=PgArchive(),
        feed=RunFeed(publisher(), str(run.pk)),
        clock=SystemClock(),
        new_id=new_key,
        summary_prompt=summary_prompt,
        classifier_prompt=classifier_prompt(),
        orchestrator=orchestrator,
        checkouts=checkouts(tools),
        breakers=PgBreakers(store.connection, run.pk, store.epoch),
        turns=PgTurns(store.connection, run.pk, store.epoch, models.seat, show=publisher().row),
        learnt=partial(learn_window, store.connection),
        short_prompt=short_prompt,
        fallbacks=models.chain,
        folder_missing=lambda path: refused(path) or why_missing(path),
    )
    level, program = sandbox_level().level, state.spec.agent.program
    try:
        if program and not state.is_ended:
            context = AgentContext(ports, sandbox_level=level, state=state, transcript=transcript, shared=True)
            return await packages.lead(program, context, orchestrator)
        return await Driver(ports, state, transcript, sandbox_level=level).drive()
    finally:
        await models.close()


def _where_it_lies(run: Run, state: RunState) -> RunState:
    """A restored installation may keep the run's folder elsewhere; the first fact still names the old place."""
    if run.workspace_path in ("", state.spec.workspace):
        return state
    return evolve(state, spec=replace(state.spec, workspace=run.workspace_path))


def _with_texts(store: journal.PgJournal, state: RunState, transcript: Transcript) -> RunState:
    """What this version says otherwise than the journal names is put on record before any of it is said (SPEC U3)."""
    if state.is_ended and not state.can_be_reentered:
        return state
    named: dict[str, str] = {}
    for fact in store.history(("RunStarted", "TextsChanged")):
        assert isinstance(fact, f.RunStarted | f.TextsChanged)
        named |= fact.prompts
    today = prompt_versions() | transcript.wording.versions()
    changed = {name: sha256 for name, sha256 in today.items() if named.get(name) != sha256}
    return _note(store, state, f.TextsChanged(prompts=changed)) if changed else state


def _lost(held: journal.Claim, before: tuple[str, int] | None) -> str:
    return before[0] if before is not None and before[1] == held.epoch - 1 else ""


def _taken_over(held: journal.Claim, owner: str, before: tuple[str, int] | None) -> f.RunTakenOver:
    """Who was lost, as far as it is known: nobody else may have owned the run between the look and the claim."""
    lost = _lost(held, before)
    kinds = (*journal.WORDS, recovery.KIND)
    words = AuditEvent.objects.filter(run=held.run_id, kind__in=kinds, detail__epoch=held.epoch - 1)
    said = words.order_by("-id").first()
    return f.RunTakenOver(
        epoch=held.epoch,
        worker=owner,
        lost=lost,
        lost_is_dead=owners.is_dead(lost),
        why=str(said.detail.get("what", "")) if said else "",
        died=said is None and owners.died_alone(lost),
    )


def _start(run: Run, store: journal.PgJournal) -> tuple[RunState, Transcript]:
    """The first fact. A workspace that cannot be made ends the run with a report, it never blocks it."""
    if fork := fork_of(run):
        state, transcript, problem = take_over(run, fork, store)
        return (_fail(store, state, "workspace_unusable", problem) if problem else state), transcript
    reason = problem = ""
    try:
        prepare(run)
    except (WorkspaceUnusable, OSError) as error:
        reason, problem = "workspace_unusable", str(error)
    spec = _spec_of(run)
    now = int(time.time() * 1e6)
    bare = f.RunStarted(at=now, spec=spec, system="", prompt_version="", tools_sha256="")
    started = replace(bare, prompts=prompt_versions(), wording=prompts.FOLDED.contents())
    try:
        started = _equipped(started, run, store, keep=not problem)
    except (p.LeaseLost, *recovery.AROUND):
        raise
    except Exception as error:  # a loop or a tool of another package among them: it would be met each time
        log.exception("run %s could not begin", run.pk)
        said = str(error) if isinstance(error, UnknownLoop) else f"{type(error).__name__}: {error}"
        reason, problem = reason or "could_not_begin", problem or said
    state = initial(started := known().value(started))
    store.append([(started, state)])
    if problem:
        state = _fail(store, state, reason, problem)
    return state, extend(Transcript(), started)


def _spec_of(run: Run) -> RunSpec:
    """With the windows as the servers of its models say them now."""
    ask_windows(set(models_by_role(run.agent).values()))
    return from_plain(RunSpec, run_spec(run))


def _equipped(started: f.RunStarted, run: Run, store: journal.PgJournal, *, keep: bool) -> f.RunStarted:
    """With its prompt, its tools and, to ``keep``, its folder as it is now."""
    spec = started.spec
    system, version = system_prompt(spec)
    tools = tools_of(run, store.connection, store.stage)
    context = p.CallContext(str(run.pk), 0, spec.agent.type, spec.project_id, run.workspace_path)
    trusted = keep and any(criterion.command for criterion in spec.criteria) and not _is_used(run)
    return replace(
        started,
        system=system,
        prompt_version=version,
        tools_sha256=sha256([to_plain(tool) for tool in tools.specs()]),
        sandbox_level=sandbox_level().level,
        snapshot=tools.snapshot(context) if keep else "",
        surroundings=surroundings(spec, str(run.task_id), store.connection) if keep else "",
        obeyed=tools.obeyed(context) if trusted else "",
    )


def _is_used(run: Run) -> bool:
    """Did another run work in the folder that this one has or copied, around it or in it? What it left there is no
    person's (ADR 0052)."""
    place = Path(where(run).source or run.workspace_path)
    around = Q(workspace_path__in=[str(place), *map(str, place.parents)])
    inside = Q(workspace_path__startswith=f"{place}/")
    return Run.objects.filter(around | inside).exclude(pk=run.pk).exists()


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
    return evolve(known().value(fact), at=max(int(time.time() * 1e6), state.last_at))

"""The beginning of a fork, made by its worker: the folder, then the other run's facts under a chain of its own (K3).

Facts are taken over as they stand, the same bytes under the same numbers, so nothing of them is executed, asked or paid
again. A worker that is lost in the middle leaves a beginning that the next one completes.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from django.db.models import Q

from loops.engine import facts as f
from loops.engine.apply import apply, initial, replay
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.forks.prefix import unfinished
from loops.engine.ports import CallContext
from loops.engine.prompts import of_journal
from loops.engine.state.limits import LIMITS
from loops.engine.state.run import CallStatus, RunState
from loops.engine.state.spec import RunSpec
from loops.engine.strategies import UnknownLoop
from loops.engine.values import Reversibility
from loops.models import Fact, Fork, Run, ToolCallRecord
from loops.runs.composition import sandbox_level, tool_registry, tools_of
from loops.services.prompts import prompt_versions, system_prompt
from loops.services.tasks import run_spec
from loops.storage import reader
from loops.storage.journal import PgJournal
from loops.workspaces.copies import copy_at, copy_present, prepare_with
from loops.workspaces.folder_copy import WorkspaceUnusable

BATCH = 200
"""Facts in one transaction: few enough that their bytes, made for the conversation, are still at hand for the journal;
watchers see the steps arrive."""
IN_PLACE = "Its folder is shared with other runs, which may have changed it: this one works in a copy of its own."
UNKEPT = "The folder is as it was at that step, except {}: what lies there is not recorded, and is as it was later."
NOT_KEPT = (
    "No copy of the folder was kept at that step, and later steps may have changed it: this is a copy of what it held "
    "when the fork began."
)


def fork_of(run: Run) -> Fork | None:
    """What the run was forked from; None for a run with a history of its own."""
    found: Fork | None = Fork.objects.select_related("parent__task__workspace", "created_by").filter(run=run).first()
    return found


def take_over(run: Run, fork: Fork, store: PgJournal) -> tuple[RunState, Transcript, str]:
    """Write what the fork begins with, or the rest of it. Returns state, conversation, and why it cannot go on ("").
    Raises WorkspaceElsewhere before anything is written where the folder it takes over is not on this machine."""
    history = reader.history(fork.parent_id, until=fork.seq)
    there = replay(history)
    problem = unsure = ""
    try:
        unsure = _folder(run, fork, there)
    except (WorkspaceUnusable, OSError) as error:
        problem = str(error)
    written = reader.history(run.pk)
    first = written[0] if written else _started(run, fork, history[0], there, store)
    now = int(time.time() * 1e6)
    closing = [replace(fact, at=now) for fact in unfinished(there)]
    facts = [first, *history[1:], *closing, _forked(fork, there, unsure, now)]
    state, transcript = _write(facts, len(written), store)
    return state, transcript, problem


def _write(facts: Sequence[f.Fact], written: int, store: PgJournal) -> tuple[RunState, Transcript]:
    """Fold all facts and append those behind the first ``written``."""
    first = facts[0]
    assert isinstance(first, f.RunStarted)
    state, transcript, batch = initial(first), Transcript(), []
    for number, fact in enumerate(facts, 1):
        state = apply(state, fact) if number > 1 else state
        transcript = extend(transcript, fact)
        if number > written:
            batch.append((fact, state))
        if len(batch) >= BATCH or (batch and number == len(facts)):
            store.append(batch)
            store.renew()
            batch = []
    return state, transcript


def _started(run: Run, fork: Fork, theirs: f.Fact, there: RunState, store: PgJournal) -> f.RunStarted:
    """The other run's first fact with what a person changed. The rules are today's, the limits those in force
    there, and no more than whoever forks it may give (ADR 0045)."""
    assert isinstance(theirs, f.RunStarted)
    wanted = replace(there.limits, **fork.limits)
    today = from_plain(RunSpec, run_spec(run, {name: getattr(wanted, name) for name in LIMITS}))
    old = theirs.spec
    spec = replace(
        old,
        run_id=today.run_id,
        workspace=run.workspace_path,
        limits=replace(wanted, **{name: getattr(today.limits, name) for name in LIMITS}),
        models=_models(old, fork.model),
        windows=today.windows,
        policy_version=today.policy_version,
        final_review=today.final_review,
        confidence=today.confidence,
    )
    system, version = theirs.system, theirs.prompt_version
    if fork.instructions is not None:
        spec = replace(spec, agent=replace(old.agent, instructions=fork.instructions))
        with suppress(UnknownLoop):  # the loop is gone: the run ends as soon as it asks for it
            system, version = system_prompt(spec)
    tools = tools_of(run, store.connection, store.stage)
    context = CallContext(today.run_id, 0, spec.agent.type, spec.project_id, run.workspace_path)
    return replace(
        theirs,
        spec=spec,
        system=system,
        prompt_version=version,
        prompts=prompt_versions() | of_journal(theirs.wording).versions(),
        tools_sha256=sha256([to_plain(tool) for tool in tools.specs()]),
        sandbox_level=sandbox_level().level,
        snapshot=tools.snapshot(context) if run.workspace_path else "",
        began=(theirs.began or theirs.snapshot) if fork.step else "",
        forked_from=f.Origin(run_id=old.run_id, seq=fork.seq, step=fork.step, head=bytes(fork.head).hex()),
    )


def _models(spec: RunSpec, chosen: str) -> dict[str, str]:
    """The chosen model in the actor's place, and wherever else the actor's served."""
    actor = spec.models["actor"]
    return {role: chosen if chosen and name == actor else name for role, name in spec.models.items()}


def _forked(fork: Fork, there: RunState, unsure: str, now: int) -> f.Forked:
    changed = {"model": bool(fork.model), "instructions": fork.instructions is not None, "limits": bool(fork.limits)}
    return f.Forked(
        at=max(now, there.last_at),
        run_id=there.spec.run_id,
        seq=fork.seq,
        step=fork.step,
        by=fork.created_by.get_username(),
        message=fork.message,
        changed=tuple(name for name, is_changed in changed.items() if is_changed),
        workspace=unsure,
        tokens=there.tokens,
        cost_microusd=there.cost_microusd,
        cost_unknown=there.cost_unknown,
    )


def _folder(run: Run, fork: Fork, there: RunState) -> str:
    """Make the folder; "" when it certainly holds what it held at the point of the fork, else what is unsure."""
    unsure = NOT_KEPT if _changed_since(fork, there) else ""

    def fill(draft: Path) -> None:
        nonlocal unsure
        unsure = _fill(fork, there, draft)

    prepare_with(run, fill)
    return unsure


def _fill(fork: Fork, there: RunState, draft: Path) -> str:
    workspace = fork.parent.task.workspace
    shared = IN_PLACE if workspace is not None and workspace.path and not workspace.copy_for_each_run else ""
    if not _changed_since(fork, there):
        copy_present(fork.parent, draft)
        if not _changed_since(fork, there):  # INTENTs come first: nothing was begun while this was copied
            return shared
        shutil.rmtree(draft)
        draft.mkdir()
    unkept = copy_at(fork.parent, fork.seq, draft)
    if unkept is None:
        copy_present(fork.parent, draft)
        return shared or NOT_KEPT
    return shared or (UNKEPT.format(unkept) if unkept else "")


def _changed_since(fork: Fork, there: RunState) -> bool:
    """May anything have touched the folder after that point? Asked after the copy was made: INTENTs come first."""
    later = Fact.objects.filter(run_id=fork.parent_id, seq__gt=fork.seq)
    checks = ("ChecksStarted",) if any(criterion.command for criterion in there.spec.criteria) else ()
    if later.filter(kind__in=(*checks, "CompensationIntended")).exists():
        return True
    still_open = [pending.call.id for pending in there.calls if pending.status != CallStatus.DONE]
    begun = ToolCallRecord.objects.filter(run_id=fork.parent_id, started_at__isnull=False)
    begun = begun.filter(Q(step_number__gt=fork.step) | Q(call_id__in=still_open))
    return not set(begun.order_by().values_list("tool", flat=True).distinct()) <= _only_reading()


def _only_reading() -> set[str]:
    """Tools of our own that change nothing; what a server says of its tools is only its word."""
    reading = (spec for spec in tool_registry().specs() if spec.operation == "read" and not spec.server)
    return {spec.name for spec in reading if spec.reversibility is Reversibility.PURE}

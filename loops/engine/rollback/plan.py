"""Undoing a run: which compensations, in which order, and what is left (SPEC O1-O3, CH15 15.10.3).

A run is undone only after it has ended in FAIL or HALT and only because a person said so. The ten phases stay as they
are: the undoing is an epilogue of facts behind RunEnded, and the report that RunEnded carries is written anew with what
came of it. The state holds two small fields; what there is to undo is folded from the journal when somebody asks, so
that a step costs the same however much a run has changed (SPEC J7).

Every call that may change something carries its compensation since its INTENT: a call that *asserts* a former state
("file X has content H"), so that doing it twice is doing it once. ``restore_files`` is that call for files; a tool with
effects elsewhere names one of its own.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loops.engine import facts as f
from loops.engine.effects import AskRollback, Effect, Rest, RollBack
from loops.engine.encoding.canonical import sha256
from loops.engine.encoding.codec import to_plain
from loops.engine.state.lifecycle import HOPELESS, Phase
from loops.engine.state.run import RunState
from loops.engine.text.arguments import telling
from loops.engine.text.truncation import shortened
from loops.engine.values import Compensation, Json, Verdict

GATE = "rollback_choice"
SUMMARY_CHARS = 200
RESTORE = "restore_files"
LEDGER = (
    "Forked",
    "ToolIntended",
    "ToolCompleted",
    "UndoLearnt",
    "WorkspaceChanged",
    "GateDecided",
    "RollbackRequested",
    "CompensationIntended",
    "CompensationCompleted",
    "RunEnded",
)
"""Kinds of facts that the undoing is folded from."""

ATTEMPTS_AT_MOST = 5
"""Workers lost over one compensation, before it counts as failed and the others go on."""
UNDONE, NOTHING = "undone", "nothing"
CHECKS, UNRECORDED, OUTSIDE = "checks", "unrecorded", "outside"
"""Who changed files besides the calls (``facts.WorkspaceChanged``)."""
SUMMARIES = {
    CHECKS: "files changed by the commands of criteria",
    UNRECORDED: "files changed outside of the recorded calls",
    OUTSIDE: "files changed in the folder meanwhile, perhaps by a person",
}
IS_CRITERION = "is_criterion"
"""In the data of a result: was it, word by word, the command of an acceptance criterion?"""
LEFT = ("partly", "failed", "blocked", "by_hand")
"""Outcomes that leave something as it is; all but the last are tried again when a person asks again."""


@dataclass(frozen=True, slots=True)
class Undo:
    """One call that had an effect, and how far it is undone; ``id`` is the call's.

    ``outcome`` is "" while it is to be undone, else UNDONE, NOTHING (it was so already) or one of LEFT; ``left`` names
    the paths that stay. ``learnt``: the compensation was told by the execution itself. ``begun`` counts the INTENTs of
    the compensation; ``open`` is true while the latest of them has no outcome.
    """

    id: str
    tool: str
    summary: str
    reversibility: str
    compensation: Compensation
    ok: bool | None = None
    learnt: bool = False
    outcome: str = ""
    why: str = ""
    left: tuple[str, ...] = ()
    begun: int = 0
    open: bool = False
    by: str = ""
    """Of a call "", else CHECKS, UNRECORDED or OUTSIDE."""
    measures: bool = False
    """Did the call run the command of a criterion, word by word?"""


@dataclass(frozen=True, slots=True)
class FileChange:
    """A path with the state to put back (``before``) and the one our effects left (``after``); states are words of
    ``loops.tools.snapshots``, "" for nothing there."""

    path: str
    before: str
    after: str


# --- what a state asks for ------------------------------------------------------------------------------------------


def after_the_end(state: RunState) -> Effect:
    """The next effect of an ended run: ask, undo, or rest."""
    if state.phase is Phase.COMMIT:
        return Rest("ended")
    if state.rollback == "wanted":
        return RollBack()
    if state.gate is not None:
        return Rest(f"gate:{state.gate.kind}")
    if state.effects and state.rollback in ("", "partly"):
        return AskRollback()
    return Rest("ended")


def is_settled(state: RunState) -> bool:
    """Is there nothing to ask and nothing to undo?"""
    return state.is_ended and isinstance(after_the_end(state), Rest)


def may_continue(state: RunState) -> bool:
    """May a person have it go on instead? A failed run as often as its limits may be extended (SPEC A6)."""
    if state.can_be_reentered:
        return True
    hopeless = state.end_reason in HOPELESS
    return state.phase is Phase.FAIL and not hopeless and state.extensions < state.limits.max_extensions


def can_be_rolled_back(state: RunState) -> bool:
    """May a person ask for it? What a committed run did is its result."""
    return state.phase in {Phase.FAIL, Phase.HALT} and state.effects > 0


# --- the ledger: a fold of the journal ------------------------------------------------------------------------------


def ledger(history: Iterable[f.Fact]) -> tuple[Undo, ...]:
    """Every effect of the run in the order in which it began."""
    return tuple(undo for undo in _all_changes(history) if undo.by != OUTSIDE)


def of_others(history: Iterable[f.Fact]) -> list[Undo]:
    """What no call did, nor a check: a process that stayed behind, a tool that said nothing, a person."""
    return [undo for undo in _all_changes(history) if undo.by in (UNRECORDED, OUTSIDE)]


def last_states(history: Iterable[f.Fact]) -> dict[str, str]:
    """Path to the state in which all that is recorded left it, of each path that was changed."""
    found: dict[str, str] = {}
    for undo in _all_changes(history):
        if undo.ok is not False or undo.learnt:
            found |= {change.path: change.after for change in files(undo.compensation)}
    return found


def _all_changes(history: Iterable[f.Fact]) -> tuple[Undo, ...]:  # noqa: C901 - one case for each kind of fact
    found: dict[str, Undo] = {}
    for fact in history:
        match fact:
            case f.Forked():
                found = {}  # what the other run did, it did in a folder of its own
            case f.ToolIntended(compensation=Compensation()):
                found[fact.call_id] = _begun(fact)  # begun again after a loss: one effect, undone once
            case f.ToolCompleted() if fact.call_id in found:
                _completed(found, fact)
            case f.UndoLearnt() if fact.call_id in found:
                _learnt(found, fact.call_id, fact.compensation)
            case f.WorkspaceChanged():
                name = f"workspace-{sum(bool(undo.by) for undo in found.values())}"
                more = Undo(name, "", SUMMARIES[fact.by], "REVERSIBLE", fact.compensation, ok=True, learnt=True)
                found[name] = replace(more, by=fact.by)
            case f.GateDecided(kind="in_doubt") if fact.call_id in found:
                found[fact.call_id] = replace(found[fact.call_id], ok=fact.payload.get("outcome") == "done")
            case f.GateDecided(kind=kind, verdict=Verdict.ROLL_BACK) if kind == GATE:
                _try_again(found)
            case f.RollbackRequested():
                _try_again(found)
            case f.CompensationIntended() if fact.undoes in found:
                found[fact.undoes] = replace(found[fact.undoes], begun=fact.attempt, open=True)
            case f.CompensationCompleted() if fact.undoes in found:
                found[fact.undoes] = _settled(found[fact.undoes], fact)
    return tuple(found.values())


def advanced(undos: Sequence[Undo], fact: f.CompensationCompleted) -> tuple[Undo, ...]:
    """The ledger after one more outcome."""
    return tuple(_settled(undo, fact) if undo.id == fact.undoes else undo for undo in undos)


def ordered_by(history: Iterable[f.Fact]) -> str:
    """Who ordered the latest rollback."""
    orders = [
        fact.by
        for fact in history
        if isinstance(fact, f.RollbackRequested)
        or (isinstance(fact, f.GateDecided) and (fact.kind, fact.verdict) == (GATE, Verdict.ROLL_BACK))
    ]
    return orders[-1] if orders else ""


def _settled(undo: Undo, fact: f.CompensationCompleted) -> Undo:
    return replace(undo, outcome=fact.outcome, why=fact.message, left=fact.left, open=False)


def _begun(fact: f.ToolIntended) -> Undo:
    assert fact.compensation is not None
    return Undo(fact.call_id, fact.tool, _summary(fact), fact.reversibility, fact.compensation)


def _summary(fact: f.ToolIntended) -> str:
    """One line: the tool and what it was about."""
    return shortened(f"{fact.tool} {telling(fact.arguments)}".strip(), SUMMARY_CHARS)


def _completed(found: dict[str, Undo], fact: f.ToolCompleted) -> None:
    found[fact.call_id] = replace(found[fact.call_id], measures=fact.result.data.get(IS_CRITERION) is True)
    _learnt(found, fact.call_id, fact.compensation, ok=fact.result.ok)


def _learnt(found: dict[str, Undo], name: str, told: Compensation | None, ok: bool | None = None) -> None:
    compensation = told or found[name].compensation
    if compensation.tool == RESTORE and not files(compensation) and "snapshot" not in compensation.arguments:
        del found[name]  # looked at before and after: it changed nothing
        return
    learnt = found[name].learnt or told is not None
    found[name] = replace(found[name], compensation=compensation, ok=ok, learnt=learnt)


def _try_again(found: dict[str, Undo]) -> None:
    for name, undo in found.items():
        if undo.outcome in LEFT:
            found[name] = replace(undo, outcome="", why="", left=(), begun=0)


# --- order and dependence -------------------------------------------------------------------------------------------


def pending(undos: Sequence[Undo]) -> list[Undo]:
    """What is still to be undone, the latest effect first."""
    return [undo for undo in reversed(undos) if not undo.outcome]


def next_undo(undos: Sequence[Undo]) -> Undo | None:
    """The one compensation to perform now: strictly in reverse order, so that one which was begun comes again first."""
    return next(iter(pending(undos)), None)


def obstacle(undo: Undo, undos: Sequence[Undo]) -> tuple[str, str]:
    """(outcome, why) when ``undo`` is not to be performed at all; ("", "") when it is."""
    compensation = undo.compensation
    if not compensation.tool:
        return "by_hand", compensation.why_not or "this cannot be undone"
    if "snapshot" in compensation.arguments:
        return "by_hand", "the worker was lost while it ran, so nobody recorded what it changed"
    if undo.open and undo.begun >= ATTEMPTS_AT_MOST:
        return "failed", f"the worker was lost {undo.begun} times while it was being undone"
    if compensation.tool != RESTORE and undo.ok is False:
        return NOTHING, "the call failed, so there is nothing to take back"
    stuck = _stuck(undo, undos)
    if stuck and not _free(compensation, stuck):
        return "blocked", f"a later change of {shortened(', '.join(sorted(stuck)), 200)} could not be undone"
    return "", ""


def to_perform(undo: Undo, undos: Sequence[Undo]) -> tuple[Compensation, tuple[str, ...]]:
    """(the compensation without the paths that a later, failed one holds, those paths)."""
    stuck = _stuck(undo, undos)
    if not stuck:
        return undo.compensation, ()
    free = _free(undo.compensation, stuck)
    held = tuple(change.path for change in files(undo.compensation) if change not in free)
    return restoring(free), held


def _stuck(undo: Undo, undos: Sequence[Undo]) -> set[str]:
    """Paths of later effects that were not undone and that this compensation would touch."""
    position = [other.id for other in undos].index(undo.id)
    held = {path for other in undos[position + 1 :] if other.outcome in LEFT for path in other.left}
    touched = [change.path for change in files(undo.compensation)]
    return {path for path in held if any(_overlap(path, mine) for mine in touched)}


def _free(compensation: Compensation, stuck: set[str]) -> list[FileChange]:
    return [change for change in files(compensation) if not any(_overlap(change.path, path) for path in stuck)]


def _overlap(one: str, other: str) -> bool:
    """The same path, or one lies in the other."""
    return one == other or one.startswith(f"{other}/") or other.startswith(f"{one}/")


def idempotency_key(run_id: str, undo: Undo) -> str:
    """Stable over retries of one compensation, and never that of the call it undoes."""
    compensation = undo.compensation
    parts = f"{run_id}|undo|{undo.id}|{compensation.tool}|{sha256(to_plain(compensation.arguments))}"
    return hashlib.sha256(parts.encode("utf-8", "surrogatepass")).hexdigest()


# --- files ----------------------------------------------------------------------------------------------------------


def files(compensation: Compensation) -> list[FileChange]:
    """The file assertions of a compensation, in the order in which its call changed them; each path stands once."""
    listed = compensation.arguments.get("files")
    if compensation.tool != RESTORE or not isinstance(listed, Sequence) or isinstance(listed, str):
        return []
    return [
        FileChange(*(str(one.get(name) or "") for name in ("path", "before", "after")))
        for one in listed
        if isinstance(one, Mapping)
    ]


def restoring(changes: Iterable[FileChange]) -> Compensation:
    """The compensation that puts ``changes`` back."""
    listed: list[Json] = [{"path": one.path, "before": one.before, "after": one.after} for one in changes]
    return Compensation(tool=RESTORE, arguments={"files": listed})


def net(undos: Sequence[Undo]) -> list[FileChange]:
    """What undoing everything would make of each file, as one change: for the diff that a person sees.

    Where somebody else changed a file between two of our effects, the chain of states is broken: undoing stops there.
    """
    found: dict[str, FileChange] = {}
    for undo in pending(undos):
        for change in reversed(files(undo.compensation)):
            later = found.get(change.path)
            if later is None:
                found[change.path] = change
            elif later.before == change.after:
                found[change.path] = replace(later, before=change.before)
    return [change for _, change in sorted(found.items()) if change.before != change.after]


def is_known(history: Iterable[f.Fact]) -> bool:
    """Was everything recorded that the calls so far changed? A call under way, or lost, may have done anything; what
    was undone since is not told."""
    facts = list(history)
    if any(isinstance(fact, f.CompensationIntended) for fact in facts):
        return False
    undos = ledger(facts)
    return all(undo.compensation.tool and "snapshot" not in undo.compensation.arguments for undo in undos)


def workspace_after(start: Mapping[str, str], history: Iterable[f.Fact]) -> dict[str, str]:
    """Path to state of the whole workspace after ``history``, given the one of RunStarted's snapshot."""
    now = dict(start)
    for undo in ledger(history):
        if undo.ok is False and not undo.learnt:
            continue  # it failed before it changed anything
        for change in files(undo.compensation):
            if change.after:
                now[change.path] = change.after
            else:
                now.pop(change.path, None)
    return now


# --- what is said of it ---------------------------------------------------------------------------------------------


def outcome_of(undos: Sequence[Undo]) -> str:
    """What came of a rollback: UNDONE, "partly" or NOTHING."""
    if any(undo.outcome in LEFT for undo in undos):
        return "partly"
    return UNDONE if any(undo.outcome == UNDONE for undo in undos) else NOTHING


def account(undos: Sequence[Undo], by: str = "") -> dict[str, Json]:
    """For the report of the run: what was undone and what was not, the latest effect first."""
    told = [undo for undo in reversed(undos) if undo.outcome and undo.outcome != NOTHING]
    return {
        "outcome": outcome_of(undos),
        "by": by,
        "undone": [undo.summary for undo in told if undo.outcome == UNDONE],
        "not_undone": [
            {"what": undo.summary, "why": undo.why, "paths": list(undo.left)} for undo in told if undo.outcome in LEFT
        ],
    }

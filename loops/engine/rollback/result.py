"""What of the changed files is the result of a run, told by its journal (SPEC O1, C6, L2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from pathlib import PurePosixPath

from loops.engine import facts as f
from loops.engine.rollback import plan as rb


def left_behind(history: Iterable[f.Fact]) -> tuple[list[rb.FileChange], list[rb.Undo]]:
    """What the run so far made of each file, as one change each, and the calls of which nobody recorded what they
    did. What failed before it changed anything, and what was undone, is in neither; nor are ``leftovers``."""
    undos = _standing(history)
    unknown = [one for one in undos if not one.compensation.tool or "snapshot" in one.compensation.arguments]
    changes = rb.net(undos)
    leftovers = _leftovers(undos, changes)
    return [one for one in changes if one.path not in leftovers], unknown


def leftovers(history: Iterable[f.Fact]) -> frozenset[str]:
    """Paths of new files and folders that the commands of criteria left, such as caches and reports: no part of a
    result, unless a call went on with them. A call that ran such a command itself goes on with nothing, and its files
    beside theirs are of the same kind."""
    undos = _standing(history)
    return _leftovers(undos, rb.net(undos))


def checks_of_these_files(history: Sequence[f.Fact]) -> list[f.CriteriaTried | f.ChecksCompleted]:
    """Those when all files were as they are at the end of ``history``. None where what commands and people change is
    not looked for: without a snapshot of the start, and after something was undone."""
    starts = [fact for fact in history if isinstance(fact, f.RunStarted)]
    if not any(fact.snapshot for fact in starts) or any(isinstance(fact, f.CompensationIntended) for fact in history):
        return []
    now = _told(history)
    checks = ((at, fact) for at, fact in enumerate(history) if isinstance(fact, f.CriteriaTried | f.ChecksCompleted))
    return [fact for at, fact in checks if _told(history[:at]) == now]


def _told(history: Sequence[f.Fact]) -> object:
    return left_behind(history), rb.of_others(history)


def _standing(history: Iterable[f.Fact]) -> list[rb.Undo]:
    return [undo for undo in rb.ledger(history) if (undo.ok or undo.learnt) and not undo.outcome]


def _leftovers(undos: Sequence[rb.Undo], changes: Sequence[rb.FileChange]) -> frozenset[str]:
    made = {one.path for undo in undos if undo.by == rb.CHECKS for one in rb.files(undo.compensation) if not one.before}
    of_work: set[str] = set()
    for undo in undos:
        if undo.by != rb.CHECKS:
            paths = (one.path for one in rb.files(undo.compensation))
            of_work |= {path for path in paths if not (undo.measures and _is_within(path, made))}
    return frozenset(one.path for one in changes if not one.before and one.path not in of_work)


def _is_within(path: str, places: Set[str]) -> bool:
    return any(str(place) in places for place in (PurePosixPath(path), *PurePosixPath(path).parents))


def with_forked(history: Iterable[f.Fact]) -> list[f.Fact]:
    """For a fork, so that what it took over counts too: the folder that the history began with is the start."""
    return [fact for fact in history if not isinstance(fact, f.Forked)]

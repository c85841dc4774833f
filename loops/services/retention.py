"""What of old runs may go, and how it goes: their folders and long texts, never their facts (SPEC N1, J6).

Deleting a stored body needs the owner of the database. Each run goes in one transaction that also makes its tombstone,
without which the database refuses; bodies that any kept run needs stay. A body is marked ``GRACE_S`` before it goes:
a run at work that had found it stored has named it in its journal by then, and one that asks later stores it again.
"""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db import connection, transaction
from django.db.models import DateTimeField, ExpressionWrapper, F, Func, Q
from django.db.models.functions import Now

from loops.engine.state.lifecycle import RETRIABLE
from loops.models import Project, Run, Tombstone
from loops.services import audit
from loops.storage import blob_references
from loops.workspaces import copies

AT_ONCE = 500
"""Runs a pass: what a pass holds in memory, and how far it gets before it looks again."""
LOCK_S = 5
GRACE_S = 3600
"""Longer than any worker goes on without writing a fact."""
_LOCK = "LOCK TABLE loops_blob IN SHARE ROW EXCLUSIVE MODE"
_TOMBSTONE = (
    "INSERT INTO loops_tombstone (run_id, at, head_seq, head_hash, blobs, blob_bytes, folder_bytes, reason) "
    "SELECT id, now(), head_seq, head_hash, %s, %s, %s, %s FROM agent_execution_history WHERE id = %s"
)
_DELETE = "DELETE FROM loops_blob WHERE sha256 = ANY(%s)"
_HEADS = "SELECT id, head_seq FROM agent_execution_history"
_MARK = (
    "INSERT INTO loops_condemnedblob (sha256, at) SELECT name, clock_timestamp() FROM unnest(%s::text[]) AS name "
    "ON CONFLICT DO NOTHING"
)
_UNMARK = "DELETE FROM loops_condemnedblob WHERE sha256 <> ALL(%s)"
_RIPE = "SELECT sha256 FROM loops_condemnedblob WHERE at < clock_timestamp() - make_interval(secs => %s)"
_MAY_DELETE = "SELECT has_table_privilege(current_user, 'loops_blob', 'DELETE')"


class NotTheOwner(Exception):
    """Only the owner of the database may take bodies away."""


@dataclass(frozen=True)
class Old:
    """A run that may be pruned, and how much that frees: bodies that no run after it needs, and its own folder."""

    run: Run
    needs: frozenset[str]
    blobs: dict[str, int]
    folder: Path | None
    folder_bytes: int

    @property
    def blob_bytes(self) -> int:
        return sum(self.blobs.values())


@dataclass
class Survey:
    """``old``: in the order in which they go; ``held``: reason -> how many runs past their time stay because of it."""

    old: list[Old] = field(default_factory=list)
    held: dict[str, int] = field(default_factory=dict)
    heads: dict[uuid.UUID, int] = field(default_factory=dict)

    @property
    def bytes(self) -> int:
        return sum(old.blob_bytes + old.folder_bytes for old in self.old)


def past_their_time() -> Any:
    """Ended runs whose project keeps them no longer, by the database's clock, not pruned so far."""
    kept_until = ExpressionWrapper(
        F("completed_at") + Func(F("project__keep_days"), template=_DAYS), output_field=DateTimeField()
    )
    old = Run.objects.filter(status__in=Run.ENDED, project__keep_days__isnull=False, completed_at__isnull=False)
    return old.filter(tombstone__isnull=True).annotate(kept_until=kept_until).filter(kept_until__lt=Now())


_DAYS = "make_interval(days => %(expressions)s)"
HELD = {
    "can be resumed or tried again": Q(status=Run.Status.INTERRUPTED)
    | Q(status=Run.Status.FAILED, end_reason__in=[*RETRIABLE]),
    "waits for a person": Q(gates__status="open"),
    "was forked": Q(forks__isnull=False),
    "is being applied to its workspace": Q(deliveries__state__in=["waiting", "writing"]),
    "still has work to do": Q(runnable=True) | ~Q(owner="") | Q(mailbox__isnull=False, mailbox__consumed_seq=None),
}
"""Reasons to keep a run although its time is over."""


def survey(at_most: int = AT_ONCE) -> Survey:
    """What would go now. Reads what every kept run needs: the longer the history, the longer it takes."""
    due = past_their_time()
    found = Survey(held={why: count for why, test in HELD.items() if (count := _count(due.filter(test)))})
    runs = list(_free(due).select_related("project").order_by("completed_at")[:at_most])
    if not runs:
        return found
    found.heads = _heads()  # before the long look: whoever moves on is looked at again
    needed = _needed_by_others({run.pk for run in runs}, found.heads)
    wanted = {run.pk: blob_references.bodies([run.pk]) for run in runs}
    left = Counter(name for names in wanted.values() for name in names)
    for run in runs:
        left.subtract(wanted[run.pk].keys())
        free = {name: size for name, size in wanted[run.pk].items() if name not in needed and not left[name]}
        folder = _folder(run)
        found.old.append(Old(run, frozenset(wanted[run.pk]), free, folder, _size(folder) if folder else 0))
    return found


@dataclass
class Pruned:
    """``runs`` went and freed ``bytes``; ``marked`` more go with a later pass."""

    runs: int = 0
    bytes: int = 0
    marked: int = 0


def prune(found: Survey, *, actor: Any = None, say: Callable[[str], None] = lambda line: None) -> Pruned:
    """Let go what ``survey`` found and an earlier pass has marked; mark the rest. Raises NotTheOwner at once."""
    with connection.cursor() as cursor:
        cursor.execute(_MAY_DELETE)
        if not cursor.fetchone()[0]:
            raise NotTheOwner("the role in use may not delete: run this where DATABASE_OWNER_URL is set")
        ripe = _mark(cursor, found)
    done, spared = Pruned(), set[str]()
    for old in found.old:
        size = _prune(old, found, actor, spared) if old.blobs.keys() <= ripe else None
        if size is None:  # it stays for now, with all that it needs
            done.marked += 1
            spared |= old.needs
        else:
            done.runs, done.bytes = done.runs + 1, done.bytes + size
            say(f"{old.run.pk}: {len(old.blobs)} bodies, {old.blob_bytes:,} bytes; folder {old.folder_bytes:,} bytes")
    sweep_folders()
    return done


def _mark(cursor: Any, found: Survey) -> set[str]:
    """Mark what is to go, and nothing else; what has been marked for long enough."""
    names = [name for old in found.old for name in old.blobs]
    cursor.execute(_UNMARK, [names])
    cursor.execute(_MARK, [names])
    cursor.execute(_RIPE, [GRACE_S])
    return {name for (name,) in cursor.fetchall()}


def sweep_folders() -> int:
    """Remove the folders of pruned runs that lie on this machine; how many."""
    found = {folder.name: folder for folder in _own_folders()}
    gone = [str(run) for run in Tombstone.objects.filter(run_id__in=[*found]).values_list("run_id", flat=True)]
    for name in gone:
        shutil.rmtree(found[name], ignore_errors=True)
    return len(gone)


def _prune(old: Old, found: Survey, actor: Any, spared: set[str]) -> int | None:
    """Bytes freed; None when the run is held after all."""
    reason = f"kept for {old.run.project.keep_days} days"
    _look_again(found, spared)  # the longer part of it without the lock
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [f"{LOCK_S}s"])
        cursor.execute(_LOCK)  # no run can begin to need a body from here on
        run = Run.objects.select_for_update().get(pk=old.run.pk)
        if not _free(past_their_time()).filter(pk=run.pk).exists():
            return None
        _look_again(found, spared)
        blobs = {name: size for name, size in old.blobs.items() if name not in spared}
        size = sum(blobs.values())
        cursor.execute(_TOMBSTONE, [len(blobs), size, old.folder_bytes, reason, run.pk])
        cursor.execute("SELECT set_config('agentops.pruning', %s, true)", [str(run.pk)])
        cursor.execute(_DELETE, [list(blobs)])
        detail = {"blobs": len(blobs), "bytes": size, "folder_bytes": old.folder_bytes, "why": reason}
        audit.record("run.pruned", actor=actor, run=run, detail=detail | {"head": bytes(run.head_hash).hex()})
    return size + old.folder_bytes


def _look_again(found: Survey, spared: set[str]) -> None:
    """Spare what those runs need that wrote, or began, since the last look."""
    heads = _heads()
    spared.update(blob_references.bodies(run for run, seq in heads.items() if found.heads.get(run) != seq))
    found.heads = heads


def _heads() -> dict[uuid.UUID, int]:
    with connection.cursor() as cursor:
        cursor.execute(_HEADS)
        return dict(cursor.fetchall())


def _needed_by_others(going: set[uuid.UUID], heads: dict[uuid.UUID, int]) -> dict[str, int]:
    """Bodies that must stay: of every run that is kept whole, and the final reports of the others."""
    pruned = set(Tombstone.objects.values_list("run_id", flat=True))
    whole = [run for run in heads if run not in going and run not in pruned]
    return blob_references.bodies(whole) | blob_references.bodies([*going, *pruned], only_the_end=True)


def _folder(run: Run) -> Path | None:
    """The run's own copy; a folder that it shared is not its to take away."""
    folder = copies.root() / str(run.pk)
    return folder if folder.is_dir() and not folder.is_symlink() else None


def _own_folders() -> Iterator[Path]:
    root = copies.root()
    for folder in root.iterdir() if root.is_dir() else ():
        if folder.is_dir() and not folder.is_symlink() and _is_uuid(folder.name):
            yield folder


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_symlink() and path.is_file())


def _is_uuid(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _free(runs: Any) -> Any:
    """Those that nothing holds."""
    for test in HELD.values():
        runs = runs.exclude(pk__in=Run.objects.filter(test).values("pk"))
    return runs


def _count(runs: Any) -> int:
    return int(runs.distinct().count())


def keeping() -> list[Project]:
    """Projects that let go of old runs."""
    return list(Project.objects.filter(keep_days__isnull=False).order_by("name"))

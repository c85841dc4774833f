"""Half-made folders of workers that were lost: taken away as soon as nobody can be at work in them (SPEC J4)."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from django.utils import timezone

from loops.models import Delivery, Preflight, Run, Setup
from loops.runs.composition import command_records
from loops.storage import owners
from loops.tools.sandbox.workspace_guard import interrupted
from loops.workspaces import copies, setups

KEPT_S = 86_400
"""Of what no row knows: those of a workspace that was deleted while a worker was at it."""
_BUILT = re.compile(r"setup-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-network|-made)?")
_PUSHED = re.compile(r"push-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:-repository|-network)?")
_TRIED = re.compile(r"preflight-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
_CHECKED = re.compile(r"checkout-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})-[0-9a-f]{8}")
_COPIED = re.compile(r"\.([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.[0-9a-f]{8}")
_KEPT = re.compile(r"([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")
"""Names of folders, with the id of the row that each is of."""


def clear() -> int:
    """Those on this machine; how many."""
    _end_lost()
    gone = [*_of(copies.root(), _BUILT, _set_ups_at_work)]
    gone += _of(copies.root(), _TRIED, _tries_at_work)
    gone += _of(copies.root(), _PUSHED, _pushes_at_work)
    gone += _of(copies.root(), _COPIED, _copies_at_work)
    gone += _of(copies.root(), _CHECKED, _checks_at_work)
    gone += _of(setups.place(), _KEPT, _set_ups_wanted)
    for folder in gone:
        shutil.rmtree(folder, ignore_errors=True)
        with suppress(OSError):
            interrupted.forget(command_records(), os.path.realpath(folder))
    return len(gone)


def _end_lost() -> None:
    """Nobody may be waiting for them, who would have noticed."""
    for lost in Setup.objects.filter(state=Setup.State.RUNNING, until__lt=timezone.now()):
        setups.lose(lost)


def _of(place: Path, name: re.Pattern[str], at_work: Callable[[set[str]], dict[str, bool]]) -> Iterator[Path]:
    """Folders in ``place`` with such a name, but for those that somebody is at work in."""
    named = {path: match[1] for path in _listed(place) if (match := name.fullmatch(path.name))}
    known = at_work(set(named.values())) if named else {}
    for path, row in named.items():
        if not known[row] if row in known else _is_old(path):
            yield path


def _listed(place: Path) -> list[Path]:
    """Nothing where it cannot be read: lost runs are found all the same."""
    with suppress(OSError), os.scandir(place) as entries:
        return [Path(entry) for entry in entries]
    return []


def _is_old(folder: Path) -> bool:
    try:
        return time.time() - folder.stat().st_mtime > KEPT_S
    except FileNotFoundError:
        return False


def _set_ups_at_work(rows: set[str]) -> dict[str, bool]:
    states = Setup.objects.filter(pk__in=rows).values_list("pk", "state")
    return {str(row): state in Setup.OPEN for row, state in states}


def _set_ups_wanted(rows: set[str]) -> dict[str, bool]:
    states = Setup.objects.filter(pk__in=rows).values_list("pk", "state")
    return {str(row): state in (*Setup.OPEN, Setup.State.READY) for row, state in states}


def _tries_at_work(rows: set[str]) -> dict[str, bool]:
    return {str(row.pk): row.is_open for row in Preflight.objects.filter(pk__in=rows)}


def _pushes_at_work(rows: set[str]) -> dict[str, bool]:
    return {str(row.pk): row.is_open for row in Delivery.objects.filter(pk__in=rows)}


def _copies_at_work(rows: set[str]) -> dict[str, bool]:
    """A run's own folder is there as soon as one copy is whole."""
    found = Run.objects.filter(pk__in=rows).values_list("pk", "owner", "completed_at")
    unfinished = {run: owner for run, owner, ended in found if not ended and not (copies.root() / str(run)).is_dir()}
    return {str(run): run in unfinished and bool(owner) and not owners.is_dead(owner) for run, owner, _ in found}


def _checks_at_work(rows: set[str]) -> dict[str, bool]:
    found = Run.objects.filter(pk__in=rows).values_list("pk", "owner")
    return {str(run): bool(owner) and not owners.is_dead(owner) for run, owner in found}

"""What the workspace of a run held after any of its facts, put together from what undoing keeps anyway (SPEC O3, K3).

The list of the start, then the states that each call left, as far as they were recorded.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from loops.engine import facts as f
from loops.engine.rollback import plan
from loops.models import Blob, Run
from loops.models import Fact as FactRow
from loops.storage import facts_by_kind, journal
from loops.tools.snapshot_trees import loaded
from loops.tools.snapshots import hash_of

KEPT = ("directory", "file", "link")


def states_at(run: Run, seq: int) -> dict[str, str] | None:
    """Path to state (words of ``loops.tools.snapshots``) after fact ``seq``; None where that is not known for sure."""
    connection = journal.raw_connection()
    started = facts_by_kind.read(connection, run.pk, ("RunStarted",))
    if not started or not isinstance(started[0], f.RunStarted) or not started[0].snapshot:
        return None
    try:
        start = loaded(started[0].snapshot, _bodies).states()
    except KeyError:
        return None
    seqs = FactRow.objects.filter(run=run, kind__in=plan.LEDGER).order_by("seq").values_list("seq", flat=True)
    history = [
        fact for at, fact in zip(seqs, facts_by_kind.read(connection, run.pk, plan.LEDGER), strict=True) if at <= seq
    ]
    if not plan.is_known(history):
        return None
    states = plan.workspace_after(start, history)
    return states if all(state.partition(":")[0] in KEPT for state in states.values()) else None


def _bodies(names: Sequence[str]) -> Mapping[str, bytes]:
    rows = Blob.objects.filter(pk__in=set(names)).values_list("sha256", "body")
    return {sha256: bytes(body) for sha256, body in rows}


def fill(target: Path, states: dict[str, str]) -> bool:
    """Make the empty folder ``target`` hold ``states``. False, with the rest undone, when bytes are not stored or a
    link would lead out of it. Links come last, so that nothing is ever written through one."""
    wanted = {hash_of(state) for state in states.values()} - {""}
    blobs = {sha256: bytes(body) for sha256, body in Blob.objects.filter(pk__in=wanted).values_list("sha256", "body")}
    if wanted - blobs.keys():
        return False
    for path, state in sorted(states.items()):
        place = target / path
        if state == "directory":
            place.mkdir(parents=True, exist_ok=True)
        elif hash_of(state):
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(blobs[hash_of(state)])
            place.chmod(int(state.split(":")[1], 8) & 0o777)
    return all(_link(target, path, state) for path, state in sorted(states.items()) if state.startswith("link:"))


def _link(target: Path, path: str, state: str) -> bool:
    place, leads_to = target / path, Path(state.partition(":")[2])
    place.parent.mkdir(parents=True, exist_ok=True)
    end = Path(os.path.realpath(place.parent / leads_to))
    if leads_to.is_absolute() or not end.is_relative_to(target.resolve()):
        return False
    place.symlink_to(leads_to)
    return True

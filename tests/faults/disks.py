"""P20: a full or broken disk under the journal or a workspace: it stops, says so, and goes on when the disk does."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from agentops.embedded.process import nobody
from loops.engine import facts as f
from loops.storage import reader
from loops.workspaces.copies import prepare
from tests.faults import house, lean, ledger, oracle, stand
from tests.faults.broken_disks import CALLS, journal_refused, must_trace, refused
from tests.faults.databases import owner
from tests.faults.outcome import Found, Outcome, first_harm

SCRIPT = "keeps_trying"
LONG = "long_haul"


class NoMount(Exception):
    """This process may not mount anything: a small disk cannot be made here."""


def check(count: int) -> list[Outcome]:
    """``count`` runs each over a journal and a workspace whose disk is full, or answers with errors, for a while."""
    must_trace()
    outcome = Outcome("P20", faults=2 * count + (len(CALLS) + 1) * count)
    for _ in range(count):
        for call in CALLS:
            outcome.found += refused(call)
        outcome.found += journal_refused()
    unheard = first_harm(lambda: refused("fsync", off=["disk"]), "nobody was told", 1)
    with small_disk(8) as disk:
        for _ in range(count):
            outcome.found += full_workspace(disk)
    with small_disk(_megabytes_of_facts() + 8) as disk, journal_on(disk):
        for _ in range(count):
            outcome.found += full_journal(disk)
        harm = unnoticed(disk)
    outcome.control = f"{harm}; {unheard}" if harm and unheard else ""
    return [outcome]


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    place = Path(tempfile.mkdtemp(prefix="disk-", dir=stand.STAND.paths.state))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=755", "tmpfs", place], check=False)
    if mounted.returncode:
        place.rmdir()
        raise NoMount(f"a small disk cannot be mounted at {place}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", place], check=True)
        place.rmdir()


@contextlib.contextmanager
def full(disk: Path) -> Iterator[None]:
    """Not a byte is left."""
    filler = disk / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    with contextlib.suppress(OSError):
        while True:
            os.write(descriptor, b"x" * 4096)
    os.close(descriptor)
    try:
        yield
    finally:
        filler.unlink()


@contextlib.contextmanager
def journal_on(disk: Path) -> Iterator[None]:
    """The facts lie on the small disk; everything else stays where it is."""
    place = disk / "tablespace"
    place.mkdir()
    if os.getuid() == 0:
        os.chown(place, *nobody())
    with owner() as connection:
        connection.execute(f"CREATE TABLESPACE small LOCATION '{place}'")
        connection.execute("ALTER TABLE loops_fact SET TABLESPACE small")
        try:
            yield
        finally:
            connection.execute("ALTER TABLE loops_fact SET TABLESPACE pg_default")
            connection.execute("DROP TABLESPACE small")


def _megabytes_of_facts() -> int:
    with owner() as connection:
        row = connection.execute("SELECT pg_total_relation_size('loops_fact') / 1048576").fetchone()
        assert row is not None
        return int(str(row[0]))


def full_journal(disk: Path) -> Found:
    """Nothing happens in the world that cannot be written down, and nothing is lost."""
    run = house.submit(LONG)
    with full(disk):
        for _ in range(2):
            lean.drive(run)
            lean.lapse(run)
        found = oracle.unannounced(run)
        run.refresh_from_db()
        if run.completed_at is not None:
            found.broken.append(f"{run.pk}: {run.status} although nothing could be written")
    lean.finish(run)
    found += oracle.examine(run)
    if run.status != "completed" or ledger.done(run.pk, "stage 6") != 1:
        found.lost.append(f"{run.pk}: {run.status} {run.end_reason} after there was room again")
    return found


def full_workspace(disk: Path) -> Found:
    """The call that writes fails and says why; with room again it is made good."""
    from django.conf import settings

    settings.AGENTOPS_WORKSPACES = str(disk / "workspaces")
    try:
        run = house.submit(SCRIPT)
        prepare(run)
        with full(disk):
            lean.drive(run)
        lean.finish(run)
        found = oracle.examine(run)
        said = [fact.error for fact in reader.history(run.pk) if isinstance(fact, f.StepCompleted)]
        if not any("space" in error for error in said):
            found.broken.append(f"{run.pk}: nobody was told that the disk was full: {said}")
        return found
    finally:
        del settings.AGENTOPS_WORKSPACES
        shutil.rmtree(disk / "workspaces", ignore_errors=True)


def unnoticed(disk: Path) -> str:
    """The control: a worker that goes on although the journal refused what it wrote."""
    run = house.submit(LONG)
    with full(disk):
        for _ in range(2):
            lean.drive(run, off=["refusal"])
            lean.lapse(run)
        harm = oracle.unannounced(run).all
    return harm[0].partition(": ")[2] if harm else ""

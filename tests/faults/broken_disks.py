"""P20, the other half: the disk answers EIO. ``strace`` lets system calls of a worker, or of the database, fail."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from agentops.embedded import postgres
from loops.engine import facts as f
from loops.storage import reader
from tests import leftovers
from tests.faults import house, lean, ledger, oracle, stand
from tests.faults.outcome import Found

SCRIPT = "keeps_trying"
LONG = "long_haul"
CALLS = ("fsync", "openat2", "?renameat,renameat2")
"""What a file tool asks of the disk, in the order of a write: each may be refused."""
ATTACHED_WITHIN_S = 120.0


class CannotTrace(Exception):
    """This process may not trace another one: no call can be made to fail."""


def must_trace() -> None:
    """Try it once where it can be seen, instead of in a child. Raises CannotTrace."""
    try:
        tried = subprocess.run(
            ["strace", "-qq", "-e", "inject=fsync:error=EIO", sys.executable, "-c", "import os; os.fsync(0)"],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise CannotTrace("there is no strace (apt-get install strace)") from error
    if "EIO" not in tried.stderr:
        raise CannotTrace(f"strace may not trace here: {tried.stderr.strip()[-300:]}")


def refused(call: str, off: Sequence[str] = ()) -> Found:
    """The tool that writes fails and says why; on a mended disk it is made good."""
    run = house.submit(SCRIPT)
    lean.drive(run, off=off, setup=lambda: _refuse_to_me(call))
    told = [fact.error for fact in reader.history(run.pk) if isinstance(fact, f.StepCompleted)]
    lean.finish(run)
    found = oracle.examine(run)
    if not any("Input/output error" in error for error in told):
        found.broken.append(f"{run.pk}: {call}: nobody was told that the disk failed: {told}")
    if run.status == "completed" and not (oracle.end_of(run)["note"] or "").startswith("paid at "):
        found.lost.append(f"{run.pk}: {call}: it ended, and what it should have written is not there")
    if run.status != "completed":
        found.lost.append(f"{run.pk}: {call}: {run.status} {run.end_reason} on a disk that works again")
    return found


def journal_refused() -> Found:
    """The database cannot make a commit durable and gives up; nothing happens that it does not know."""
    run = house.submit(LONG)
    server = stand.STAND.postgres
    assert server is not None
    with _refusing(server.pid, "fsync,fdatasync"):
        lean.drive(run)
        gave_up = stand.wait_for(lambda: not postgres.is_ready(stand.STAND.paths), 120) >= 0
    stand.STAND.crash_postgres()
    stand.STAND.start_postgres()
    found = oracle.unannounced(run)
    run.refresh_from_db()
    if run.completed_at is not None or not gave_up:
        found.broken.append(f"{run.pk}: {run.status}, and the server goes on, although no commit could be made durable")
    lean.lapse(run)
    lean.finish(run)
    found += oracle.examine(run)
    if run.status != "completed" or ledger.done(run.pk, "stage 6") != 1:
        found.lost.append(f"{run.pk}: {run.status} {run.end_reason} on a disk that works again")
    return found


def _refuse_to_me(call: str) -> None:
    """From now on this process gets EIO."""
    tracer = _trace(os.getpid(), call)
    assert stand.wait_for(lambda: _is_traced(os.getpid()), ATTACHED_WITHIN_S) >= 0, tracer.poll()


@contextlib.contextmanager
def _refusing(pid: int, call: str) -> Iterator[None]:
    """A process and all that it starts get EIO."""
    tracer = _trace(pid, call)
    try:
        assert stand.wait_for(lambda: _is_traced(pid), ATTACHED_WITHIN_S) >= 0, tracer.poll()
        yield
    finally:
        tracer.terminate()
        tracer.wait()


def _trace(pid: int, call: str) -> subprocess.Popen[bytes]:
    from django.conf import settings

    with (settings.PATHS.logs / "strace.log").open("ab") as log:
        argv = ["strace", "-qq", "-f", "-p", str(pid), "-e", f"trace={call}", "-e", f"inject={call}:error=EIO"]
        return subprocess.Popen(argv, stdout=log, stderr=log, preexec_fn=leftovers.tied())


def _is_traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return "TracerPid:\t0\n" not in status

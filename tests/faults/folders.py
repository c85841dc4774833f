"""P24: a worker is killed at any moment of what it does around a person's folder: that is as it was, or has all of the
result; what was ordered goes on and ends, and nothing of ours stays (SPEC J4, R4, X3)."""

from __future__ import annotations

import base64
import hashlib
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from django.db import connection
from django.utils import timezone

from loops.models import Run, Setup
from loops.runs.composition import command_records
from loops.storage.dispatch import dispatch
from loops.tools.sandbox.workspace_guard.protected_files import PLACEHOLDER
from loops.workspaces import copies
from tests.faults import fingerprints, house, stand, workers
from tests.faults.fingerprints import OURS, Look, differing, git, look
from tests.faults.outcome import Found, Outcome, TimedOut, first_harm
from tests.faults.stages import STAGES, TOKEN, VARIABLE, Order, Person, Stage, person

PATIENCE_S = 120.0
GONE_S = 5.0
"""Within which the commands of a dead worker are gone, and within which who comes next has cleared up."""
FEW = 5
HOLDS_A_PLACE = hashlib.sha256(PLACEHOLDER).hexdigest()
ASKED = ("tool_approval", "in_doubt")
ONLY = os.environ.get("AGENTOPS_FAULTS_STAGES", "")
"""Names of stages with commas between them; all of them without."""
TRIES = 30
"""For each kill: a stage may be over before its moment has come."""
ENCODED = base64.b64encode(f"x-access-token:{TOKEN}".encode()).decode()
CONTROLS = (("begun", "apply", "neither"), ("stray", "set-up", "left"))
"""The guard that is off, the stage whose worker dies, and a word of the harm that must be found."""


@dataclass
class Row:
    """What came of the kills of one stage."""

    stage: Stage
    whole: Look
    """How the folder is when all of it is done."""
    length: float
    kills: int = 0
    after: Counter[str] = field(default_factory=Counter)
    """How the folder was right after each death."""
    at_end: Counter[str] = field(default_factory=Counter)
    left: int = 0
    found: Found = field(default_factory=Found)

    @property
    def line(self) -> str:
        states = f"{self.after['as it was']:>10}{self.after['whole']:>7}{self.after['half']:>6}"
        ends = f"{self.at_end['as it was']:>12}{self.at_end['whole']:>7}{self.left:>6}"
        return f"{self.stage.name:<16}{self.length:>8.2f}{self.kills:>7}{states}{ends}"


TABLE = (
    f"{'':<31}{'right after the death':>23}{'at the end':>19}",
    f"{'stage':<16}{'seconds':>8}{'kills':>7}{'as it was':>10}{'whole':>7}{'half':>6}"
    f"{'as it was':>12}{'whole':>7}{'left':>6}",
)


def check(count: int) -> list[Outcome]:
    """``count`` kills in each stage, spread over its length."""
    outcome, rows = Outcome("P24", notes=list(TABLE)), dict[str, Row]()
    with person() as someone:
        with killing() as at_work:
            _work(someone, at_work)
            for stage in (one for one in STAGES if not ONLY or one.name in ONLY.split(",")):
                row = rows[stage.name] = _row(stage, count, someone, at_work)
                print(row.line, *row.found.all[:5], sep="\n    ", file=sys.stderr, flush=True)
                outcome.notes.append(row.line)
                outcome.faults += row.kills
                outcome.found += row.found
        outcome.found.broken += [f": {TOKEN[:3]}... is in {place}" for place in _told()]
        controls = [_control(someone, rows[name], guard, word) for guard, name, word in CONTROLS if name in rows]
        outcome.control = "; ".join(controls) if all(controls) else ""
        if ONLY and not controls:
            outcome.control = "none: those are in other stages"
    return [outcome]


@contextmanager
def killing(*off: str) -> Iterator[workers.Workers]:
    """A worker with a temporary folder of the stand's own, and the token."""
    place = _temporary()
    place.mkdir(exist_ok=True)
    place.chmod(0o1777)
    environ = {"TMPDIR": str(place), VARIABLE: TOKEN}
    with workers.at_work(workers.Relieved("threads", 4, off=off, **environ)) as at_work:
        yield at_work


def _temporary() -> Path:
    return Path(stand.STAND.paths.state) / "tmp"


def _row(stage: Stage, count: int, someone: Person, at_work: workers.Workers) -> Row:
    row = Row(stage, *_faultless(stage, someone, at_work, 2 if count > FEW else 1))
    length = row.length
    moments = [(number + random.random()) / count * length for number in range(count)]
    random.shuffle(moments)
    for moment in moments:
        _killed_in_time(row, moment, someone, at_work)
    if row.kills < count:
        row.found.broken.append(f": {count - row.kills} of {count} kills came after {stage.name} was over")
    return row


def _faultless(stage: Stage, someone: Person, at_work: workers.Workers, times: int) -> tuple[Look, float]:
    """How the folder is when all of it is done, and how long the stage takes: anew where that was over before anybody
    on a busy machine looked."""
    lengths = list[float]()
    for _ in range(TRIES):
        someone.renew()
        before = _looked(stage, someone.folder)
        order = stage.order(someone)
        _until(lambda order=order: order.is_at_it() or order.is_over(), order)
        began, was_seen = time.monotonic(), not order.is_over()
        _until(order.is_over, order)
        lengths += [time.monotonic() - began] * was_seen
        _see_through(order, at_work)
        assert order.came_to() == stage.wanted, f"{stage.name}: {order.came_to()} {_told_of(order)}"
        whole = _looked(stage, someone.folder)
        assert bool(differing(before, whole)) == bool(stage.writes), f"{stage.name}: {differing(before, whole)[:5]}"
        if len(lengths) == times:
            return whole, max(lengths)
    raise TimedOut(f"{stage.name} was over {TRIES} times before anybody saw it")


def _killed_in_time(row: Row, moment: float, someone: Person, at_work: workers.Workers) -> None:
    """Earlier and earlier, where it was over by then."""
    for _ in range(TRIES):
        if _killed(row, moment, someone, at_work):
            return
        moment *= random.random()


def _killed(row: Row, moment: float, someone: Person, at_work: workers.Workers) -> bool:
    """One order whose worker dies at ``moment``; False where it was over by then."""
    stage, whole = row.stage, row.whole
    someone.renew()
    before = _looked(stage, someone.folder)
    order = stage.order(someone)
    _until(lambda: order.is_at_it() or order.is_over(), order)
    time.sleep(moment)
    assert at_work.process is not None
    worker = psutil.Process(at_work.process.pid)
    worker.suspend()  # at this moment, not when its commands have been listed
    doomed = [worker.pid, *(child.pid for child in worker.children(True))]
    at_work.kill()
    was_in_time = not order.is_over()
    found, where = Found(), f"{order.about}: {stage.name}, killed after {moment:.3f} s of {row.length:.3f}"
    survivors = stand.wait_for(lambda: not [pid for pid in doomed if psutil.pid_exists(pid)], stand.within(GONE_S)) < 0
    state, odd = _state(stage, before, whole, someone.folder, just_killed=True)
    found.broken += [f"{where}: right after it {path} is neither as it was nor as it shall be" for path in odd]
    if survivors:
        found.broken.append(f"{where}: its commands are left")
    order.time_passes()
    if not _see_through(order, at_work):
        found.lost.append(f"{where}: has not ended, {_told_of(order)}")
    elif order.came_to() != stage.wanted:
        found.lost.append(f"{where}: ended as {order.came_to()!r}, not as {stage.wanted!r}{_why_not(order)}")
    at_end, odd = _state(stage, before, whole, someone.folder)
    found.broken += [f"{where}: at the end {path} is neither as it was nor as it shall be" for path in odd]
    if at_end != ("whole" if stage.writes else "as it was"):
        found.broken.append(f"{where}: at the end the folder is neither as it was nor whole, but {at_end}")
    left = _left(someone, at_work)
    found.broken += [f"{where}: left {one}" for one in left]
    row.found += found
    if was_in_time:
        row.kills += 1
        row.after[state] += 1
        row.at_end[at_end] += 1
        row.left += bool(left)
    return was_in_time


def _state(
    stage: Stage, before: Look, whole: Look, folder: Path, *, just_killed: bool = False
) -> tuple[str, list[str]]:
    """(as it was, whole or half, what is neither). What holds a place for a command that was about to begin may stand
    until the next look at the folder, which knows it by its bytes (protected_files.py)."""
    now = _looked(stage, folder)
    if just_killed and stage.mounts:
        now = {path: entry for path, entry in now.items() if entry.holds != HOLDS_A_PLACE}
    if stage.writes == "branch":
        return _state_of_branch(before, now, folder)
    drafts = [path for path in now if Path(path).name.startswith(".agentops-")]
    odd = [path for path in fingerprints.halves(before, whole, now) if path not in drafts]
    if not differing(before, now):
        return "as it was", odd
    return ("whole" if stage.writes and fingerprints.is_whole(whole, now) else "half"), odd


def _state_of_branch(before: Look, now: Look, folder: Path) -> tuple[str, list[str]]:
    """Nothing but objects and the branch is new; git itself finds nothing wrong."""
    odd = differing(fingerprints.without(before, OURS), fingerprints.without(now, OURS))
    odd += [path for path, was in before.items() if path.startswith(OURS[0]) and _taken(was, now.get(path))]
    if said := git(folder, "fsck", "--strict", "--no-dangling"):
        odd.append(f"git fsck: {said[:200]}")
    branches = git(folder, "for-each-ref", "--format=%(refname)", "refs/heads/agentops").split()
    return "whole" if branches else "as it was" if len(now) == len(before) else "half", odd


def _looked(stage: Stage, folder: Path) -> Look:
    found = look(folder)
    return found | {".": found["."].lasting} if stage.mounts else found


def _taken(was: fingerprints.Entry, now: fingerprints.Entry | None) -> bool:
    return now is None or was.lasting != now.lasting


def _see_through(order: Order, at_work: workers.Workers) -> bool:
    """Workers, the clock and a person do what there is to do until it has ended."""
    deadline, swept = time.monotonic() + PATIENCE_S, 0.0
    while not order.came_to():
        at_work.keep()
        if order.run is not None and not _look_after(order.run):
            return False
        if time.monotonic() - swept > 0.5:
            dispatch("loops.sweep")
            swept = time.monotonic()
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    at_work.keep()
    return True


def _look_after(run: Run) -> bool:
    """The lease of a lost worker runs out, what waits a while looks again, and a person decides what has to be asked;
    False where something else is."""
    run.refresh_from_db()
    if (gate := house.open_gate(run)) is not None:
        if gate.kind not in ASKED:
            return False
        house.decide(gate)
    if run.owner and not workers.is_alive(run.owner):
        workers.lapse_at_once(run)
    waiting = Run.objects.filter(pk=run.pk, owner="", wake_at__isnull=False)
    waiting.update(wake_at=timezone.now(), lease_until=None)
    return True


def _until(condition: Callable[[], bool], order: Order) -> None:
    """A person decides meanwhile."""

    def holds() -> bool:
        return condition() or (order.run is not None and not _look_after(order.run))

    if stand.wait_for(holds, PATIENCE_S, 0.002) < 0:
        raise TimedOut(f"{order.about} has not begun: {_told_of(order)}\n{workers.last_words()}")


def _told_of(order: Order) -> str:
    run = order.run
    if run is None:
        return "it is open"
    gate = house.open_gate(run)
    return f"{run.status} {run.waiting_on} {gate.view if gate is not None else ''}"[:600]


def _why_not(order: Order) -> str:
    """What was fetched or set up for it and did not succeed, and what it wrote."""
    if order.run is None:
        return ""
    rows = Setup.objects.filter(workspace=order.run.task.workspace).exclude(state=Setup.State.READY)
    return "".join(f"; {row.kind} {row.state}: {row.why_not} {row.requests} {row.log[-600:]!r}" for row in rows)


def _left(someone: Person, at_work: workers.Workers) -> list[str]:
    """What there still is of ours in the folder, or beside it, once who came next had the time to clear up."""
    found: list[str] = []

    def is_clear() -> bool:
        dispatch("loops.sweep")
        found[:] = [*_left_in(someone.folder), *_left_beside(at_work)]
        return not found

    stand.wait_for(is_clear, stand.within(GONE_S), 0.2)
    return found


def _left_in(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        name = path.name
        is_ours = name.startswith((".agentops", "tmp_obj_")) or name.endswith((".lock", ".tmp"))
        is_half = path.parent.name == "agentops" and path.is_file() and name.startswith(".")
        if is_ours or is_half or path.is_socket():
            yield str(path.relative_to(folder))


def _left_beside(at_work: workers.Workers) -> Iterator[str]:
    """In the folder of all runs, among the records of commands, and among temporary files."""
    runs = set(map(str, Run.objects.values_list("pk", flat=True)))
    ready = set(map(str, Setup.objects.filter(state=Setup.State.READY).values_list("pk", flat=True)))
    for path in copies.root().iterdir():
        if path.name == "setups":
            yield from (f"setups/{made.name}" for made in path.iterdir() if made.name not in ready)
        elif path.name not in runs:
            yield path.name
    with suppress(FileNotFoundError):
        yield from (f"commands/{path.name}" for path in Path(command_records()).iterdir())
    assert at_work.process is not None
    mine = f"agentops-worker-{at_work.process.pid}-"
    for path in _temporary().iterdir():
        yield from (f"tmp/{one.name}" for one in (path.iterdir() if path.name.startswith(mine) else [path]))


def _told() -> list[str]:
    """Logs and tables in which the token stands, as it is or as git sends it."""
    words = (TOKEN.encode(), ENCODED.encode())
    logs = [log for log in stand.STAND.paths.logs.iterdir() if any(word in log.read_bytes() for word in words)]
    found = [log.name for log in logs]
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        for (table,) in cursor.fetchall():
            cursor.execute(
                f'SELECT 1 FROM "{table}" t WHERE t::text LIKE %s OR t::text LIKE %s LIMIT 1',
                [f"%{TOKEN}%", f"%{ENCODED}%"],
            )
            found += [table] * bool(cursor.fetchall())
    return found


def _work(someone: Person, at_work: workers.Workers) -> None:
    """The result that is committed and applied."""
    someone.renew()
    order = someone.work()
    _see_through(order, at_work)
    assert order.came_to() == "completed", f"{order.about}: {_told_of(order)}"


def _control(someone: Person, kept: Row, guard: str, word: str) -> str:
    """The first harm of the wanted kind with the guard off."""

    def once(at_work: workers.Workers) -> Found:
        row = Row(kept.stage, kept.whole, kept.length)
        _killed_in_time(row, row.length * random.uniform(0.4, 0.9), someone, at_work)
        return row.found

    with killing(guard) as at_work:
        return first_harm(lambda: once(at_work), word, 20)

"""P1, P2, P3: kill -9 at every crash point, go on with another worker, compare the WAL with the world."""

from __future__ import annotations

import itertools
import random
import signal
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from loops.crash_points import CrashPoint
from loops.models import Run
from tests.faults import house, lean, oracle, workers
from tests.faults.outcome import Found, Outcome, first_harm

SCRIPT = "moves_money"
ELSEWHERE = {CrashPoint.BETWEEN_COMPENSATIONS}
"""Points that no run without a rollback passes; P13 kills there."""
PEOPLES_POINTS = {CrashPoint.SUBMITTED, CrashPoint.DECIDED}
"""Where not a worker dies, but who submits or decides."""
POINTS = [point for point in CrashPoint if point not in ELSEWHERE]
WORKERS_POINTS = [point for point in POINTS if point not in PEOPLES_POINTS]
CONTROLS = {
    "P1": ("intent", 1, "before its INTENT"),
    "P2": ("doubt", 2, "happened"),
    "P3": ("key", 1, "keys"),
}
"""The guard that is off, which effect its worker dies of, and a word of the harm that must be found."""


@dataclass
class Life:
    """One run with the deaths it died of and the harm that was found."""

    deaths: list[CrashPoint]
    found: Found


def check(count: int) -> list[Outcome]:
    """``count`` kills spread evenly over the points."""
    wanted = faultless()
    shares = [POINTS[number % len(POINTS)] for number in range(count)]
    random.shuffle(shares)
    lives = lean.lanes(lambda lane, share: _lane(shares[lane::2], share, wanted), count)
    lives += [life for pool in ("prefork", "threads") for life in through_celery(pool, _sample(count), wanted)]
    deaths = Counter(point for life in lives for point in life.deaths)
    found = Found()
    for life in lives:
        found += life.found
    missing = [point.name for point in POINTS if count >= 10 * len(POINTS) and not deaths[point]]
    if missing:
        found.broken.append(f"nobody died at {', '.join(missing)}")
    notes = [f"{len(lives)} runs; kills at each point: {min(deaths.values())} to {max(deaths.values())}"]
    return [
        Outcome(promise, sum(deaths.values()), harm, control(promise), notes)
        for promise, harm in zip(CONTROLS, _by_promise(found), strict=True)
    ]


def _by_promise(found: Found) -> tuple[Found, Found, Found]:
    """What was doubled breaks P2; an outcome without its effect, or attempts with several keys, P3; the rest P1."""
    kept = Found(
        lost=[harm for harm in found.lost if "no effect" in harm],
        broken=[harm for harm in found.broken if "keys" in harm],
    )
    rest = Found(
        lost=[harm for harm in found.lost if harm not in kept.lost],
        broken=[harm for harm in found.broken if harm not in kept.broken],
    )
    return rest, Found(doubled=found.doubled), kept


def faultless() -> dict[str, object]:
    """The end of a run to which nothing happens."""
    run = house.submit(SCRIPT)
    assert lean.finish(run), run.status
    harm = oracle.examine(run).all
    assert not harm, harm
    return oracle.end_of(run)


def _lane(points: Sequence[CrashPoint], kills: int, wanted: dict[str, object]) -> list[Life]:
    """One life after the other until enough have died."""
    lives: list[Life] = []
    for point in itertools.cycle(points):
        lives.append(life(point, wanted))
        if sum(len(life.deaths) for life in lives) >= kills:
            return lives
    return lives


def _sample(count: int) -> list[CrashPoint]:
    """Points for each pool of real workers: all of them three times in full form."""
    return WORKERS_POINTS * 3 if count >= 1000 else random.sample(WORKERS_POINTS, min(len(WORKERS_POINTS), count // 20))


def through_celery(pool: str, points: Sequence[CrashPoint], wanted: dict[str, object]) -> list[Life]:
    """The same points in a real worker: of its pool one process dies, the broker and the sweeper find who goes on."""
    lives: list[Life] = []
    with workers.at_work(workers.Workers(pool)) as at_work:
        for point in points:
            order = workers.order_death(point.name)
            runs = [house.submit(SCRIPT) for _ in range(2)]
            workers.see_through(runs, at_work, 120)
            found = Found()
            for run in runs:
                found += oracle.examine(run, wanted)
            if not workers.died(order):
                found.broken.append(f"{pool}: nobody died at {point.name}")
            lives.append(Life([point], found))
    return lives


def life(point: CrashPoint, wanted: dict[str, object] | None, off: Sequence[str] = (), count: int = 0) -> Life:
    """Submit a run and kill whoever works for it at ``point``; then let others go on, a few of whom die as well."""
    first = lean.Death(point, count or (random.choice((1, 1, 2)) if point is not CrashPoint.SUBMITTED else 1))
    run, deaths, found = _submitted(first)
    while len(deaths) < 4 and not _ended(run):
        death = first if not deaths else _another()
        if not _step(run, death, deaths, off):
            break
        found += oracle.unannounced(run)
    lean.finish(run, off=off)
    found += oracle.examine(run, wanted)
    return Life(deaths, found)


def _submitted(death: lean.Death) -> tuple[Run, list[CrashPoint], Found]:
    """A run; where whoever submits it is to die, another process does, and the key finds what it left."""
    if death.point is not CrashPoint.SUBMITTED:
        return house.submit(SCRIPT), [], Found()
    key = f"key-{random.getrandbits(64):x}"
    died = lean.wait(lean.fork(lambda: house.submit(SCRIPT, key=key), death=death)) == signal.SIGKILL
    before = Run.objects.filter(task__idempotency_key=key).count()
    found = Found() if before == 1 else Found(lost=[f"{before} runs of {key} after the death of who submitted it"])
    return house.submit(SCRIPT, key=key), [death.point] if died else [], found


def _another() -> lean.Death | None:
    """Every second heir dies too."""
    return lean.Death(random.choice(POINTS), random.choice((1, 2))) if random.random() < 0.5 else None


def _step(run: Run, death: lean.Death | None, deaths: list[CrashPoint], off: Sequence[str]) -> bool:
    """One worker, or one person, goes on; False when nobody is to die any more."""
    if death is None:
        return False
    house.look_after(run)
    gate = house.open_gate(run)
    if gate is None:
        ended = lean.drive(run, death=death, off=off)
    elif death.point is CrashPoint.DECIDED:
        ended = lean.wait(lean.fork(lambda: house.decide(gate), death=death))
    else:
        house.decide(gate)
        ended = lean.drive(run, death=death, off=off)
    if ended == signal.SIGKILL:
        deaths.append(death.point)
    lean.lapse(run)
    return True


def _ended(run: Run) -> bool:
    run.refresh_from_db()
    return run.completed_at is not None


def control(promise: str, tries: int = 8) -> str:
    """The first harm of the wanted kind with the guard off."""
    guard, count, word = CONTROLS[promise]
    return first_harm(lambda: life(CrashPoint.EFFECT_DONE, None, [guard], count).found, word, tries)

"""P21: whatever a model or a tool says is stored as it was said, and no worker goes round in circles over it.

A worker that fails at one place ends the run after three times. A run whose workers are killed waits for a person after
two of them, and goes on as often as somebody lets it.
"""

from __future__ import annotations

from collections.abc import Sequence

from loops.crash_points import CrashPoint
from loops.engine import facts as f
from loops.runs import recovery
from loops.storage import reader
from tests.faults import house, lean, oracle
from tests.faults.outcome import Found, Outcome, first_harm
from tests.faults.payloads import HUGE, PAYLOADS, text_of

SCRIPT = "says_poison"
WORKERS_AT_MOST = 8
"""So many may be lost over one run before it is given up for good."""


def check(count: int) -> list[Outcome]:
    """``count`` poisoned answers and tool results in turn, workers that fail at one place, workers that are killed."""
    outcome = Outcome("P21", faults=2 * count + recovery.FAILURES_AT_MOST + recovery.LOSSES_AT_MOST)
    if count >= 40:
        PAYLOADS["megabytes"] = lambda: "x" * HUGE
    kinds = [list(PAYLOADS)[number % len(PAYLOADS)] for number in range(count)]
    for found in lean.lanes(lambda lane, share: [survived(kind) for kind in kinds[lane::2]], count):
        outcome.found += found
    outcome.found += given_up()
    outcome.found += only_lost()
    controls = [
        first_harm(lambda: survived("nul", off=["clean"]), "failed internal_error", 1),
        first_harm(lambda: given_up(off=["say_why"]), "failures it is", 1),
        first_harm(lambda: only_lost(off=["aside"]), "killed over it it is", 1),
    ]
    outcome.control = "; ".join(controls) if all(controls) else ""
    return [outcome]


def survived(kind: str, off: Sequence[str] = ()) -> Found:
    """The run goes on to its end, and the journal holds the very words."""
    run = house.submit(SCRIPT, goal=f"Speak poison={kind} please", limits={"max_tokens": 10**9})
    lean.finish(run, off=off, rounds=WORKERS_AT_MOST)
    found = oracle.examine(run)
    if run.status != "completed":
        found.lost.append(f"{run.pk}: {kind}: {run.status} {run.end_reason}")
        return found
    said = [fact.text for fact in reader.history(run.pk) if isinstance(fact, f.ModelAnswered)]
    if text_of(kind) not in said:
        found.lost.append(f"{run.pk}: {kind}: the journal does not hold what was said")
    if run.epoch > 1:
        found.broken.append(f"{run.pk}: {kind}: {run.epoch - 1} workers were lost over it")
    return found


def given_up(off: Sequence[str] = ()) -> Found:
    """Three workers fail at the same place; the next ends the run with a report that says where."""
    run = house.submit(SCRIPT, goal="Speak poison=bug please")
    for _ in range(recovery.FAILURES_AT_MOST + 1):
        lean.drive(run, off=off)
        lean.lapse(run)
    run.refresh_from_db()
    report = reader.report(run.pk) or {}
    if (run.status, report.get("kind")) != ("failed", "FailureReport") or "says_poison.py" not in str(report):
        return Found(broken=[f"{run.pk}: after {run.epoch - 1} failures it is {run.status}, {report.get('kind')}"])
    return oracle.examine(run)


def only_lost(off: Sequence[str] = ()) -> Found:
    """After two workers that were killed over it a person is asked; let on each time, it ends as it should."""
    run = house.submit(SCRIPT, goal="Speak poison=nul please")
    for number in range(recovery.LOSSES_AT_MOST):
        if number and number % recovery.DEATHS_AT_MOST == 0:
            lean.drive(run, off=off)
            run.refresh_from_db()
            if run.paused_by != recovery.WATCHDOG:
                return Found(broken=[f"{run.pk}: after {number} workers that were killed over it it is {run.status}"])
            house.look_after(run)
        lean.drive(run, off=off, death=lean.Death(CrashPoint.MODEL_ASKED))
        lean.lapse(run)
    lean.finish(run, off=off)
    found = oracle.examine(run)
    if run.status != "completed":
        found.lost.append(f"{run.pk}: {run.epoch - 1} workers were killed over it: {run.status} {run.end_reason}")
    return found

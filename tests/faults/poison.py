"""P21: whatever a model or a tool says is stored as it was said, and no worker goes round in circles over it."""

from __future__ import annotations

from collections.abc import Sequence

from loops.engine import facts as f
from loops.storage import reader
from tests.faults import house, lean, oracle
from tests.faults.outcome import Found, Outcome, first_harm
from tests.faults.payloads import HUGE, PAYLOADS, text_of

SCRIPT = "says_poison"
WORKERS_AT_MOST = 8
"""So many may be lost over one run before it is given up for good."""


def check(count: int) -> list[Outcome]:
    """``count`` poisoned answers and tool results in turn, and a worker that fails at the same place every time."""
    outcome = Outcome("P21", faults=2 * count + 1)
    if count >= 40:
        PAYLOADS["megabytes"] = lambda: "x" * HUGE
    kinds = [list(PAYLOADS)[number % len(PAYLOADS)] for number in range(count)]
    for found in lean.lanes(lambda lane, share: [survived(kind) for kind in kinds[lane::2]], count):
        outcome.found += found
    outcome.found += given_up()
    outcome.control = first_harm(lambda: survived("nul", off=["clean"]), "", 1)
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


def given_up() -> Found:
    """A run over which every worker fails is failed with a report."""
    run = house.submit(SCRIPT, goal="Speak poison=bug please")
    for _ in range(WORKERS_AT_MOST):
        lean.drive(run)
        lean.lapse(run)
    run.refresh_from_db()
    report = reader.report(run.pk) or {}
    if (run.status, report.get("kind")) != ("failed", "FailureReport"):
        return Found(broken=[f"{run.pk}: after {run.epoch} workers it is {run.status}, {report.get('kind')}"])
    return oracle.examine(run)

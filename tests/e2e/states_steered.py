"""Every state in which people steer a run, and what they do to it there: tried by a test, measured by a benchmark."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

from gates.models import Gate
from loops.models import Run
from loops.services import steering
from tests.e2e.crew import Crew, facts, latest, owner
from tests.stack import wait_until

LASTS_S = 50
"""How long each state lasts at least, unless somebody hears that it is to end."""
NAPS = {"AGENTOPS_CREW_NAP_S": str(LASTS_S + 10)}
"""For the worker: a backoff of that length is slept through by it, a longer one is left to the clock."""
STREAM: dict[str, Any] = {"words": "word " * 1_200, "pace": 0.05}
TOOL = {"calls": [["run_tests", {"command": "sleep 300"}]]}
ASK: dict[str, Any] = {"calls": [["ask_question", {"question": "Which?"}]]}
Heard = Callable[[str, Callable[[], object]], None]
"""Waits until a condition holds: what was done, and how one sees that it was heard."""


def waits(run: Run) -> bool:
    """Was a backoff begun, and does it last?"""
    return len(facts(run, "BackoffStarted")) > len(facts(run, "BackoffEnded"))


STATES: dict[str, tuple[list[dict[str, Any]], Callable[[Run], bool]]] = {
    "mid-stream": ([STREAM], lambda run: latest(run) == "ModelRequested"),
    "mid-tool": ([TOOL], lambda run: latest(run) == "ToolIntended"),
    "mid-backoff": ([{"error": LASTS_S}], lambda run: waits(run) and owner(run) != 0),
    "on a timer": ([{"error": 2 * LASTS_S}], lambda run: waits(run) and owner(run) == 0),
    "at a gate": ([ASK], lambda run: Gate.objects.filter(run=run, status="open").exists() and owner(run) == 0),
}


def status(run: Run) -> str:
    run.refresh_from_db()
    return str(run.status)


def steer(crew: Crew, state: str, heard: Heard) -> Run:
    """A run that is brought into the state, told something there, paused, resumed, stopped, and resumed again."""
    answers, arrived = STATES[state]
    run = crew.submit(*answers)
    wait_until(lambda: arrived(run), state)

    steering.send_message(actor=crew.boss, run=run, text="look left")
    if state in {"mid-backoff", "on a timer", "at a gate"}:
        heard("message", lambda: facts(run, "MessageReceived"))
    steering.pause_run(actor=crew.boss, run=run)
    heard("pause", lambda: facts(run, "RunPaused"))
    steering.resume_run(actor=crew.boss, run=run)
    heard("resume", lambda: facts(run, "RunResumed"))
    wait_until(lambda: arrived(run), f"{state} again")

    steering.stop_run(actor=crew.boss, run=run)
    heard("stop", lambda: status(run) == "interrupted")
    steering.resume_run(actor=crew.boss, run=run)
    heard("go on", lambda: status(run) != "interrupted")
    with contextlib.suppress(steering.NotPossible):  # what was stopped in its only tool is done soon
        steering.stop_run(actor=crew.boss, run=run)
    wait_until(lambda: status(run) in ("interrupted", "completed"), f"the end {state}")
    return run

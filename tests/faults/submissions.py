"""P9: many identical submissions make one run; the answer of the first is the answer of all (SPEC J6)."""

from __future__ import annotations

import uuid
from typing import Any

from loops.models import Run
from tests.faults import house, workers
from tests.faults.outcome import Found, Outcome
from tests.faults.web import Web, serving

AT_ONCE = 50
TASKS = "/api/v1/tasks/"


def check(count: int) -> list[Outcome]:
    """``count`` times fifty identical requests at once, another body with the key, a death before the answer."""
    outcome = Outcome("P9", faults=count * AT_ONCE)
    house.agent("short_errand")
    with serving() as web:
        for _ in range(count):
            outcome.found += pressed_often(web)
            workers.empty_broker()  # with it the rate limit, which is another promise
    crashes = max(1, count // 10)
    for _ in range(crashes):
        outcome.found += died_before_the_answer()
    outcome.faults += crashes
    outcome.notes.append(f"{count} x {AT_ONCE} identical requests, {crashes} deaths between commit and answer")
    with serving(off=["idempotency"]) as web:
        outcome.control = next(iter(pressed_often(web).doubled), "").partition(": ")[2]
    return [outcome]


def pressed_often(web: Web) -> Found:
    key = f"press-{uuid.uuid4().hex}"
    answers = web.post_at_once(AT_ONCE, TASKS, task(key), **{"Idempotency-Key": key})
    found = Found()
    strange = sorted({answer.status for answer in answers} - {200, 201})
    if strange:
        found.broken.append(f"{key}: answered {strange}: {next(a.body for a in answers if a.status in strange)}")
    made = sum(answer.status == 201 for answer in answers)
    if made != 1:
        found.doubled.append(f"{key}: {made} of {AT_ONCE} answers say that they made it")
    found += one_run(key, {answer.body["run"]["id"] for answer in answers if answer.status in (200, 201)})
    other = web.post(TASKS, task(key) | {"goal": "Something else"}, **{"Idempotency-Key": key})
    if other.status not in (409, 422):
        found.broken.append(f"{key}: another body with the same key was answered {other.status}")
    return found


def died_before_the_answer() -> Found:
    """The commit is done and nobody was told; who asks again gets what was committed."""
    key = f"died-{uuid.uuid4().hex}"
    headers = {"Idempotency-Key": key}
    with serving(AGENTOPS_CRASH_AT="SUBMITTED:1") as web:
        first = web.post(TASKS, task(key), **headers)
        web.start()
        again = web.post(TASKS, task(key), **headers)
    found = Found()
    if first.status != 0:
        found.broken.append(f"{key}: answered {first.status} although it should have died")
    if again.status != 200:
        found.lost.append(f"{key}: asked again, answered {again.status}")
        return found
    found += one_run(key, {again.body["run"]["id"]})
    return found


def one_run(key: str, answered: set[str]) -> Found:
    runs = {str(pk) for pk in Run.objects.filter(task__title=key).values_list("pk", flat=True)}
    found = Found()
    if len(runs) != 1:
        (found.doubled if runs else found.lost).append(f"{key}: {len(runs)} runs")
    elif answered != runs:
        found.broken.append(f"{key}: answers name {sorted(answered)}, there is {sorted(runs)}")
    return found


def task(key: str) -> dict[str, Any]:
    return {"project": house.SLUG, "agent": "short_errand", "goal": f"Do {key}", "title": key}

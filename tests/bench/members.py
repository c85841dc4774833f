"""What permission costs: pages for a member of every project against a superuser, who is not asked, at 100,000 runs."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Callable
from typing import Any

from tests.bench import report

RUNS, PROJECTS, BATCH = 100_000, 20, 1_000
ROUNDS = 15
TARGET = 1.5
PAGES = ("/runs/", "/runs/?state=failed", "/runs/?q=nothing", "/", "/review/", "/api/v1/runs/", "/api/v1/gates/")
_STATES = ("completed", "failed", "completed", "interrupted", "completed", "escalated")


def main() -> None:
    root, member = _people()
    shares = {}
    for path in PAGES:
        took = _alternately({"superuser": _reader(root, path), "member": _reader(member, path)})
        shares[path] = took["member"] / took["superuser"]
        print(
            f"  {path:<22} superuser {took['superuser']:7.1f} ms   member {took['member']:7.1f} ms   {shares[path]:.2f}"
        )
    worst = max(shares, key=lambda path: shares[path])
    print(
        report.at_most(f"a member's page / a superuser's at {RUNS:,} runs, the worst ({worst})", shares[worst], TARGET)
    )
    print(flush=True)


def _people() -> tuple[Any, Any]:
    """A superuser, and a person with two roles in each of the projects that hold the runs."""
    from django.db import connection

    from loops.models import Membership, Run
    from tests import factories as make

    projects = [make.project() for _ in range(PROJECTS)]
    tasks = [make.task(project) for project in projects]
    turns = itertools.islice(zip(itertools.cycle(tasks), itertools.cycle(_STATES), strict=False), RUNS)
    runs = (
        Run(task=task, agent_id=task.agent_id, project_id=task.project_id, status=state, runnable=False)
        for task, state in turns
    )
    while some := list(itertools.islice(runs, BATCH)):
        Run.objects.bulk_create(some)
    for run in Run.objects.order_by("id")[:: RUNS // 500]:
        make.gate(run)
    member = make.user()
    for project, role in itertools.product(projects, ("reviewer", "operator")):
        Membership.objects.create(project=project, user=member, role=role)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return make.superuser(), member


def _reader(user: Any, path: str) -> Callable[[], float]:
    from django.test import Client

    client = Client(headers={"host": "localhost"})
    client.force_login(user)

    def read() -> float:
        began = time.perf_counter()
        answer = client.get(path, follow=True)
        assert answer.status_code == 200, answer.status_code
        return (time.perf_counter() - began) * 1000

    return read


def _alternately(readers: dict[str, Callable[[], float]]) -> dict[str, float]:
    """Median of each, asked in turn, so that a busy moment of the machine meets all of them."""
    took: dict[str, list[float]] = {name: [] for name in readers}
    for read in readers.values():
        read()
    for _ in range(ROUNDS):
        for name, read in readers.items():
            took[name].append(read())
    return {name: statistics.median(found) for name, found in took.items()}

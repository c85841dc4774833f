"""The monitor sees what workers cannot say: circles, stalls, silence and runaway spend (SPEC F2)."""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.contrib.auth import get_user_model
from django.db import connection, connections
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from agentops.embedded.process import Command
from agentops.ops import checks
from gates.models import Gate
from loops.engine import facts as f
from loops.engine.state.thresholds import OFF
from loops.engine.values import Access
from loops.models import Agent, AuditEvent, Detection, MailboxItem, ModelConfig, Run, Workspace
from loops.monitor import queries as monitor_queries
from loops.monitor.policy import Policy
from loops.monitor.watch import Monitor, silent_s
from loops.runs.drive import drive
from loops.services import demo
from loops.services.tasks import submit_task
from loops.storage.reader import history
from tests import fakes, stack
from tests.decisions import decide
from tests.integration.storage import owned
from tests.stack import wait_until

pytestmark = pytest.mark.django_db(transaction=True)
EAGER = Policy(every_s=0.05, lapsed_s=0.2, rate_over_s=0.2)
BLIND = replace(EAGER, lapsed_s=1e9, usd_per_minute=0, tokens_per_minute=0, pace=0, thresholds=OFF)
LEASE_S = 1.0


@pytest.fixture(autouse=True)
def bell(settings: Any) -> None:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"


def begun(**limits: Any) -> owned.Owned:
    """A run with its first fact, whose own detection is off unless ``limits`` says otherwise."""
    run = owned.own(owned.new_run())
    start = owned.started(run.run)
    bounds = replace(start.spec.limits, **{"circles": OFF, **limits})
    run.append(replace(start, spec=replace(start.spec, limits=bounds)))
    return run


def searching(run: owned.Owned, steps: int = 4) -> None:
    """Steps that do nearly the same and learn the same; then the worker gives the run back."""
    turns = [fakes.says("", ("look", {"path": "src/main", "for": f"word{number}"})) for number in range(steps)]
    turns.append(fakes.says("", ("ask_question", {"question": "Where?"})))
    assert run.drive(turns, fakes.Tools({"look": lambda arguments: "no matches found"})) == "gate:question"


def working(run: Run) -> None:
    """As if the run were at work again."""
    Run.objects.filter(pk=run.pk).update(status="thinking", runnable=True)


@contextmanager
def frozen_worker(run: Run) -> Iterator[psutil.Process]:
    """A real process that owns the run and is stopped in the middle of it."""
    script = str(Path(__file__).with_name("frozen.py"))
    command = stack._on_test_database(Command("frozen", [sys.executable, script, str(run.pk), str(LEASE_S)]))
    argv, environ = [str(part) for part in command.argv], dict(command.environ)
    with subprocess.Popen(argv, env=environ, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "owned\n"
        child.send_signal(signal.SIGSTOP)
        try:
            yield psutil.Process(child.pid)
        finally:
            child.kill()


def told(run: Run, *kinds: type[f.Fact]) -> list[Any]:
    return [fact for fact in history(run.pk) if isinstance(fact, kinds)]


def found(monitor: Monitor) -> bool:
    monitor.look()
    return Detection.objects.exists()


@pytest.mark.spec("F2")
def test_a_hung_worker_is_reported_while_it_hangs() -> None:
    run = owned.new_run()
    with frozen_worker(run) as worker:
        blind, monitor = Monitor(BLIND), Monitor(EAGER)
        wait_until(lambda: found(monitor), "the monitor to notice")
        assert worker.status() == psutil.STATUS_STOPPED
        assert blind.look() == 0
    detection = Detection.objects.get()
    assert (detection.run, detection.kind, detection.method) == (run, "stall", "hung_worker")
    assert "lease ran out" in detection.evidence
    assert AuditEvent.objects.get(kind="monitor.detected").detail["method"] == "hung_worker"
    assert MailboxItem.objects.get().consumed_seq is None  # nobody has read it, and people know all the same


@pytest.mark.spec("F2")
def test_runaway_spend_pauses_the_run() -> None:
    run = begun()
    working(run.run)
    blind, monitor = Monitor(BLIND), Monitor(EAGER)

    def spends() -> bool:
        Run.objects.filter(pk=run.run.pk).update(total_cost_usd=F("total_cost_usd") + 1)
        assert blind.look() == 0
        return found(monitor)

    wait_until(spends, "the monitor to notice")
    assert [item.kind for item in MailboxItem.objects.all()] == ["detected", "pause"]
    assert run.drive([]) == "paused"
    stall, paused = told(run.run, f.StallDetected, f.RunPaused)
    assert (stall.method, stall.by) == ("runaway_spend", "monitor")
    assert paused.by == "monitor"
    assert "a minute" in paused.reason


@pytest.mark.spec("F2", "F3")
def test_a_circle_seen_from_outside_becomes_a_fact_with_its_evidence() -> None:
    run = begun()
    searching(run)
    working(run.run)
    assert Monitor(BLIND).look() == 0
    assert Monitor(EAGER).look() == 1
    detection = Detection.objects.get()
    assert (detection.kind, detection.method, detection.steps) == ("loop", "semantic", [1, 2, 3, 4])
    assert owned.own(run.run).drive([]) == "gate:question"
    detected = told(run.run, f.LoopDetected)[0]
    assert (detected.method, detected.by, detected.steps) == ("semantic", "monitor", (1, 2, 3, 4))
    assert "the last 4 steps are alike" in detected.evidence


@pytest.mark.spec("F2", "F3")
def test_the_demonstration_of_it_is_helped_out() -> None:
    run = demonstrated()
    assert drive(run.pk, "test") == "ended"
    assert [(fact.method, fact.by, fact.steps) for fact in told(run, f.LoopDetected)] == [
        ("repeated_result", "", (1, 6, 11))
    ]


def demonstrated() -> Run:
    boss = get_user_model().objects.get_or_create(username="boss", is_superuser=True)[0]
    project = demo.seed()
    agent = Agent.objects.get(project=project, name="Comes back to it")
    ModelConfig.objects.filter(pk=agent.actor_model_id).update(pace=0.005)
    goal, workspace = "Tell me the port", Workspace.objects.get(project=project)
    return submit_task(
        actor=boss,
        project=project,
        agent=agent,
        workspace=workspace,
        goal=goal,
        final_review="never",
        limits={"max_steps": 40},
    ).run


class DeadBroker:
    """In the place of Celery's application."""

    @staticmethod
    def send_task(*args: Any, **options: Any) -> None:
        raise ConnectionError("the broker is down")


@pytest.mark.spec("F2")
def test_it_works_while_the_broker_is_down(settings: Any) -> None:
    settings.AGENTOPS_CELERY = f"{__name__}.DeadBroker"
    run = begun()
    searching(run)
    working(run.run)
    assert Monitor(EAGER).look() == 1
    assert MailboxItem.objects.get().kind == "detected"


@pytest.mark.spec("F2")
def test_a_finding_is_told_once() -> None:
    run = begun()
    searching(run)
    working(run.run)
    monitor = Monitor(EAGER)
    assert (monitor.look(), monitor.look(), Monitor(EAGER).look()) == (1, 0, 0)
    assert Detection.objects.count() == MailboxItem.objects.count() == 1


@pytest.mark.spec("F2")
def test_a_circle_that_goes_on_is_not_told_again_with_every_step() -> None:
    """It stands still once, because a call is asked for, and goes on as before."""
    run, monitor = begun(), Monitor(EAGER)
    tools = fakes.Tools({"look": lambda arguments: "no matches found"})

    def looks(request: Any) -> Any:
        number = next(asked)
        if number == 4:
            tools.access["look"] = Access.ASK
        return fakes.says("", ("look", {"path": "src/main", "for": f"word{number}"}))

    asked = itertools.count()
    assert run.drive(looks, tools) == "gate:tool_approval"
    working(run.run)
    assert monitor.look() == 1
    gate, boss = Gate.objects.get(run=run.run), get_user_model().objects.create_superuser("root", password="x")
    decide(actor=boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    assert run.drive(looks, tools) == "gate:tool_approval"
    working(run.run)
    assert monitor.look() == 0
    assert [steps for (steps,) in Detection.objects.values_list("steps")] == [[1, 2, 3, 4]]


@pytest.mark.spec("F2", "V2")
def test_a_look_costs_as_many_queries_for_one_run_as_for_twenty() -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as seen:
            Monitor(EAGER).look()
        return len(seen)

    begun()
    one = queries()
    for _ in range(19):
        begun()
    assert queries() == one == 2


@pytest.mark.spec("F2")
def test_only_one_watches_and_the_next_takes_over() -> None:
    first, second, answers = Monitor(EAGER), Monitor(EAGER), []

    def ask() -> None:
        answers.append(second.holds())
        connections.close_all()

    def asked_elsewhere() -> bool:
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return answers.pop()

    assert silent_s() is None
    assert first.holds()
    assert first.holds()
    assert silent_s() is not None
    assert not asked_elsewhere()
    connection.close()
    wait_until(asked_elsewhere, "the server to give back what the first one held")


@pytest.mark.spec("F2")
def test_it_outlives_a_database_that_drops_its_connections() -> None:
    stop = threading.Event()

    def watch() -> None:
        Monitor(EAGER).run(stop)
        connections.close_all()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        wait_until(lambda: silent_s() is not None, "the monitor to watch")
        for _ in range(3):
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objid = %s",
                    [0x6D6F6E69],
                )
            wait_until(lambda: silent_s() is not None, "the monitor to watch again")
        run = begun()
        searching(run)
        working(run.run)
        wait_until(Detection.objects.exists, "a finding")
    finally:
        stop.set()
        thread.join()


@pytest.mark.spec("F2")
def test_the_system_page_says_whether_anybody_watches() -> None:
    def said() -> str:
        return next(check.status for check in checks.moving() if check.name == "monitor")

    assert said() == "error"
    assert Monitor(EAGER).holds()
    assert said() == "ok"
    connection.close()


@pytest.mark.spec("F2")
def test_a_fact_of_another_version_is_no_reason_to_stop() -> None:
    assert monitor_queries._fact(b'{"fact": "FactOfTomorrow", "v": 9}') is None

"""Twenty HumanEval problems end to end: real worker, real sandbox, the real Anthropic SDK against a local server.

Every solution is wrong at first. The second test kills the worker in the middle of every run.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from loops.models import Agent, ModelAddress, ModelConfig, Project, Run, ToolCallRecord, Workspace
from loops.runs import recovery
from loops.services import steering
from loops.services.tasks import submit_task
from loops.storage import chain, reader
from tests.e2e import plant as plants
from tests.factories import create_project
from tests.own_environment import give_pytest
from tests.stack import PATIENCE_S
from tests.wire import humaneval
from tests.wire.server import WireServer

pytestmark = pytest.mark.django_db(transaction=True)

PROBLEMS = [f"HumanEval/{number}" for number in range(20)]
TESTS = "PYTEST_DISABLE_PLUGIN_AUTOLOAD=1 python -m pytest -q test_solution.py"
"""The workspace brings pytest; plugins would take most of such a short run."""
LEDGER = "ledger.txt"
"""In the run's folder, outside Postgres: one line for each test run that came to its end, naming what it tested."""


class School:
    """A project whose agent may run commands without being asked, and one task for each problem."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.boss = get_user_model().objects.create_superuser("boss")
        self.project: Project = create_project(actor=self.boss, name="School")
        self.project.access_rules.filter(operation="execute").update(access="allow")
        ModelAddress.objects.create(key_name="E2E_MODEL_KEY", origin=url, allowed_by=self.boss)
        model = ModelConfig.objects.create(
            name="pupil",
            provider="anthropic",
            model_id="claude-test",
            base_url=url,
            api_key_env="E2E_MODEL_KEY",
            calls_at_once=20,  # as a provider far away; one on this machine is asked one at a time by default
        )
        self.agent = Agent.objects.create(project=self.project, name="Pupil", actor_model=model)

    def try_again(self, runs: list[uuid.UUID]) -> None:
        """As a person does with runs that were put aside because two workers died at one step of theirs."""
        for run in Run.objects.filter(pk__in=runs, status="paused", paused_by=recovery.WATCHDOG):
            with contextlib.suppress(steering.NotPossible):  # it goes on already
                steering.resume_run(actor=self.boss, run=run)

    def submit(self, problem: str) -> Run:
        workspace = Workspace.objects.create(project=self.project, name=problem, path=str(self._files(problem)))
        return submit_task(
            actor=self.boss,
            project=self.project,
            agent=self.agent,
            workspace=workspace,
            goal=humaneval.goal(problem),
            criteria=[{"text": "its own tests pass", "command": "sh check.sh"}],
            final_review="never",
            title=problem,
        ).run

    def _files(self, problem: str) -> Path:
        folder = self.folder / problem.replace("/", "-")
        folder.mkdir()
        for name, text in humaneval.workspace(problem).items():
            (folder / name).write_text(text)
        # What judges leaves the ledger alone, and takes so long that nobody has ended before the last one has begun.
        (folder / "check.sh").write_text(f"sleep 4; {TESTS}\n")
        write = f"sha256sum solution.py | cut -c1-64 >> {LEDGER}"
        (folder / ".agentops.toml").write_text(f"[tests]\ncommand = '{TESTS}; code=$?; {write}; exit $code'\n")
        return give_pytest(folder)


@pytest.fixture
def school(tmp_path: Path, transactional_db: None, settings: Any, monkeypatch: Any) -> Iterator[School]:
    monkeypatch.setenv("E2E_MODEL_KEY", "key-for-nobody")
    settings.AGENTOPS_CELERY = plants.APP
    with WireServer(humaneval.scenario, key="key-for-nobody", pace=0.003) as server:
        yield School(tmp_path, server.url)
        assert not server.faults, server.faults


@pytest.fixture
def plant(school: School) -> Iterator[plants.Plant]:
    with plants.running() as running:
        yield running


@pytest.mark.spec("C6", "D1", "W1")
def test_humaneval(school: School, plant: plants.Plant) -> None:
    """A few, for whoever wants to know whether it is the killing."""
    runs = {problem: school.submit(problem).pk for problem in PROBLEMS[:5]}
    plants.wait_for_runs(list(runs.values()), 600)
    assert_solved(runs)


@pytest.mark.spec("J2", "J3", "J4", "C6")
def test_humaneval_kill(school: School, plant: plants.Plant) -> None:
    """Waves of five; in each the worker dies once, at another moment of the journal, and is started again at once."""
    runs: dict[str, uuid.UUID] = {}
    moments: Counter[str] = Counter()
    hit: set[uuid.UUID] = set()
    for number, moment in enumerate(MOMENTS):
        wave = {problem: school.submit(problem).pk for problem in PROBLEMS[5 * number : 5 * number + 5]}
        runs |= wave
        wait_for_moment(list(wave.values()), *moment)
        owned = plant.kill()
        latest = plants.latest_facts([run.pk for run in owned])
        moments.update(kind for _, kind in latest.values())
        hit |= set(latest)
        assert set(wave.values()) <= hit, "a run was in nobody's hands when the worker died"
        plant.start()
    plants.wait_for_runs(list(runs.values()), 600, until=lambda: school.try_again(list(runs.values())))
    repeated = assert_nothing_happened_twice(runs)
    print(f"{len(plant.killed)} workers killed, {len(hit)} runs hit, in the middle of {dict(moments)}; {repeated}")
    assert_solved(runs)
    assert len(hit) == len(PROBLEMS)
    assert all("RunTakenOver" in plants.kinds(run) for run in runs.values())
    assert {"ModelRequested", "ToolIntended"} <= set(moments)


MOMENTS = (
    # kind of the latest fact, at least this many facts, seconds more
    ("ChecksStarted", 20, 0.1),  # in the middle of the final checks
    ("ModelRequested", 5, 0.02),  # of an answer
    ("ToolIntended", 13, 0.2),  # of a test run
    ("ToolIntended", 5, 0.0),  # at the heels of a fact
)


def wait_for_moment(wave: list[uuid.UUID], kind: str, facts: int, more: float) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        latest = plants.latest_facts(wave)
        if len(latest) == len(wave) and any(seq >= facts and last == kind for seq, last in latest.values()):
            time.sleep(more)
            return
        assert time.monotonic() < deadline, latest
        time.sleep(0.002)


def assert_solved(runs: dict[str, uuid.UUID]) -> None:
    for problem, run_id in runs.items():
        run = Run.objects.get(pk=run_id)
        assert (run.status, run.phase, run.end_reason) == ("completed", "COMMIT", "criteria_met"), plants.told(run)
        assert (Path(run.workspace_path) / humaneval.SOLUTION).read_text() == humaneval.right(problem)
        tests = ToolCallRecord.objects.filter(run=run, tool="run_tests").order_by("step_number")
        assert [(call.data["passed"], call.data["failed"]) for call in tests] == [(0, 1), (1, 0)], problem
        assert_checked_last(run)
    assert runs
    report = chain.verify(None)
    assert report.ok, report.problems


def assert_checked_last(run: Run) -> None:
    """No check ever passed for a wrong solution: there was one round of checks, after the right one was written."""
    facts = reader.raw(run.pk, 0, 10_000)
    (checked,) = [fact for fact in facts if fact["kind"] == "ChecksCompleted"]
    assert [check["status"] for check in checked["fact"]["checks"]] == ["passed"]
    writes = [fact["seq"] for fact in facts if fact["kind"] == "ToolCompleted" and fact["fact"]["tool"] == "write_file"]
    assert len(writes) == 2
    assert writes[-1] < checked["seq"]


def assert_nothing_happened_twice(runs: dict[str, uuid.UUID]) -> str:
    """One outcome and one key for each call; and the ledger knows of no test run that the journal does not."""
    begun_again = seen_twice = 0
    for problem, run_id in runs.items():
        facts = reader.raw(run_id, 0, 10_000)
        done = Counter(fact["fact"]["call_id"] for fact in facts if fact["kind"] == "ToolCompleted")
        intents = [fact["fact"] for fact in facts if fact["kind"] == "ToolIntended"]
        begun = Counter(intent["call_id"] for intent in intents)
        assert set(done.values()) == {1}, done
        assert len({(intent["call_id"], intent["idempotency_key"]) for intent in intents}) == len(begun)
        assert len({intent["idempotency_key"] for intent in intents}) == len(begun)
        tests = list(dict.fromkeys(intent["call_id"] for intent in intents if intent["tool"] == "run_tests"))
        lines = Counter((Path(Run.objects.get(pk=run_id).workspace_path) / LEDGER).read_text().split())
        for call, text in zip(tests, (humaneval.wrong(problem), humaneval.right(problem)), strict=True):
            seen = lines.pop(hashlib.sha256(text.encode()).hexdigest(), 0)
            assert 1 <= seen <= begun[call], (problem, call, seen, begun)
            begun_again += begun[call] - 1
            seen_twice += seen - 1
        assert not lines
    return f"{begun_again} test runs begun again, {seen_twice} of them had come to their end before"

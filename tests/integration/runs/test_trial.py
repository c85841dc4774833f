"""The commands of the criteria in the run's own sandbox, before its first request (SPEC E1, Q1, ADR 0064)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from gates.models import Gate
from loops.engine import facts as f
from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import never_stops
from loops.models import AccessRule, Agent, Policy, Run, Workspace
from loops.runs.drive import drive
from loops.services.forks import fork_run
from loops.services.models import ensure_script
from loops.services.steering import pause_run, resume_run, stop_run
from loops.services.tasks import submit_task
from loops.storage import chain, reader
from loops.storage.rebuild import rebuild
from loops.tools.sandbox.usage import consumption
from tests.decisions import decide
from tests.factories import create_project

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("E1", "X5")]
TESTS = "python3 -m unittest"
RED = """import unittest


class Sums(unittest.TestCase):
    def test_right(self) -> None:
        self.assertEqual(1 + 1, 2)

    def test_wrong(self) -> None:
        self.assertEqual(1 + 1, 3)
"""
MEND = ("write_file", {"path": "test_sums.py", "content": RED.replace("3)", "2)")})
DONE = ("task_completion", {"result": "Done."})


class Played:
    """A run whose agent makes these calls, one a step; every request to its model is kept."""

    def __init__(self, boss: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.boss, self.monkeypatch, self.requests = boss, monkeypatch, list[Any]()
        self.project = create_project(actor=boss, name="P", slug="p")
        self.rules = AccessRule.objects.filter(project=self.project, operation="execute")
        self.rules.update(access="allow")
        self.agent = Agent.objects.create(
            project=self.project, name="a", actor_model=ensure_script("never_stops", pace=0)
        )
        self.workspace = Workspace.objects.create(project=self.project, name="w", path=str(folder))

    def begin(self, *commands: str, calls: Any = (), goal: str = "Do it", review: str = "never") -> Run:
        turns = [Turn(text="I do it.", calls=(call,)) for call in (*calls, DONE)]

        def play(request: Any, number: int) -> Turn:
            self.requests.append(request)
            return turns[min(number, len(turns) - 1)]

        script = Script(name="never_stops", summary="", play=play)
        self.monkeypatch.setattr(never_stops, "SCRIPT", script)
        criteria = [{"text": f"It holds ({command})", "command": command} for command in commands]
        self.run = submit_task(
            actor=self.boss, project=self.project, agent=self.agent, workspace=self.workspace, goal=goal,
            criteria=criteria, final_review=review,
        ).run  # fmt: skip
        return self.run

    def go(self) -> str:
        why = drive(self.run.pk, "test")
        self.run.refresh_from_db()
        return why

    def decide(self, verdict: str, **more: Any) -> None:
        gate = Gate.objects.get(run=self.run, status="open")
        decide(actor=self.boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, **more)

    @property
    def facts(self) -> list[f.Fact]:
        return list(reader.history(self.run.pk))

    @property
    def tried(self) -> list[f.CriteriaTried]:
        return [fact for fact in self.facts if isinstance(fact, f.CriteriaTried)]

    @property
    def first_words(self) -> str:
        return str(self.requests[0].messages[0])

    def page(self, name: str = "run", pk: Any = None) -> str:
        client = Client()
        client.force_login(self.boss)
        return client.get(reverse(name, args=[pk or self.run.pk])).content.decode()

    def is_sound(self) -> None:
        assert chain.verify(self.run.pk).problems == []
        assert rebuild(self.run.pk).differences == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "w").mkdir()
    (tmp_path / "w" / "test_sums.py").write_text(RED)
    return tmp_path / "w"


@pytest.fixture
def played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(get_user_model().objects.create_superuser("ana", password="x"), folder, monkeypatch)


@pytest.mark.spec("R1", "S4")
def test_a_run_begins_with_what_its_tests_say(played: Played) -> None:
    played.begin(TESTS, calls=[MEND])
    assert played.go() == "ended"
    assert (played.run.end_reason, Gate.objects.filter(run=played.run).count()) == ("criteria_met", 0)
    (tried,) = played.tried
    assert [(check.status, check.counts) for check in tried.checks] == [("failed", "1 failed, 1 passed")]
    assert "does not hold yet (1 failed, 1 passed)" in played.first_words
    assert "AssertionError: 2 != 3" in played.first_words
    assert "Before the first request: 1 failed, 1 passed" in played.page()
    played.is_sound()


@pytest.mark.spec("L1")
def test_a_reviewer_hears_of_tests_that_the_work_took_away(played: Played) -> None:
    """A run that makes its criterion pass by fewer tests: the check says so, and compares with the first one."""
    fewer = ("write_file", {"path": "test_sums.py", "content": RED.partition("    def test_wrong")[0]})
    played.begin(TESTS, calls=(fewer,))
    played.go()
    first = played.tried[0].checks[0]
    last = next(fact for fact in reversed(played.facts) if isinstance(fact, f.ChecksCompleted)).checks[0]
    assert (first.counts, last.status, last.counts) == ("1 failed, 1 passed", "passed", "1 passed, 1 missing")
    assert last.detail == "1 test seen before and not there any more: test_sums.Sums.test_wrong."
    assert len(first.report) == 64
    assert last.report not in ("", first.report)
    assert last.detail in played.page()
    played.is_sound()


@pytest.mark.spec("Q1", "M6")
@pytest.mark.parametrize(
    ("command", "lacks"),
    [("tests-of-nobody --quiet", "tests-of-nobody is not installed"), ("python3 -m nox", "nox is not installed")],
)
def test_a_missing_program_is_put_before_a_person_before_any_model(played: Played, command: str, lacks: str) -> None:
    played.begin(TESTS, command)
    assert played.go() == "gate:checks_not_run"
    assert (played.requests, played.run.total_steps, played.run.status) == ([], 0, "waiting")
    gate = Gate.objects.get(run=played.run, status="open")
    assert gate.title.startswith("Before the work begins")
    card = played.page("gate", gate.pk)
    for words in (lacks, "no model was asked", "Fixed: run the checks again", "lets it begin without them"):
        assert words in card
    played.decide("reject", reason="not today")
    assert played.go() == "ended"
    assert (played.run.status, played.run.end_reason, played.requests) == ("failed", "checks_not_run", [])
    report = reader.report(played.run.pk) or {}
    assert (report["usage"]["repairs"], report["causes"]) == (0, ["ENVIRONMENT"])
    assert lacks in report["diagnosis"]
    played.is_sound()


def test_once_it_is_put_right_the_run_begins(played: Played, folder: Path) -> None:
    (folder / "check.sh").write_text("#!/bin/sh\ntrue\n")
    played.begin("./check.sh")
    assert played.go() == "gate:checks_not_run"
    (Path(played.run.workspace_path) / "check.sh").chmod(0o755)
    played.decide("approve")
    assert played.go() == "ended"
    assert (played.run.end_reason, len(played.requests), len(played.tried)) == ("criteria_met", 1, 2)
    assert (reader.report(played.run.pk) or {})["usage"]["repairs"] == 0
    played.is_sound()


def test_a_person_lets_it_begin_without_them_and_the_model_knows(played: Played) -> None:
    played.begin("tests-of-nobody")
    assert played.go() == "gate:checks_not_run"
    played.decide("respond", payload={"answer": "Go on, and say in the end what you could not check."})
    assert played.go() == "gate:checks_not_run"
    assert "tests-of-nobody is not installed" in played.first_words
    assert "say in the end what you could not check" in played.first_words
    gate = Gate.objects.get(run=played.run, status="open")
    assert "before_work" not in gate.view, "the result is checked all the same"


TO_COME = {
    "a test": "python3 -m unittest test_new",
    "a test in a folder": "python3 -m unittest tests.test_new",
    "a script": "./run.sh",
    "a script for a shell": "sh run.sh && bash run.sh",
    "a script for bash": "bash run.sh",
    "a script of Python": "python3 check.py",
    "a package": "python3 -m greet",
    "a folder": "cd app && make test",
    "a Makefile": "make test",
    "a script by its whole path": "$PWD/run.sh",
    "a program on a path of its own": "PATH=$PWD/bin:$PATH greet",
}


@pytest.mark.parametrize("name", TO_COME)
def test_what_the_agent_is_to_write_asks_nobody(played: Played, name: str) -> None:
    played.begin(TO_COME[name])
    played.go()
    (tried,) = played.tried
    assert [(check.status, check.obstacle) for check in tried.checks] == [("failed", "")]
    assert played.requests, "the model was asked"


@pytest.mark.spec("Q5")
def test_what_would_be_asked_about_is_not_tried(played: Played, folder: Path, settings: Any) -> None:
    """Another run worked in the folder: what it left there runs for nobody before a person allows it."""
    settings.WORKSPACE_ROOTS = [str(folder.parent)]
    played.begin(TESTS)
    Run.objects.filter(pk=played.run.pk).update(workspace_path=str(folder))
    played.rules.update(access="ask")
    played.begin(TESTS)
    assert played.go() == "gate:tool_approval"
    (tried,) = played.tried
    assert [check.status for check in tried.checks] == ["unproven"]
    assert "ask a person about commands" in tried.checks[0].detail
    assert "Before your work began" not in played.first_words
    assert not (Path(played.run.workspace_path) / "__pycache__").exists()
    assert "not every criterion was tried" in played.page()


@pytest.mark.spec("Q5")
def test_what_is_asked_about_is_tried_in_a_folder_as_people_left_it(played: Played) -> None:
    """As the check of an unchanged result is (ADR 0052); what the try left is nobody else's doing."""
    played.rules.update(access="ask")
    played.begin("python3 -m unittest || true")
    assert played.go() == "ended"
    assert [check.status for check in played.tried[0].checks] == ["passed"]
    assert "every criterion with a command holds already" in played.page()
    assert (played.run.end_reason, Gate.objects.filter(run=played.run).count()) == ("criteria_met", 0)


def test_what_the_rules_deny_is_not_tried(played: Played) -> None:
    played.rules.update(access="deny")
    played.begin(TESTS)
    played.go()
    assert [check.status for check in played.tried[0].checks] == ["unproven"]
    assert "deny this command" in played.tried[0].checks[0].detail
    assert played.requests


@pytest.mark.spec("S1")
def test_a_project_may_switch_it_off(played: Played) -> None:
    Policy.objects.filter(project=played.project).update(try_criteria=False)
    played.begin("tests-of-nobody")
    assert played.go() == "gate:checks_not_run"
    assert (played.tried, len(played.requests)) == ([], 1)


@pytest.mark.spec("C6", "S1")
def test_a_criterion_has_the_time_of_its_project_before_the_work_and_after_it(played: Played) -> None:
    """Though no command of the agent has as much, and a person who gives more lets the run go on."""
    policy = Policy.objects.filter(project=played.project)
    policy.update(command_seconds=1, criterion_seconds=1)
    played.begin("sleep 1.5", calls=[("run_command", {"command": "sleep 1.5"})])
    assert played.go() == "gate:checks_not_run"
    assert played.requests == []
    card = played.page("gate", Gate.objects.get(run=played.run, status="open").pk)
    assert "stopped after 1 s (time limit)" in card
    assert "give criteria more time: Admin, Policies" in card
    policy.update(criterion_seconds=30)
    played.decide("approve")
    assert played.go() == "ended"
    assert played.run.end_reason == "criteria_met"
    assert "stopped after 1 s (time limit)" in str(played.requests[1].messages), "that of the agent is no criterion"
    played.is_sound()


@pytest.mark.spec("I7", "X5")
def test_the_page_of_a_run_shows_what_its_commands_may_use(played: Played) -> None:
    Policy.objects.filter(project=played.project).update(criterion_seconds=1_200, command_memory_mib=6_144)
    played.begin(TESTS)
    page = played.page()
    assert "Command limits" in page
    for amount in ("20 min", "6 GiB", "100,000", "10 MiB"):
        assert f'<dd class="num">{amount}</dd>' in page


@pytest.mark.spec("S3", "I7")
def test_a_full_disk_is_found_before_the_work(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumption, "is_nearly_full", lambda *_: True)
    monkeypatch.setattr("loops.tools.builtin.commands.is_nearly_full", lambda *_: True)
    played.begin("echo 'No space left on device' >&2; exit 1")
    assert played.go() == "gate:checks_not_run"
    assert played.requests == []


@pytest.mark.spec("K1", "K2")
def test_a_person_pauses_and_stops_a_run_that_tries_them(played: Played) -> None:
    played.begin(TESTS)
    pause_run(actor=played.boss, run=played.run)
    assert played.go() == "paused"
    assert (played.tried, played.requests) == ([], [])
    resume_run(actor=played.boss, run=played.run)
    stop_run(actor=played.boss, run=played.run)
    assert played.go() == "ended"
    assert (played.run.status, played.requests) == ("interrupted", [])


@pytest.mark.spec("K3")
def test_a_fork_of_what_has_begun_does_not_try_them_again(played: Played) -> None:
    played.begin(TESTS, calls=[MEND])
    played.go()
    played.run = fork_run(actor=played.boss, run=played.run, step=1).run
    played.go()
    assert len(played.tried) == 1, "the one that it took over"
    assert sum(isinstance(fact, f.ChecksStarted) for fact in played.facts) == 2


@pytest.mark.spec("K3")
def test_a_fork_of_what_could_not_begin_tries_them_itself(played: Played) -> None:
    """What its parent lacked may be there by now."""
    played.begin("./check.sh")
    (Path(played.workspace.path) / "check.sh").write_text("#!/bin/sh\ntrue\n")
    assert played.go() == "gate:checks_not_run"
    (Path(played.run.workspace_path) / "check.sh").chmod(0o755)
    played.run = fork_run(actor=played.boss, run=played.run, step=0).run
    assert played.go() == "ended"
    assert (played.run.end_reason, len(played.tried), len(played.requests)) == ("criteria_met", 2, 1)
    played.is_sound()

"""A run whose agent runs the tests by a shell command: progress counts, and it completes nothing (SPEC G1, C6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import never_stops
from loops.models import AccessRule, Agent, Run, Step, Workspace
from loops.runs.composition import rejudge
from loops.runs.drive import drive
from loops.services.models import ensure_script
from loops.services.tasks import submit_task
from loops.storage import rebuild
from tests.factories import create_project
from tests.own_environment import give_pytest

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("G1")]

PASSING = "def test_a():\n    pass\n\n\ndef test_b():\n    pass\n"
FAILING = PASSING + "\n\ndef test_c():\n    assert 0\n"
PYTEST = "python -m pytest -q -p no:cacheprovider"


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


def played(
    boss: Any,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    *commands: str,
    criterion: str = "true",
    calls: tuple[tuple[str, dict[str, Any]], ...] = (),
) -> Run:
    """The agent runs the commands one by one, makes the calls and says that it is done."""
    give_pytest(place)
    turns = [Turn(text="I run the tests.", calls=(("run_command", {"command": one}),)) for one in commands]
    turns += [Turn(text="I run the tests.", calls=(one,)) for one in calls]
    turns.append(Turn(text="That is all.", calls=(("task_completion", {"result": "Tested."}),)))
    script = Script(name="never_stops", summary="", play=lambda request, number: turns[min(number, len(turns) - 1)])
    monkeypatch.setattr(never_stops, "SCRIPT", script)
    project = create_project(actor=boss, name="P", slug="p")
    AccessRule.objects.create(project=project, agent_type="general", operation="execute", access="allow")
    agent = Agent.objects.create(project=project, name="tester", actor_model=ensure_script("never_stops", pace=0))
    workspace = Workspace.objects.create(project=project, name="w", path=str(place))
    criteria = [{"text": "It works", "command": criterion}]
    task = {"goal": "Do it", "final_review": "never", "criteria": criteria, "limits": {"max_repairs": 1}}
    run = submit_task(actor=boss, project=project, agent=agent, workspace=workspace, **task).run
    drive(run.pk, "test")
    run.refresh_from_db()
    return run


def methods(run: Run) -> list[tuple[float, str, str]]:
    found = (
        Step.objects.filter(execution=run, success=True).order_by("step_number").values_list("progress", "validation")
    )
    return [(round(share, 2), said["method"], said.get("detail", "")) for share, said in found]


def test_the_head_the_curve_and_the_call_say_who_counted(
    boss: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "test_it.py").write_text(PASSING)
    run = played(boss, tmp_path, monkeypatch, PYTEST, criterion="sleep 0")
    assert methods(run)[0] == (0.9, "tests (command)", "2 of 2 tests pass (text)")
    assert (run.status, run.end_reason, run.progress) == ("completed", "criteria_met", 1.0)
    assert methods(run)[-1][:2] == (1.0, "checks")
    browser = Client()
    browser.force_login(boss)
    page = browser.get(reverse("run", args=[run.pk])).content.decode()
    assert "2 passed, the command says" in page
    assert not rebuild.rebuild(run.pk).differences


@pytest.mark.spec("C6")
def test_what_a_command_reports_completes_nothing(boss: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All tests pass, the agent says so, and the criterion fails all the same."""
    (tmp_path / "test_it.py").write_text(PASSING)
    run = played(boss, tmp_path, monkeypatch, PYTEST, criterion="false")
    assert methods(run)[0][1] == "tests (command)"
    assert (run.status, run.waiting_on, run.progress) == ("waiting", "limit_reached", 0.0)


def test_a_program_that_only_prints_counts_nothing(boss: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = played(boss, tmp_path, monkeypatch, "echo '14 passed in 0.1s'")
    assert methods(run)[0] == (0.0, "none", "")


def test_a_report_is_followed_up_and_down(boss: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_it.py").write_text(FAILING)
    better = f"cat > test_it.py <<'EOF'\n{PASSING}\n\ndef test_c():\n    pass\nEOF\n{PYTEST}"
    run = played(boss, tmp_path, monkeypatch, f"{PYTEST} || true", better, criterion="sleep 0")
    assert [(share, method) for share, method, _ in methods(run)[:2]] == [
        (0.67, "tests (command)"),
        (0.9, "tests (command)"),
    ]


@pytest.mark.spec("C6", "I5")
def test_the_agents_own_tests_are_those_that_judge(boss: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a command, and although pytest is not there; a reviewer who edits the call sees the same."""
    (tmp_path / "test_it.py").write_text("import unittest\nclass A(unittest.TestCase):\n    def test_a(self): pass\n")
    call = ("run_tests", {"paths": ["test_it.py"]})
    monkeypatch.setattr("tests.integration.runs.test_reported_tests.give_pytest", lambda place: None)
    run = played(boss, tmp_path, monkeypatch, criterion="python3 -m unittest", calls=(call,))
    assert methods(run)[0][1:] == ("tests", "1 of 1 tests pass (reporter)")
    made = run.tool_calls.get(tool="run_tests")
    judged = rejudge(run.pk, made.call_id, "run_tests", {"paths": ["other.py"]})
    assert judged.view["command"] == "python3 -m unittest other.py"

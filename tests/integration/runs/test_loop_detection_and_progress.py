"""Circles and progress on the real parts: what the engine decides of them, people find in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from gates.models import Gate
from loops.engine import facts as f
from loops.engine.state.loop_escalation import EscalationStep
from loops.engine.values import ModelRole
from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import never_stops
from loops.models import Agent, Policy, Run, ToolCallRecord, Workspace
from loops.runs.drive import drive
from loops.services.models import ensure_script
from loops.services.tasks import submit_task
from loops.storage import reader
from tests.decisions import decide
from tests.factories import create_project
from tests.own_environment import give_pytest

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


def submit(boss: Any, place: Path, script: str, complexity: str = "", **policy: Any) -> Run:
    project = create_project(actor=boss, name="P", slug="p")
    Policy.objects.filter(project=project).update(**policy)
    agent = Agent.objects.create(project=project, name=script, actor_model=ensure_script(script, pace=0))
    workspace = Workspace.objects.create(project=project, name="w", path=str(place))
    task: dict[str, Any] = {"goal": "Do it", "final_review": "never", "complexity": complexity}
    return submit_task(actor=boss, project=project, agent=agent, workspace=workspace, **task).run


def decided(boss: Any, run: Run, verdict: str, **more: Any) -> str:
    gate = Gate.objects.get(run=run, status="open")
    decide(actor=boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, **more)
    return drive(run.pk, "test")


def history(run: Run, kind: type[f.Fact]) -> list[Any]:
    return [fact for fact in reader.history(run.pk) if isinstance(fact, kind)]


@pytest.mark.spec("F1", "F3", "Q1")
@pytest.mark.parametrize("complexity", ["simple", "moderate", "complex"])
def test_a_circle_is_broken_rung_by_rung_and_then_escalated(boss: Any, tmp_path: Path, complexity: str) -> None:
    """The same failing look, again and again, until a person puts an end to it: by the limits of every profile."""
    run = submit(boss, tmp_path, "goes_in_circles", complexity)
    assert drive(run.pk, "test") == "gate:loop_detected"
    gate = Gate.objects.get(run=run, status="open")
    assert gate.view["steps"]
    assert [fact.rung for fact in history(run, f.LoopBroken)] == list(EscalationStep)
    assert history(run, f.LoopDetected)[0].steps == (1, 2, 3)
    assert decided(boss, run, "reject", reason="There is no such file.") == "ended"
    run.refresh_from_db()
    assert (run.status, run.end_reason) == ("failed", "loop_detected")


TURNS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("list_files", {"path": "."}),
    ("read_file", {"path": "README.md"}),
    ("list_files", {"path": "tests"}),
    ("write_file", {"path": "notes.md", "content": "It adds.\n"}),
    ("run_tests", {}),
    ("task_completion", {"result": "It adds."}),
)


TESTS = """
from unittest import TestCase

class Adding(TestCase):
    def test_it(self):
        self.assertEqual(1 + 1, 2)

    def test_more(self):
        self.assertEqual(1 + 1, 3)
"""


@pytest.mark.spec("G1", "G2", "W1")
def test_progress_is_measured_by_the_best_of_three_ways(
    boss: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model's own word counts until there is a file, and a file until there are tests."""
    give_pytest(tmp_path)
    (tmp_path / "README.md").write_text("Adds.\n")
    (tmp_path / "tests").mkdir()
    (tmp_path / ".agentops.toml").write_text('[tests]\ncommand = "python3 -m unittest discover -s tests"\n')
    (tmp_path / "tests" / "test_it.py").write_text(TESTS)
    said = '{"confidence": 0.9, "progress": 0.2, "reason": "It has begun."}'
    script = Script(
        name="never_stops",
        summary="",
        play=lambda request, number: Turn(text=f"Step {number}.", calls=(TURNS[number],)),
        answers={ModelRole.CONFIDENCE: lambda request: said},
    )
    monkeypatch.setattr(never_stops, "SCRIPT", script)
    run = submit(boss, tmp_path, "never_stops", confidence_every_steps=2)
    why = drive(run.pk, "test")
    while why == "gate:tool_approval":
        why = decided(boss, run, "approve")
    assert why == "ended"
    measured = [(fact.progress_method, round(fact.progress, 2)) for fact in history(run, f.StepCompleted)]
    assert measured == [
        ("none", 0.0),
        ("none", 0.0),
        ("model", 0.2),
        ("artifacts", 0.25),
        ("tests", 0.5),
        ("tests", 0.5),
    ]
    assert [call.ok for call in ToolCallRecord.objects.filter(run=run, tool="run_tests")] == [False]

"""Whole runs on the real parts: a confidence that falls below its threshold, and a call that is not allowed."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model

from gates.models import Gate
from loops.engine.confidence import score
from loops.models import Agent, AuditEvent, MailboxItem, ModelCall, Policy, Run, ToolCallRecord
from loops.runs.drive import drive
from loops.services import demo, steering
from loops.services.models import ensure_script
from loops.services.tasks import run_spec, submit_task
from loops.storage import chain, reader
from tests.decisions import decide

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


def submit(boss: Any, agent: str, **policy: Any) -> Run:
    """A task of the demonstration, for its agent; ``policy`` is changed first."""
    project = demo.seed()
    Policy.objects.filter(project=project).update(**policy)
    example = next(one for one in demo.EXAMPLES if one.agent == agent)
    found = Agent.objects.get(project=project, name=agent)
    found.actor_model.pace = 0
    found.actor_model.save()
    workspace = project.workspaces.get()
    goal = demo.find_script(example.script).goal
    made = submit_task(
        actor=boss, project=project, agent=found, workspace=workspace, goal=goal, final_review="never", limits={}
    )
    return made.run


def answer(boss: Any, run: Run, verdict: str, reason: str = "", **payload: Any) -> str:
    gate = Gate.objects.get(run=run, status="open")
    decide(actor=boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, reason=reason, payload=payload)
    return drive(run.pk, "test")


def facts(run: Run, kind: str) -> list[Any]:
    return [fact for fact in reader.history(run.pk) if type(fact).__name__ == kind]


# --- confidence -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("G2", "Q1", "Q3")
def test_a_low_confidence_waits_for_a_person_who_guides_the_agent(boss: Any) -> None:
    run = submit(boss, "Loses confidence")
    assert drive(run.pk, "test") == "gate:low_confidence"
    gate = Gate.objects.get(run=run)
    assert (gate.kind, gate.confidence, gate.step_number) == ("low_confidence", 0.25, 5)
    assert "changed nothing" in gate.view["why"]
    assert len(gate.view["latest_steps"]) == 5
    assert answer(boss, run, "respond", answer="It is as it should be: write that down.") == "ended"
    run.refresh_from_db()
    assert run.status == "completed"
    checked = facts(run, "ConfidenceChecked")
    assert [(one.trigger, one.method, one.raw_score) for one in checked] == [("every_steps", "model", 0.25)]
    assert score.ceiling_of(checked[0].features, checked[0].weights) == checked[0].ceiling
    assert chain.verify(run.pk).ok


@pytest.mark.spec("G2", "N4")
def test_what_it_costs_is_attributed_to_its_role(boss: Any) -> None:
    run = submit(boss, "Loses confidence")
    drive(run.pk, "test")
    calls = list(ModelCall.objects.filter(run=run, role="confidence"))
    assert len(calls) == 1
    assert calls[0].input_tokens > 0
    run.refresh_from_db()
    everything = ModelCall.objects.filter(run=run)
    assert run.total_tokens == sum(call.input_tokens + call.output_tokens for call in everything)


@pytest.mark.spec("G2")
def test_let_go_on_it_goes_on_and_rejected_it_ends(boss: Any) -> None:
    run = submit(boss, "Loses confidence")
    drive(run.pk, "test")
    assert answer(boss, run, "approve") == "ended"
    run.refresh_from_db()
    assert run.status == "completed"
    other = submit(boss, "Loses confidence")
    drive(other.pk, "test")
    answer(boss, other, "reject", "not worth it")
    other.refresh_from_db()
    assert (other.status, other.end_reason) == ("failed", "low_confidence")


@pytest.mark.spec("G2", "S1")
def test_the_policy_says_how_often_and_below_what(boss: Any) -> None:
    often = submit(boss, "Loses confidence", confidence_every_steps=2, confidence_threshold=0.1)
    assert drive(often.pk, "test") == "ended"
    assert [one.step for one in facts(often, "ConfidenceChecked")] == [2, 4, 6]
    never = submit(boss, "Loses confidence", confidence_every_steps=0, confidence_threshold=1.0)
    assert drive(never.pk, "test") == "ended"
    assert not facts(never, "ConfidenceChecked")


@pytest.mark.spec("G2")
def test_a_script_without_an_answer_is_not_judged_unless_a_person_asks(boss: Any) -> None:
    run = submit(boss, "Goes in circles")
    assert run_spec(run)["confidence"] == {"every_steps": 0, "threshold": 0.5, "by_model": False}
    steering.check_confidence(actor=boss, run=run)
    assert MailboxItem.objects.get(run=run).kind == "check_confidence"
    drive(run.pk, "test")
    checked = facts(run, "ConfidenceChecked")
    assert [(one.trigger, one.method) for one in checked] == [("request", "measured")]
    assert AuditEvent.objects.filter(run=run, kind="run.check_confidence").count() == 1


@pytest.mark.spec("G2", "S3")
def test_a_model_of_its_own_judges_a_run_whose_script_has_no_answer(boss: Any) -> None:
    run = submit(boss, "Writes a file")
    run.agent.confidence_model = ensure_script("loses_confidence", pace=0)
    run.agent.save()
    assert run_spec(run)["confidence"]["by_model"]
    steering.check_confidence(actor=boss, run=run)
    assert drive(run.pk, "test") == "gate:low_confidence"
    assert ModelCall.objects.get(run=run, role="confidence").model_id == "loses_confidence"


# --- permission -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("I4", "I3", "Q1")
def test_a_denied_call_climbs_the_ladder_and_the_agent_adapts(boss: Any) -> None:
    run = submit(boss, "May not delete")
    assert drive(run.pk, "test") == "gate:permission_blocked"
    denied = facts(run, "PermissionDenied")
    assert [(one.rung, one.operation, one.times) for one in denied] == [
        ("alternatives", "delete", 1),
        ("specialist", "delete", 2),
    ]
    assert "move_file (allowed)" in denied[0].alternatives
    assert "general" in denied[1].specialist
    run.refresh_from_db()
    assert run.escalation_reason == "Blocked by policy: Delete ./invoices/printing.py"
    gate = Gate.objects.get(run=run)
    assert (gate.tool, gate.view["arguments"]) == ("delete_file", {"path": "./invoices/printing.py"})
    assert "-" in gate.view["diff"]
    assert answer(boss, run, "respond", answer="Move it aside instead.") == "ended"
    run.refresh_from_db()
    assert (run.status, run.escalation_reason) == ("completed", "")
    states = dict(ToolCallRecord.objects.filter(run=run).values_list("tool", "state"))
    assert states["move_file"] == "COMPLETE"
    assert states["delete_file"] == "ABORT"
    assert AuditEvent.objects.filter(run=run, kind="tool.denied").count() == 2


@pytest.mark.spec("I4", "Q5")
def test_a_grant_is_for_this_call_and_used_up(boss: Any) -> None:
    run = submit(boss, "May not delete")
    drive(run.pk, "test")
    assert answer(boss, run, "approve") == "ended"
    gate = Gate.objects.get(run=run)
    assert gate.consumed_at is not None
    intended = [one for one in facts(run, "ToolIntended") if one.tool == "delete_file"]
    assert [(one.gate, one.arguments) for one in intended] == [(str(gate.pk), {"path": "./invoices/printing.py"})]
    run.refresh_from_db()
    assert run.status == "completed"


@pytest.mark.spec("I4", "Q5")
def test_a_grant_is_void_when_the_file_changed_meanwhile(boss: Any) -> None:
    from pathlib import Path

    run = submit(boss, "May not delete")
    drive(run.pk, "test")
    run.refresh_from_db()
    Path(run.workspace_path, "invoices/printing.py").write_text("# somebody needs it again\n")
    answer(boss, run, "approve")
    assert facts(run, "ApprovalVoided")
    assert not [one for one in facts(run, "ToolIntended") if one.tool == "delete_file"]


@pytest.mark.spec("I4")
def test_a_rejection_leaves_it_refused(boss: Any) -> None:
    run = submit(boss, "May not delete")
    drive(run.pk, "test")
    assert answer(boss, run, "reject", "we need it") == "ended"
    run.refresh_from_db()
    assert run.status == "completed"
    assert not ToolCallRecord.objects.filter(run=run, tool="delete_file", state="COMPLETE").exists()

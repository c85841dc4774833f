"""A project with one agent for each script, and a person who submits and decides truthfully."""

from __future__ import annotations

import contextlib
import time
from typing import Any

from gates.models import Gate
from loops.models import AccessRule, Agent, ModelConfig, Project, Run
from tests import decisions
from tests.faults import ledger
from tests.faults.bank import OPERATION

SLUG = "faults"
PATIENCE_S = 120.0


def project() -> Project:
    from django.contrib.auth import get_user_model

    from tests.factories import create_project

    found = Project.objects.filter(slug=SLUG).first()
    if found is None:
        boss = get_user_model().objects.create_superuser("boss", password="boss")
        found = create_project(actor=boss, name="Faults", slug=SLUG)
        AccessRule.objects.create(project=found, operation=OPERATION, access="allow")
    return found


def boss() -> Any:
    from django.contrib.auth import get_user_model

    return get_user_model().objects.get(username="boss")


def look_after(run: Run) -> None:
    """A person tries a run again that was put aside because its workers died."""
    from loops.runs import recovery
    from loops.services import steering

    if (run.status, run.paused_by) == ("paused", recovery.WATCHDOG):
        with contextlib.suppress(steering.NotPossible):  # it goes on since it was read
            steering.resume_run(actor=boss(), run=run)


def agent(script: str, pace: float = 0.0) -> Agent:
    """The agent that plays a script at that pace, with a model of its own."""
    name = f"{script} {pace}" if pace else script
    found = Agent.objects.filter(name=name).first()
    if found is None:
        model = ModelConfig.objects.create(name=name, provider="scripted", model_id=script, pace=pace)
        found = Agent.objects.create(project=project(), name=name, actor_model=model)
    return found


def submit(script: str, *, key: str | None = None, pace: float = 0.0, **task: Any) -> Run:
    from loops.services.tasks import submit_task

    given = {"goal": f"Play {script}", "final_review": "never", "title": script}
    return submit_task(
        actor=boss(),
        project=project(),
        agent=agent(script, pace),
        workspace=None,
        idempotency_key=key,
        **{**given, **task},
    ).run


def decide(gate: Gate) -> None:
    """Approve what is asked; say of a call in doubt what the ledger says of it."""
    from gates import services

    verdict, payload = "approve", {"confirm": gate.tool}
    if gate.kind == "rollback_choice":
        verdict, payload = "keep", {}
    if gate.kind == "loop_detected":
        verdict, payload = "respond", {"answer": "Try again."}
    if gate.kind == "limit_reached":
        verdict, payload = "extend", {gate.view["limit"]: gate.view["suggested"]}
    if gate.kind == "in_doubt":
        verdict, payload = "respond", {"outcome": "done" if took_effect(gate) else "not_done"}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            decisions.decide(actor=boss(), gate_id=gate.pk, verdict=verdict, digest=gate.digest, payload=payload)
            return
        except services.InvalidDecision as refusal:  # not before nobody can be at it any more
            if "Not before" not in str(refusal.errors) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)


def took_effect(gate: Gate) -> bool:
    from loops.models import ToolCallRecord

    key = ToolCallRecord.objects.get(run_id=gate.run_id, call_id=gate.call_id).idempotency_key
    return key in ledger.keys(ledger.of(gate.run_id))


def open_gate(run: Run) -> Gate | None:
    return Gate.objects.filter(run_id=run.pk, status="open").first()

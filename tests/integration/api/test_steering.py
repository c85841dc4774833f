"""Whatever a person does to a run in the browser, a program does through REST."""

from __future__ import annotations

import pytest

from gates.models import Gate
from loops.models import AuditEvent, MailboxItem, Run
from tests.integration.gates.builders import open_gate

pytestmark = [pytest.mark.django_db, pytest.mark.spec("T2")]
ORDERS = {
    # what people wish: (state of the run, address, body, what lies in the mailbox)
    "stop": ("thinking", "steer", {"action": "stop"}, "stop"),
    "pause": ("thinking", "steer", {"action": "pause"}, "pause"),
    "resume after a pause": ("paused", "steer", {"action": "resume"}, "resume"),
    "resume after a stop": ("interrupted", "steer", {"action": "resume"}, "resume"),
    "check the confidence": ("thinking", "steer", {"action": "check_confidence"}, "check_confidence"),
    "try again after an outage": ("failed", "steer", {"action": "retry"}, "resume"),
    "wish it to stop": ("thinking", "messages", {"text": "Please stop."}, "stop"),
    "tell it something": ("thinking", "messages", {"text": "Mind the totals"}, "message"),
    "command": ("thinking", "messages", {"text": "/check_confidence"}, "check_confidence"),
}


@pytest.mark.spec("K1", "K2", "G2", "E6", "D1")
@pytest.mark.parametrize(("status", "where", "body", "kind"), ORDERS.values(), ids=ORDERS)
def test_an_order_reaches_the_mailbox_and_the_audit(world, api, status, where, body, kind):
    run = world.run(status)
    Run.objects.filter(pk=run.pk).update(end_reason="model_unavailable" if status == "failed" else "")
    answer = api(world.operator).post(f"/api/v1/runs/{run.pk}/{where}/", body, format="json")
    assert (answer.status_code, answer.json()["kind"]) == (202, kind)
    assert MailboxItem.objects.get(run=run).kind == kind
    assert AuditEvent.objects.filter(run=run, actor=world.operator, kind__startswith="run.").count() == 1


GATES = {
    "extend a limit": (
        "limit_reached",
        {"verdict": "extend", "payload": {"max_steps": 50}},
        {"limit": "max_steps", "used": 20, "bound": 20},
        "extended",
    ),
    "confirm a long task": ("long_task", {"verdict": "approve"}, {"steps": 20}, "approved"),
    "let it go on": ("escalation", {"verdict": "respond", "payload": {"answer": "Use the other key."}}, {}, "answered"),
    "vouch for it": ("low_confidence", {"verdict": "approve"}, {"score": 0.4, "threshold": 0.5}, "approved"),
}


@pytest.mark.spec("D3", "D4", "G2", "E1", "Q4")
@pytest.mark.parametrize(("kind", "body", "view", "status"), GATES.values(), ids=GATES)
def test_what_waits_for_a_person_is_decided(world, api, kind, body, view, status):
    run = world.run("waiting")
    gate = open_gate(world, kind, run, view=view, tool="", call_id="", subject={"version": 1})
    client = api(world.admin)
    (listed,) = client.get(f"/api/v1/gates/?run={run.pk}&status=open").json()["results"]
    whole = client.get(f"/api/v1/gates/{listed['id']}/").json()
    sent = {"digest": whole["digest"], "shown": whole["shown"], **body}
    answer = client.post(f"/api/v1/gates/{gate.pk}/decide/", sent, format="json")
    assert answer.status_code == 201, answer.content
    assert Gate.objects.get(pk=gate.pk).status == status
    assert MailboxItem.objects.get(run=run).kind == "decision"

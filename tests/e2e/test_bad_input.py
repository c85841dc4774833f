"""Whatever models, tools, people and programs send: a precise error where a person sees it, never a 500, never a run
that hangs. Real worker, real sandbox, the real Anthropic SDK."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

from agentops.management.commands.shots import TABS
from gates import services
from gates.gatekeeper import SqlGatekeeper
from gates.jobs import expire
from gates.models import Decision, Gate
from loops.engine.ports import ApprovalVoid
from loops.jobs import sweep
from loops.models import Agent, AuditEvent, BreakerRule, Fact, ModelConfig, ProvenanceRecord, Run, Task, ToolCallRecord
from loops.services.models import ensure_script
from loops.services.tokens import new_token
from loops.storage import chain, reader
from tests import decisions
from tests.e2e.conftest import House, ended, gate_of
from tests.integration.services.world import closing_connections
from tests.ports import free_port
from tests.stack import wait_until
from tests.wire.say import Raw, Say, Seen
from tests.wire.server import WireServer

pytestmark = pytest.mark.django_db(transaction=True)

DONE = ("task_completion", {"result": "That is all."})


@dataclass
class Bad:
    """One thing a model sends, and what is to be read of it on the page of the run."""

    said: str
    calls: list[tuple[str, dict[str, Any]]]
    raw: dict[int, str] = field(default_factory=dict)
    text: str = ""
    thinking: str = ""
    state: str = "ABORT"
    before: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """A call that prepares it."""
    breach: bool = False
    """It reaches out of the workspace: once is a slip, the second time a person is asked."""
    audited: bool = False


def command(line: str) -> tuple[str, dict[str, Any]]:
    return ("run_command", {"command": line})


ONCE_MORE = ("read_file", {"path": "../../etc/shadow"})
PLAIN = "send plain Unicode text. Nothing was run."
OUTSIDE = "leads outside the workspace or through a link"
BAD = {
    "unknown tool": Bad(
        "unknown tool 'fly_to_the_moon'; the tools are: ", [("fly_to_the_moon", {"speed": 3})], audited=True
    ),
    "malformed call": Bad("not valid JSON: Expecting", [("read_file", {})], raw={0: '{"path": "a.txt", '}),
    "call that is no object": Bad("must be one JSON object, not an array", [("read_file", {})], raw={0: '["a.txt"]'}),
    "schema violation": Bad("/path: 7 is not of type 'string'", [("read_file", {"path": 7})], audited=True),
    "NaN in a call": Bad("NaN is not JSON", [("read_file", {})], raw={0: '{"path": "a.txt", "start": NaN}'}),
    "NUL in a call": Bad(f"$.command holds a NUL character; {PLAIN}", [command("echo a\0b")]),
    "half a character in a call": Bad(
        f"$.content holds half of a surrogate pair; {PLAIN}", [("write_file", {"path": "t", "content": "\ud83d!"})]
    ),
    "NUL and half characters in what is said": Bad(
        "(nothing here)", [("list_files", {})], text="so \0\ud800 said", thinking="a\0\udfffb", state="COMPLETE"
    ),
    "50 MB of output": Bad(
        "stopped: more than 10485760 bytes of output",
        [command("head -c 50000000 /dev/zero | tr '\\0' x")],
        state="COMPLETE",
    ),
    "binary output": Bad(
        "binary output, 4003 bytes", [command("head -c 4000 /dev/urandom; echo en")], state="COMPLETE"
    ),
    "NUL, half a character and NaN from a tool": Bad(
        "binary output, 17 bytes", [command(r"printf 'first\0\xed\xa0\x80NaN\xfflast'")], state="COMPLETE"
    ),
    "path that climbs out": Bad(
        "contains '..'; name the file", [("read_file", {"path": "../etc/passwd"})], audited=True, breach=True
    ),
    "absolute path": Bad(
        "is not a path inside the workspace", [("read_file", {"path": "/etc/passwd"})], audited=True, breach=True
    ),
    "link that leads out": Bad(
        OUTSIDE,
        [("read_file", {"path": "system/os-release"})],
        before=[command("ln -s /usr/lib system")],
        audited=True,
        breach=True,
    ),
    "write through a link": Bad(
        OUTSIDE,
        [("write_file", {"path": "t/must-not-exist", "content": "x"})],
        before=[command("ln -s /usr t")],
        audited=True,
        breach=True,
    ),
    "tool that may not be used": Bad(
        "Not allowed: access matrix for 'a.txt': deny", [("delete_file", {"path": "a.txt"})], audited=True
    ),
}
"""Name -> what is sent and what is said about it."""


@pytest.fixture
def wired(house: House) -> Iterator[Callable[..., Agent]]:
    """``wired(handler)``: an agent whose model is ``handler``, over the wire; it may execute without being asked."""
    house.project.access_rules.filter(operation="execute").update(access="allow")
    house.project.access_rules.filter(operation="delete").update(access="deny")
    servers = []

    def agent(handler: Callable[[Seen], Say | Raw]) -> Agent:
        server = WireServer(handler).__enter__()
        servers.append(server)
        return house_agent(house, server.url)

    yield agent
    for server in servers:
        server.__exit__(None, None, None)


def house_agent(house: House, url: str) -> Agent:
    model = ModelConfig.objects.create(
        name=f"wire-{free_port()}", provider="anthropic", model_id="claude-test", base_url=url, timeout_s=120
    )
    return Agent.objects.create(project=house.project, name=f"Wired {model.name}", actor_model=model)


def playing(bad: Bad) -> Callable[[Seen], Say]:
    def handler(seen: Seen) -> Say:
        turns = ([Say(calls=bad.before)] if bad.before else []) + [
            Say(text=bad.text, thinking=bad.thinking, calls=bad.calls, raw_json=bad.raw),
            *([Say(calls=[ONCE_MORE])] if bad.breach else []),
            Say(text="Done.", calls=[DONE]),
        ]
        return turns[min(seen.turn, len(turns) - 1)]

    return handler


@pytest.mark.spec("I2", "I7", "O2")
@pytest.mark.parametrize("name", BAD)
def test_what_a_model_or_a_tool_sends(house: House, wired: Callable[..., Agent], name: str) -> None:
    bad = BAD[name]
    run = house.submit_to(wired(playing(bad)), final_review="never")
    if bad.breach:
        gate = gate_of(run)
        assert gate.kind == "escalation"
        assert "etc/shadow" in json.dumps(gate.view)
        decisions.decide(actor=house.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    ended(run)
    call = ToolCallRecord.objects.filter(run=run, tool=bad.calls[0][0]).order_by("step_number").first()
    assert call is not None
    told = f"{call.error}\n{call.output}"
    assert (run.status, run.end_reason) == ("completed", "no_criteria"), (told, reader.report(run.pk))
    assert call.state == bad.state
    assert bad.said in told
    assert bad.said in pages(house, run)
    kind = "ToolRefused" if bad.state == "ABORT" else "ToolCompleted"
    facts = [fact["fact"] for fact in reader.raw(run.pk, 0, 500) if fact["kind"] == kind]
    assert call.call_id in [fact["call_id"] for fact in facts]
    if bad.audited:
        assert AuditEvent.objects.filter(kind="tool.denied", run=run).count() == (2 if bad.breach else 1)
    assert not Path("/tmp/must-not-exist").exists()
    assert not Path("/usr/must-not-exist").exists()
    assert chain.verify(run.pk).ok


def pages(house: House, run: Run) -> str:
    """Every view of the run answers; the text of the timeline."""
    client = Client()
    client.force_login(house.boss)
    texts = []
    for tab in TABS:
        answer = client.get(f"/runs/{run.pk}/{tab}")
        assert answer.status_code == 200, tab
        texts.append(answer.content.decode())
    answer = client.get(f"/api/v1/runs/{run.pk}/facts/?limit=500")
    assert answer.status_code == 200
    json.loads(answer.content)
    return unescape(re.sub(r"<[^>]*>", "", texts[0]))


# --- tasks ------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("J6")
def test_a_goal_of_one_megabyte(house: House) -> None:
    goal = "x" * 1_000_000
    agent = Agent.objects.filter(project=house.project).first()
    token, _ = new_token(actor=house.boss, user=house.boss)
    task = {"project": house.project.pk, "agent": agent.pk, "goal": goal}
    api = Client(headers={"Authorization": f"Token {token}"})
    answer = api.post("/api/v1/tasks/", json.dumps(task), content_type="application/json")
    assert answer.status_code in (400, 413)
    problem = answer.json()
    assert "1,000,000" in json.dumps(problem) or "larger than" in json.dumps(problem), problem
    assert AuditEvent.objects.filter(actor=house.boss).exclude(kind="token.created").exists()
    answer = api.post("/api/v1/tasks/", json.dumps({**task, "goal": goal * 2}), content_type="application/json")
    assert answer.status_code == 413
    client = Client()
    client.force_login(house.boss)
    answer = client.post("/tasks/new/", {**task, "criterion": [], "command": []})
    assert answer.status_code in (413, 422)
    assert "200" in answer.content.decode()
    assert not Task.objects.exists()


@pytest.mark.parametrize("goal", ["a\0b", "half \ud800 character"])
def test_a_goal_that_cannot_be_stored(house: House, goal: str) -> None:
    agent = Agent.objects.filter(project=house.project).first()
    token, _ = new_token(actor=house.boss, user=house.boss)
    api = Client(headers={"Authorization": f"Token {token}"})
    body = json.dumps({"project": house.project.pk, "agent": agent.pk, "goal": goal})
    answer = api.post("/api/v1/tasks/", body, content_type="application/json")
    assert answer.status_code == 400
    assert re.search("NUL|[Nn]ull|surrogate", answer.content.decode())
    assert not Task.objects.exists()


# --- approvals --------------------------------------------------------------------------------------------------------


def asking(seen: Seen) -> Say:
    """Wants to run a command, again and again, until it is told of a result or refused."""
    return Say(text="Once more.", calls=[command("echo ran >> ran.txt")]) if seen.turn == 0 else Say(calls=[DONE])


@pytest.fixture
def asked(house: House, wired: Callable[..., Agent]) -> tuple[Run, Gate]:
    house.project.access_rules.filter(operation="execute").update(access="ask")
    run = house.submit_to(wired(asking), final_review="never")
    return run, gate_of(run)


def decide(house: House, gate: Gate, verdict: str = "approve", **more: Any) -> Decision:
    return decisions.decide(actor=house.boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, **more)


@pytest.mark.spec("Q5", "Q7")
def test_an_approval_that_comes_too_late(house: House, asked: tuple[Run, Gate]) -> None:
    run, gate = asked
    Gate.objects.filter(pk=gate.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    expire()
    wait_until(lambda: Gate.objects.get(pk=gate.pk).status == "expired", "the gate to expire")
    with pytest.raises(services.AlreadyDecided, match="Already expired"):
        decide(house, gate)
    assert AuditEvent.objects.filter(kind="gate.refused", run=run, detail__code="already_decided").count() == 1
    ended(run)
    call = ToolCallRecord.objects.get(run=run, tool="run_command")
    assert call.state == "ABORT"
    assert run.status == "completed"
    assert re.search("expired", pages(house, run), re.IGNORECASE)


@pytest.mark.spec("Q5", "O1")
def test_an_approval_is_used_once(house: House, asked: tuple[Run, Gate]) -> None:
    run, gate = asked
    decide(house, gate)
    ended(run)
    assert run.status == "completed"
    with pytest.raises(services.AlreadyDecided, match="Already approved by Boss"):
        decide(house, gate)
    with pytest.raises(ApprovalVoid, match="already used"), transaction.atomic(), connection.cursor() as cursor:
        SqlGatekeeper().consume(str(gate.pk), json.loads(bytes(Gate.objects.get(pk=gate.pk).subject)))(cursor)
    assert ToolCallRecord.objects.get(run=run, tool="run_command").state == "COMPLETE"
    assert Fact.objects.filter(run=run, kind="ToolIntended").count() == 1


@pytest.mark.spec("Q6")
def test_two_decisions_at_once(house: House, asked: tuple[Run, Gate]) -> None:
    run, gate = asked
    people = [house.person(name, "reviewer") for name in ("Ana", "Bo")]
    start, said = threading.Barrier(2), []

    @closing_connections
    def one(actor: Any, verdict: str) -> None:
        start.wait()
        try:
            decisions.decide(actor=actor, gate_id=gate.pk, verdict=verdict, digest=gate.digest, reason="so be it")
        except services.DecisionRefused as refusal:
            said.append(refusal)

    verdicts = ("approve", "reject")
    threads = [threading.Thread(target=one, args=pair) for pair in zip(people, verdicts, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (refusal,) = said
    winner = Decision.objects.get(gate=gate)
    assert re.search(rf"Already (approved|rejected) by {winner.decided_by.first_name} at \d\d:\d\d", refusal.message)
    assert AuditEvent.objects.filter(kind="gate.refused", run=run).count() == 1
    ended(run)
    assert Fact.objects.filter(run=run, kind="GateDecided").count() == 1
    ran = ToolCallRecord.objects.get(run=run, tool="run_command").state
    assert ran == ("COMPLETE" if winner.verdict == "approve" else "ABORT")


# --- models that do not end, or do not begin --------------------------------------------------------------------------


@pytest.mark.spec("A6", "D1", "D2", "E7")
def test_a_model_that_never_stops(house: House) -> None:
    ensure_script("never_stops", pace=0)
    ModelConfig.objects.filter(model_id="never_stops").update(pace=0)
    run = house.submit("never_stops", limits={"max_steps": 4})
    gate = gate_of(run)
    assert gate.kind == "limit_reached"
    decide(house, gate, "reject", reason="enough")
    assert_failed(house, run, "max_steps", "step limit")
    assert run.total_steps == 4


@pytest.mark.spec("D2", "E6", "E7")
def test_an_endpoint_that_is_down(house: House) -> None:
    """Nobody listens there. It is tried again and again until the time that the task allows is over."""
    # With its breaker on, the run would be parked for it, which takes no working time. It gives up after six attempts;
    # the waits between them take 15.5 seconds at least, so the time is over first.
    agent = house_agent(house, f"http://127.0.0.1:{free_port()}")
    BreakerRule.objects.create(kind="model", name=agent.actor_model.name, enabled=False)
    run = house.submit_to(agent, limits={"max_seconds": 15})

    def asks() -> bool:
        sweep()
        run.refresh_from_db()
        assert not run.is_ended, (run.end_reason, run.escalation_reason)
        return Gate.objects.filter(run=run, status="open").exists()

    wait_until(asks, "a gate")
    gate = gate_of(run)
    assert gate.kind == "limit_reached"
    failures = [fact["fact"] for fact in reader.raw(run.pk, 0, 500) if fact["kind"] == "ModelFailed"]
    assert len(failures) >= 2
    assert {failure["kind"] for failure in failures} == {"transient"}
    assert re.search("[Cc]onnect", failures[0]["message"])
    assert re.search("[Cc]onnect", pages(house, run))
    decide(house, gate, "reject", reason="enough")
    assert_failed(house, run, "max_seconds", "time limit")


@pytest.mark.spec("E6", "E7")
def test_an_endpoint_that_refuses_the_key(house: House, wired: Callable[..., Agent]) -> None:
    agent = wired(lambda seen: Raw.error(401, "authentication_error", "invalid x-api-key"))
    run = house.submit_to(agent)
    assert_failed(house, run, "model_unavailable", "invalid x-api-key")
    assert Fact.objects.filter(run=run, kind="ModelFailed").count() == 1


@pytest.mark.spec("E7")
def test_a_model_that_answers_nonsense(house: House, wired: Callable[..., Agent]) -> None:
    agent = wired(lambda seen: Raw(400, {"content-type": "text/html"}, "<html>nginx \0 says no</html>"))
    run = house.submit_to(agent)
    assert_failed(house, run, "model_unavailable", "")


def assert_failed(house: House, run: Run, reason: str, said: str) -> None:
    ended(run)
    assert (run.status, run.phase, run.end_reason) == ("failed", "FAIL", reason)
    report = reader.report(run.pk)
    assert report is not None
    assert report["kind"] == "FailureReport"
    assert report["not_done"]
    assert re.search(said, pages(house, run))
    assert not ProvenanceRecord.objects.filter(run=run).exists()
    assert chain.verify(run.pk).ok

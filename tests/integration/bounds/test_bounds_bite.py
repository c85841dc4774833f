"""Where a bound bites, whoever looks there reads that it did, of how much, and where the rest is (SPEC X5)."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from gates.models import Decision, Gate
from gates.services import InvalidDecision
from gates.services.decisions import LONGEST_REASON
from loops.engine.ports import CallContext
from loops.engine.text.truncation import cut
from loops.engine.values import Access, ToolCall
from loops.models import Agent, Artifact, ModelConfig, Step, ToolCallRecord
from loops.runs import composition
from loops.storage.rows import REASONING_CHARS
from loops.web import command_palette, files, overview
from tests import factories as make
from tests import fakes
from tests.decisions import decide
from tests.integration.gates.builders import make_world, open_gate
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X5")]


@pytest.fixture(autouse=True)
def bell(settings: Any) -> None:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"


@pytest.fixture
def root() -> Client:
    browser = Client()
    browser.force_login(make.superuser("root"))
    return browser


def test_reasoning_and_outputs_that_were_cut_say_of_how_much(root: Client) -> None:
    run = owned.begun()
    thought = "x" * (REASONING_CHARS * 3 + 4310)
    tools = fakes.Tools({"look": lambda arguments: "y" * 5000})
    turns = [fakes.says("", ("look", {}), thinking=thought), fakes.says("", ("ask_question", {"question": "?"}))]
    assert run.drive(turns, tools) == "gate:question"
    step, call = (
        Step.objects.get(execution=run.run, step_number=1),
        ToolCallRecord.objects.get(run=run.run, tool="look"),
    )
    said = "[cut at 20,000 of 64,310 characters; the whole is among the run's raw facts]"
    assert step.reasoning == f"{'x' * REASONING_CHARS}\n\n{said}"
    assert call.output.endswith("[cut at 2,000 of 5,000 characters; the whole is among the run's raw facts]")
    page = root.get(reverse("run-step", args=[run.run.pk, 1])).content.decode()
    assert "cut at 20,000 of 64,310 characters" in page
    assert "cut at 2,000 of 5,000 characters" in page
    raw = root.get(reverse("run-raw", args=[run.run.pk])).content.decode()
    assert thought in raw


def test_what_fits_is_left_alone() -> None:
    assert cut("x" * 10, 10) == "x" * 10
    assert cut("x" * 11, 10, "there") == f"{'x' * 10}\n\n[cut at 10 of 11 characters; the whole is there]"


def test_the_sixtieth_colleague_is_asked_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    run = owned.begun().run
    model = ModelConfig.objects.first() or run.agent.actor_model
    for number in range(60):
        kind = "janitor" if number == 59 else "clerk"
        Agent.objects.create(project=run.project, name=f"N{number:02}", agent_type=kind, actor_model=model)

    class Tools:
        def access_of(self, call: ToolCall, context: CallContext, kind: str) -> Access:
            return Access.ALLOW if kind == "janitor" else Access.DENY

    from loops.storage import journal

    orchestrator = composition.orchestrator_of(run, Tools(), None, journal.raw_connection())  # type: ignore[arg-type]
    context = CallContext(str(run.pk), 1, "general", run.project_id, "/nowhere")
    found = orchestrator.find_specialist(ToolCall("c", "delete_file"), context)
    assert (found.name, found.agent_type) == ("N59", "janitor")


def test_a_reason_that_is_too_long_is_refused_not_shortened() -> None:
    world = make_world()
    gate = open_gate(world)
    with pytest.raises(InvalidDecision, match="10,001 characters; at most 10,000"):
        decide(
            actor=world.reviewer,
            gate_id=gate.pk,
            verdict="reject",
            digest=gate.digest,
            reason="x" * (LONGEST_REASON + 1),
        )
    assert not Decision.objects.exists()
    decide(actor=world.reviewer, gate_id=gate.pk, verdict="reject", digest=gate.digest, reason="x" * LONGEST_REASON)


def test_lists_say_that_there_is_more(root: Client) -> None:
    project = make.project()
    runs = [make.run(make.task(project, title=f"Same {number}"), status="failed") for number in range(9)]
    for number in range(files.ARTIFACTS + 7):
        Artifact.objects.create(
            id=uuid.uuid4(), run=runs[0], seq=number, kind="output", name="o", sha256="0" * 64, size=1
        )
    page = root.get(reverse("run-files", args=[runs[0].pk])).content.decode()
    assert f"the latest {files.ARTIFACTS} of {files.ARTIFACTS + 7}" in page
    assert len(runs) > max(overview.FAILURES, command_palette.MOST)
    assert "All failures" in root.get(reverse("overview")).content.decode()
    assert "More runs match" in root.get(reverse("find"), {"q": "Same"}).content.decode()
    assert "More runs match" not in root.get(reverse("find"), {"q": "Same 3"}).content.decode()
    many = {"action": "stop", "run": [str(uuid.uuid4()) for _ in range(101)]}
    done = root.post(reverse("runs-bulk"), many, follow=True).content.decode()
    assert "Only the first 100 of the 101 selected runs" in done


def test_whoever_states_a_criterion_reads_how_long_it_may_take(root: Client) -> None:
    make.task(make.project())
    page = root.get(reverse("new-task")).content.decode()
    assert "Each command may take 2 min" in re.sub(r"<[^>]*>", "", page)


def test_a_reviewer_reads_that_reasoning_was_cut() -> None:
    run = owned.begun()
    turns = [fakes.says("z" * 5000, ("ask_question", {"question": "?"}))]
    assert run.drive(turns, fakes.Tools({})) == "gate:question"
    view = Gate.objects.get(run=run.run).view
    assert view["reasoning"].endswith("[cut at 4,000 of 5,000 characters; the whole is on the page of the run]")

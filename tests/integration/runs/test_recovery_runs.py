"""Failures on the real parts: approaches given up, people asked, runs stopped by a word (SPEC D, E)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from gates.models import Gate
from loops.engine import facts
from loops.engine.failures.reflection import CUT_HERE
from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import never_stops
from loops.models import Agent, Fact, Run, Step, ToolCallRecord, Workspace
from loops.runs.drive import drive
from loops.services.models import ensure_script
from loops.services.steering import send_message
from loops.services.tasks import submit_task
from loops.storage import chain, reader, rebuild
from tests.decisions import decide
from tests.factories import create_project

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "README.md").write_text("The rules.\n")
    return tmp_path


def submit(boss: Any, place: Path, script: str, **task: Any) -> Run:
    project = create_project(actor=boss, name="P", slug="p")
    agent = Agent.objects.create(project=project, name=script, actor_model=ensure_script(script, pace=0))
    workspace = Workspace.objects.create(project=project, name="w", path=str(place))
    task = {"goal": "Do it", "final_review": "never"} | task
    return submit_task(actor=boss, project=project, agent=agent, workspace=workspace, **task).run


def played(run: Run) -> tuple[str, Run]:
    why = drive(run.pk, "test")
    run.refresh_from_db()
    return why, run


def kinds(run: Run) -> list[str]:
    return list(Fact.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


def answer(boss: Any, run: Run, verdict: str, **more: Any) -> Gate:
    gate = Gate.objects.get(run=run, status="open")
    decide(actor=boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, **more)
    return gate


@pytest.fixture
def playing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A script of this test's own under the name of one that there is."""

    def play(turn: Any) -> str:
        made = Script(name="never_stops", summary="", play=lambda request, number: turn(number))
        monkeypatch.setattr(never_stops, "SCRIPT", made)
        return "never_stops"

    return play


@pytest.mark.spec("E1", "E2", "E3", "E4", "C1", "N1")
def test_an_agent_gives_up_an_approach_and_gets_there_another_way(boss: Any, place: Path) -> None:
    why, run = played(submit(boss, place, "steps_back"))
    assert (why, run.status, run.end_reason) == ("ended", "completed", "no_criteria")
    found = kinds(run)
    assert found.count("FailureClassified") == 3
    assert [found.count(kind) for kind in ("Backtracked", "ReflectionForced", "ReflectionGiven")] == [1, 1, 1]
    said = reader.conversation(run.pk)
    assert CUT_HERE in str(said)
    assert "settings.toml" in str(said)  # named by the summary
    assert not [m for m in said if "s_0_0" in str(m)]  # the call itself is gone
    assert ToolCallRecord.objects.filter(run=run, ok=False).count() == 3  # and kept in the record
    assert chain.verify(run.pk).ok
    failed = Step.objects.get(execution=run, step_number=3)
    assert failed.validation["recovery"] == "BACKTRACK"
    assert "list_files" in failed.validation["failure"]
    assert [(one["tool"], one["ok"], one["attempt"]) for one in failed.result["calls"]] == [("list_files", False, 1)]


@pytest.mark.spec("E3", "R1", "R4")
def test_the_pages_say_what_happened(boss: Any, place: Path) -> None:
    _, run = played(submit(boss, place, "steps_back", complexity="simple"))
    browser = Client()
    browser.force_login(boss)
    page = browser.get(reverse("run", args=[run.pk])).content.decode()
    for words in (
        "Backtracked to the beginning",
        "Reflecting: 3 tool errors in a row",
        "Systematic failure of read_file",
        "This approach is given up.",
        'title="simple (stated with the task)">simple task</span>',
    ):
        assert words in page
    talk = browser.get(reverse("run-conversation", args=[run.pk])).content.decode()
    assert "Taken out of this conversation" in talk


@pytest.mark.spec("C1", "D1")
def test_rebuilt_rows_equal_the_stored_ones(boss: Any, place: Path) -> None:
    _, run = played(submit(boss, place, "steps_back"))
    assert not rebuild.rebuild(run.pk).differences


@pytest.mark.spec("D4", "Q1", "Q4", "D2")
def test_a_long_task_is_confirmed_by_a_person(boss: Any, place: Path, playing: Any) -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    for word in words:
        (place / f"{word}.txt").write_text(word)

    def turn(number: int) -> Turn:
        return Turn(text=words[number], calls=(("read_file", {"path": f"{words[number]}.txt"}),))

    why, run = played(submit(boss, place, playing(turn), limits={"confirm_after": 3}))
    assert why == "gate:long_task"
    gate = answer(boss, run, "approve")
    assert gate.view["steps"] == 3
    why, run = played(run)
    assert (why, run.total_steps) == ("gate:long_task", 6)
    answer(boss, run, "reject", reason="enough")
    why, run = played(run)
    assert (why, run.status, run.end_reason) == ("ended", "interrupted", "not_confirmed")


@pytest.mark.spec("E1")
def test_the_first_path_outside_is_a_slip_and_nobody_is_asked(boss: Any, place: Path, playing: Any) -> None:
    slip = Turn(text="I look at it.", calls=(("read_file", {"path": "/repo/README.md"}),))
    mended = Turn(text="Relative, then.", calls=(("read_file", {"path": "README.md"}),))
    end = Turn(text="That is all.", calls=(("task_completion", {"result": "It has rules."}),))
    why, run = played(submit(boss, place, playing(lambda number: (slip, mended, end)[number])))
    assert (why, run.status) == ("ended", "completed")
    assert not Gate.objects.filter(run=run).exists()
    (failure,) = [fact for fact in reader.history(run.pk) if isinstance(fact, facts.FailureClassified)]
    assert (failure.kind.value, failure.decision.value) == ("critical", "CONTINUE")


@pytest.mark.spec("E1", "Q1", "Q3", "E7", "A2", "W1")
def test_an_attempt_to_leave_the_workspace_is_put_before_a_person(boss: Any, place: Path, playing: Any) -> None:
    def out(number: int) -> Turn:
        return Turn(text="I look at the host.", calls=(("read_file", {"path": f"{'../' * (number + 2)}etc/passwd"}),))

    why, run = played(submit(boss, place, playing(out)))
    assert why == "gate:escalation"
    gate = answer(boss, run, "reject", reason="not this one")
    assert "read_file" in gate.title
    assert "etc/passwd" in str(gate.view["tried"])
    why, run = played(run)
    assert (run.status, run.final_status, run.end_reason) == ("escalated", "escalated", "escalated")
    assert run.escalation_reason == gate.title
    assert not rebuild.rebuild(run.pk).differences
    report = reader.report(run.pk)
    assert report is not None
    assert "read_file" in report["diagnosis"]
    assert report["not_done"]


@pytest.mark.spec("D1", "K1", "K2")
def test_a_word_of_a_person_stops_the_run(boss: Any, place: Path) -> None:
    run = submit(boss, place, "never_stops")
    send_message(actor=boss, run=run, text="Please stop now.")
    why, run = played(run)
    assert (why, run.status, run.end_reason) == ("ended", "interrupted", "user_stop")
    assert "Please stop now." in str(reader.conversation(run.pk))


@pytest.mark.spec("E1", "Q1", "X5")
def test_a_check_whose_program_is_missing_is_put_before_a_person(boss: Any, place: Path) -> None:
    """In the real sandbox; the program is installed while the run waits, and the same result passes."""
    criteria = [{"text": "the greeting is checked", "command": "./tools/greets hello.txt"}]
    made = submit(boss, place, "writes_a_file", criteria=criteria)
    made.project.access_rules.filter(operation="execute").update(access="allow")
    why, run = played(made)
    assert (why, run.status) == ("gate:checks_not_run", "waiting")
    gate = Gate.objects.get(run=run, status="open")
    assert "greets is not there" in gate.title
    client = Client()
    client.force_login(boss)
    page = client.get(reverse("gate", args=[gate.pk])).content.decode()
    for said in ("Fixed: run the checks again", "no repair was used", "Send to the agent"):
        assert said in page
    tools = Path(run.workspace_path) / "tools"
    tools.mkdir()
    (tools / "greets").write_text('#!/bin/sh\ngrep -q Hello "$1"\n')
    answer(boss, run, "approve")
    why, run = played(run)
    assert why == "gate:checks_not_run"
    assert "may not be executed here" in Gate.objects.get(run=run, status="open").title
    (tools / "greets").chmod(0o755)
    answer(boss, run, "approve")
    why, run = played(run)
    assert (why, run.status, run.end_reason) == ("ended", "completed", "criteria_met")
    assert (reader.report(run.pk) or {})["usage"]["repairs"] == 0

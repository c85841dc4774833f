"""A run that its workers die of is put aside after the second one, and costs nobody else anything. Real workers die."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from loops.models import AuditEvent, Run
from loops.runs import recovery
from tests.e2e import crew as crews
from tests.e2e import plant
from tests.e2e.crew import Crew, decide, facts, owner, sweeping
from tests.e2e.scripts.as_told import ARMED, NOW
from tests.stack import wait_until

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4")]
STEPS = 20
NOTHING: dict[str, Any] = {"calls": [["list_files", {}]]}


@pytest.fixture
def crew(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Crew]:
    settings.AGENTOPS_CELERY = plant.APP
    with crews.at_work(tmp_path) as crew:
        yield crew


def is_over(worker: subprocess.Popen[bytes]) -> bool:
    return worker.poll() is not None


def deadly(crew: Crew, switch: Path, **more: Any) -> Run:
    """Its second step kills whoever takes it, while ``switch`` is there."""
    switch.touch()
    return crew.submit(NOTHING, {**NOTHING, "kills": str(switch)}, **more)


def neighbour(crew: Crew) -> Run:
    steps = [["write_file", {"path": f"a{number}", "content": f"{number}"}] for number in range(STEPS)]
    limits = {"max_steps": STEPS + 2}
    return crew.submit(*[{"calls": [step], "words": "a b c d e f", "pace": 0.2} for step in steps], limits=limits)


def refreshed(run: Run) -> Run:
    run.refresh_from_db()
    return run


def rests(run: Run) -> bool:
    """At its end, or at a person's question."""
    return owner(run) == 0 and (run.completed_at is not None or run.status in ("waiting", "paused"))


def dies_of(crew: Crew, run: Run, switch: Path, name: str, beside: Run | None = None) -> None:
    """A worker takes the run and dies of it, once it has begun another step of the one ``beside``."""
    begun = len(facts(beside, "ModelRequested")) if beside else 0
    worker = crew.start(name)
    sweeping(lambda: switch.read_text() == ARMED, f"{name} to take it")
    if beside is not None:
        sweeping(lambda: owner(beside) == worker.pid and len(facts(beside, "ModelRequested")) > begun + 1, "a step")
    switch.write_text(NOW)
    wait_until(lambda: is_over(worker), f"the end of {name}")
    assert worker.returncode == -signal.SIGKILL
    assert owner(run) == worker.pid


def test_a_run_that_kills_its_workers_is_put_aside_and_its_neighbour_goes_on(crew: Crew, tmp_path: Path) -> None:
    switch = tmp_path / "switch"
    run, beside = deadly(crew, switch), neighbour(crew)
    for number in range(recovery.DEATHS_AT_MOST):
        dies_of(crew, run, switch, f"victim{number}", beside)
    third = crew.start("third")
    sweeping(lambda: refreshed(run).status == "paused" and not run.owner, "the pause")
    assert (run.paused_by, run.runnable) == ("watchdog", False)
    assert run.paused_reason.startswith("2 workers died one after the other while they held it at step 2.")
    sweeping(lambda: rests(beside), "the neighbour")
    assert not facts(beside, "RunPaused"), plant.told(beside)
    assert len(facts(beside, "RunTakenOver")) == recovery.DEATHS_AT_MOST
    assert len(facts(beside, "ToolCompleted")) > STEPS / 2
    assert not is_over(third)

    browser = Client()
    browser.force_login(crew.boss)
    for page in ("review", "overview"):
        said = browser.get(reverse(page)).content.decode()
        assert "Paused by the watchdog: 2 workers died" in said, page
        assert "Try again" in said, page
    switch.unlink()
    browser.post(reverse("runs-bulk"), {"run": str(run.pk), "action": "resume", "next": reverse("review")})
    sweeping(lambda: refreshed(run).completed_at is not None, "the end")
    assert (run.status, is_over(third)) == ("completed", False)


def test_a_worker_that_dies_at_a_later_step_begins_to_count_anew(crew: Crew, tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    one.touch()
    other.touch()
    run = crew.submit({**NOTHING, "kills": str(one)}, {**NOTHING, "kills": str(other)})
    dies_of(crew, run, one, "first")
    one.unlink()
    dies_of(crew, run, other, "second")
    other.unlink()
    crew.start("third")
    sweeping(lambda: refreshed(run).completed_at is not None, "the end")
    assert [fact["died"] for fact in facts(run, "RunTakenOver")] == [True, True]
    assert (run.status, facts(run, "RunPaused")) == ("completed", [])


def test_a_worker_that_was_told_to_end_did_not_die_of_its_run(crew: Crew, tmp_path: Path) -> None:
    """A deployment that has no patience: twice at the same step, and the run goes on by itself."""
    run = crew.submit({**NOTHING, "words": "word " * 600, "pace": 0.2})
    for number in range(recovery.DEATHS_AT_MOST):
        worker = crew.start(f"old{number}", AGENTOPS_CREW_GRACE_S="300")
        asked = number + 1
        sweeping(lambda asked=asked: len(facts(run, "ModelRequested")) == asked, "its request")
        assert owner(run) == worker.pid
        worker.send_signal(signal.SIGTERM)
        told = AuditEvent.objects.filter(run=run, kind="run.worker_told_to_end")
        wait_until(lambda told=told, asked=asked: told.count() == asked, "its word")
        worker.send_signal(signal.SIGTERM)  # no grace
        sweeping(lambda worker=worker: is_over(worker), "its end")
        assert owner(run) == worker.pid, "it was not given back"
    crew.start("new")
    sweeping(lambda: len(facts(run, "ModelRequested")) > recovery.DEATHS_AT_MOST, "the next owner to go on")
    assert facts(run, "RunPaused") == []
    taken = facts(run, "RunTakenOver")
    ended = [(one["lost_is_dead"], one.get("died", False)) for one in taken]
    assert ended == [(True, False)] * recovery.DEATHS_AT_MOST
    assert taken[0]["why"] == "the worker was told to end"


@pytest.mark.spec("I7")
def test_what_the_command_of_a_lost_worker_had_planted_is_gone_before_its_run_goes_on(crew: Crew) -> None:
    """The run tells of it with its next command, and the audit log before."""
    line = "git init -q made; git -C made config core.fsmonitor 'touch /tmp/x'; echo x > .envrc; echo work > kept; "
    run = crew.submit(
        {"calls": [["run_command", {"command": f"{line} touch begun; sleep 300", "timeout_s": 400}]]},
        {"calls": [["run_command", {"command": "cat kept"}]]},
    )
    victim = crew.start("victim")
    sweeping(lambda: (run.workspace_path and crew.file(run, "begun").exists()) or not refreshed(run), "the command")
    victim.kill()
    victim.wait()
    assert crew.file(run, ".envrc").exists(), "control: nobody was left who could take it away"
    sweeping(lambda: AuditEvent.objects.filter(run=run, kind="tool.planted").exists(), "the audit log")
    assert not crew.file(run, ".envrc").exists()
    assert "fsmonitor" not in crew.file(run, "made/.git/config").read_text()
    assert crew.file(run, "kept").read_text() == "work\n"
    crew.start("next")
    sweeping(lambda: rests(run), "the person's question")
    decide(run, "reject", crew)
    sweeping(lambda: refreshed(run).completed_at is not None, "the end")
    told = [fact["result"]["content"] for fact in facts(run, "ToolCompleted")]
    assert any("taken away: .envrc" in content and "worker was lost" in content for content in told), told

"""A worker is frozen for longer than its lease, another one goes on, the first one wakes up: it writes nothing and does
nothing any more. Each guard has its negative control."""

from __future__ import annotations

import random
import signal
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gates.models import Gate
from gates.services import InvalidDecision, decisions
from loops.models import Fact, Run
from loops.storage import chain
from loops.storage.connections import IDLE_IN_TRANSACTION_MS
from tests.e2e import crew as crews
from tests.e2e import plant
from tests.e2e.crew import LEASE_S, Crew, facts, owner, sweeping
from tests.stack import is_frozen, wait_until

pytestmark = pytest.mark.django_db(transaction=True)

RUNS, ROUNDS = 6, 2
NOTE = {"calls": [["note", {}]]}
COMMAND = {"calls": [["run_command", {"command": "echo x >> ledger"}]]}


def busy(number: int) -> list[dict[str, Any]]:
    """Effects of every kind, none of which may happen twice: each writes its own line, or moves its own file."""
    steps: list[dict[str, Any]] = []
    for step in range(3):
        steps.append({"words": "word " * (5 * (number + 1)), "pace": 0.02, "calls": [
            ["write_file", {"path": f"a{step}", "content": f"{step}"}],
            ["move_file", {"path": f"a{step}", "target": f"b{step}"}],
        ]})  # fmt: skip
        steps.append({"calls": [["run_command", {"command": f"sleep 0.{number}; echo {step} >> ledger"}]]})
    return steps


@pytest.fixture
def crew(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Crew]:
    settings.AGENTOPS_CELERY = plant.APP
    with crews.at_work(tmp_path) as crew:
        yield crew


@pytest.mark.spec("J2", "J3", "J4")
def test_whoever_wakes_up_late_writes_nothing_and_does_nothing(crew: Crew) -> None:
    chance = random.Random(7)
    frozen = taken = 0
    for round_number in range(ROUNDS):
        old = crew.start("old")
        runs = [crew.submit(*busy(number)) for number in range(RUNS)]
        wait_until(lambda runs=runs: all(owner(run) or run.completed_at for run in runs), "every run to be taken")
        time.sleep(chance.uniform(0.0, 1.5))
        old.send_signal(signal.SIGSTOP)
        wait_until(lambda old=old: is_frozen(old.pid), "the freeze")
        held = [run for run in runs if owner(run) == old.pid]
        crew.start(f"new{round_number}")
        sweeping(lambda held=held, old=old: all(owner(run) != old.pid for run in held), "the next owner")
        old.send_signal(signal.SIGCONT)
        sweeping(lambda runs=runs: all(settled(run, crew) for run in runs), "the end")
        frozen, taken = frozen + len(held), taken + sum(bool(facts(run, "RunTakenOver")) for run in held)
        for run in runs:
            check(run, crew)
        crew.stop()
    print(f"{frozen} runs frozen with their worker, {taken} taken over")
    assert frozen == taken > 0


def settled(run: Run, crew: Crew) -> bool:
    """Has it ended? Whoever is asked whether a command was done looks at the ledger."""
    if (gate := Gate.objects.filter(run=run, status="open").first()) is not None:
        assert gate.kind == "in_doubt", plant.told(run)
        line = str(gate.view["arguments"]["command"]).split()[-3]
        lines = crew.file(run, "ledger").read_text().split() if crew.file(run, "ledger").exists() else []
        if line in lines:
            crews.decide(run, "respond", crew, outcome="done")
        else:  # it may still be run by the one who sleeps
            crews.decide(run, "reject", crew)
    run.refresh_from_db()
    return run.completed_at is not None


def check(run: Run, crew: Crew) -> None:
    epochs = list(Fact.objects.filter(run=run).order_by("seq").values_list("epoch", flat=True))
    assert epochs == sorted(epochs)
    assert chain.verify(run.pk).ok
    outcomes = Counter(fact["call_id"] for fact in facts(run, "ToolCompleted"))
    assert set(outcomes.values()) <= {1}
    ledger = crew.file(run, "ledger")
    lines = Counter(ledger.read_text().split() if ledger.exists() else [])
    assert set(lines.values()) <= {1}, lines


class TestFrozenBetweenIntentAndEffect:
    """A person lets the call run again while its first owner still sleeps (reliability#promises, 5)."""

    @pytest.mark.spec("J2", "J3")
    def test_the_first_owner_does_nothing(self, crew: Crew, monkeypatch: Any) -> None:
        assert self.lines_after_waking(crew, monkeypatch, fence="on") == 1

    def test_without_the_fence_it_happens_twice(self, crew: Crew, monkeypatch: Any) -> None:
        """Negative control."""
        assert self.lines_after_waking(crew, monkeypatch, fence="off") == 2

    @staticmethod
    def lines_after_waking(crew: Crew, monkeypatch: Any, fence: str) -> int:
        old = crew.start("old", AGENTOPS_CRASH_AT="AFTER_INTENT:1:SIGSTOP", AGENTOPS_FENCE=fence)
        run = crew.submit(NOTE)
        wait_until(lambda: Gate.objects.filter(run=run, status="open").exists(), "the question before it")
        crews.decide(run, "approve", crew, confirm="note")
        wait_until(lambda: crews.latest(run) == "ToolIntended", "the intent")
        crew.start("new")
        sweeping(lambda: Gate.objects.filter(run=run, status="open", kind="in_doubt").exists(), "the question")
        with pytest.raises(InvalidDecision, match="may still be running the call"):
            crews.decide(run, "approve", crew)
        monkeypatch.setattr(decisions, "again_from", lambda *words: None)  # a person who is wrong
        crews.decide(run, "approve", crew)
        plant.wait_for_runs([run.pk])
        assert [fact.get("attempt", 1) for fact in facts(run, "ToolIntended")] == [1, 2]
        assert len({fact["idempotency_key"] for fact in facts(run, "ToolIntended")}) == 1
        assert crew.file(run, "ledger").read_text() == "x\n"
        facts_before = Fact.objects.filter(run=run).count()
        old.send_signal(signal.SIGCONT)
        old.send_signal(signal.SIGTERM)  # it has nothing else to do: once it is gone, it has done what it wanted to
        old.wait(60)
        assert Fact.objects.filter(run=run).count() == facts_before
        return len(crew.file(run, "ledger").read_text().split())


class TestFrozenInsideATransaction:
    """It holds the lock on the run's row: the lease cannot pass on before the server ends its session."""

    LONG_ENOUGH_S = LEASE_S + IDLE_IN_TRANSACTION_MS / 1000 + 5

    @pytest.mark.spec("J3", "J4")
    def test_is_cut_off(self, crew: Crew) -> None:
        old, run = self.freeze(crew, timeouts="on")
        sweeping(lambda: owner(run) not in (0, old.pid) or crews.latest(run) == "RunEnded", "it")
        old.send_signal(signal.SIGCONT)
        plant.wait_for_runs([run.pk])
        check(run, crew)
        assert crew.file(run, "ledger").read_text() == "x\n"
        epochs = {fact["epoch"] for fact in Fact.objects.filter(run=run, kind="ToolIntended").values("epoch")}
        assert epochs == {2}, "what was written in the lost transaction is not there"

    def test_without_time_limits_nobody_gets_the_run(self, crew: Crew) -> None:
        """Negative control."""
        old, run = self.freeze(crew, timeouts="off")
        with pytest.raises(AssertionError, match="the next owner"):
            sweeping(lambda: owner(run) != old.pid, "the next owner", self.LONG_ENOUGH_S)

    @staticmethod
    def freeze(crew: Crew, timeouts: str) -> Any:
        old = crew.start("old", AGENTOPS_CRASH_AT="IN_INTENT:1:SIGSTOP", AGENTOPS_CREW_TIMEOUTS=timeouts)
        run = crew.submit(COMMAND)
        wait_until(lambda: is_frozen(old.pid), "the freeze")
        crew.start("new")
        return old, run

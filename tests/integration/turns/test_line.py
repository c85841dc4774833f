"""Turns at an endpoint: one line for all workers, and a turn that ends with the lease of who has it (SPEC E6)."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone

from loops.llm.registry import ModelService
from loops.models import ModelConfig, ModelTurn, Run
from loops.services.models import model_configs
from loops.storage.turns import PgTurns
from tests import factories as make
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("E6")]

Seats = Callable[[str], tuple[str, int]]
SEAT = "http://10.0.0.5:8080"


@dataclass
class Worker:
    """A worker with a run of its own; ``rung`` are the runs it rang for, ``shown`` those it told watchers of."""

    turns: PgTurns
    owned: owned.Owned
    rung: list[uuid.UUID]
    shown: list[uuid.UUID]

    @property
    def run(self) -> uuid.UUID:
        return self.owned.run.pk


def worker(at_once: int = 1, seat: str = SEAT, seats: Seats | None = None) -> Worker:
    mine = owned.own(owned.new_run())
    rung: list[uuid.UUID] = []
    shown: list[uuid.UUID] = []
    turns = PgTurns(
        mine.journal.connection,
        mine.run.pk,
        mine.journal.epoch,
        seats or (lambda model: (seat, at_once)),
        rung.append,
        lambda run, project: shown.append(run),
    )
    return Worker(turns, mine, rung, shown)


def configured() -> Worker:
    """A worker with the seats that every run gets: those of the configured models."""
    return worker(seats=ModelService(model_configs()).seat)


def park(waiting: Worker, before: int = 1) -> None:
    """In words that nothing goes by."""
    told = make.waiting("turn", "own", f"{before} others first")
    Run.objects.filter(pk=waiting.run).update(owner="", lease_until=None, **told)


def end_lease(of: Worker) -> None:
    """As when its process was killed."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE agent_execution_history SET lease_until = clock_timestamp() - interval '1 second' WHERE id = %s",
            [of.run],
        )


def test_others_wait_in_the_order_in_which_they_came() -> None:
    first, second, third = worker(), worker(), worker()
    assert [first.turns.take("own"), second.turns.take("own"), third.turns.take("own")] == [0, 1, 2]
    assert [first.turns.take("own"), second.turns.take("own"), third.turns.take("own")] == [0, 1, 2]
    first.turns.leave()
    assert [third.turns.take("own"), second.turns.take("own")] == [1, 0]


def test_who_is_next_is_rung_for_and_all_learn_where_they_are() -> None:
    first, second, third = worker(), worker(), worker()
    for one in (first, second, third):
        one.turns.take("own")
    park(second)
    park(third, 2)
    first.turns.leave()
    assert first.rung == [second.run]
    assert first.shown == [second.run, third.run]
    waits = dict(Run.objects.filter(pk__in=[second.run, third.run]).values_list("pk", "waiting_on"))
    assert waits == {second.run: "turn at own: it is next", third.run: "turn at own: 1 before it"}


def test_a_killed_worker_gives_its_turn_back_with_its_lease() -> None:
    gone, second = worker(), worker()
    gone.turns.take("own")
    assert second.turns.take("own") == 1
    end_lease(gone)
    assert second.turns.take("own") == 0


def test_a_place_whose_run_waits_for_something_else_counts_no_more() -> None:
    first, paused, third = worker(), worker(), worker()
    for one in (first, paused, third):
        one.turns.take("own")
    Run.objects.filter(pk=paused.run).update(owner="", lease_until=None, waiting_on="")
    assert third.turns.take("own") == 1


def test_a_place_whose_run_never_comes_back_counts_no_more() -> None:
    first, lost, third = worker(), worker(), worker()
    for one in (first, lost, third):
        one.turns.take("own")
    park(lost)
    assert third.turns.take("own") == 2
    ModelTurn.objects.filter(run=lost.run).update(seen_at=timezone.now() - timedelta(days=1))
    assert third.turns.take("own") == 1


def test_a_turn_that_came_while_the_run_was_being_parked_is_not_missed() -> None:
    first, second = worker(), worker()
    first.turns.take("own")
    second.turns.take("own")
    first.turns.leave()
    park(second)
    second.turns.parked()
    assert second.rung == [second.run]


def test_so_many_at_once_as_the_endpoint_takes_and_each_endpoint_for_itself() -> None:
    first, second, third, other = worker(2), worker(2), worker(2), worker(1, "http://10.0.0.6:8080")
    assert [one.turns.take("own") for one in (first, second, third, other)] == [0, 0, 2, 0]


@pytest.mark.parametrize(
    ("fields", "waits"),
    [
        ({"base_url": "http://10.0.0.5:8080/v1"}, [0, 1, 2]),
        ({"base_url": "http://localhost:11434/v1"}, [0, 1, 2]),
        ({"base_url": "http://10.0.0.5:8080/v1", "calls_at_once": 2}, [0, 0, 2]),
        ({"base_url": "https://api.example.com/v1"}, [0, 0, 0]),
        ({"base_url": "https://api.example.com/v1", "calls_at_once": 1}, [0, 1, 2]),
    ],
    ids=["in our network", "on this machine", "with more slots", "of a provider", "limited by an admin"],
)
def test_a_server_of_ones_own_takes_one_call_at_once_unless_an_admin_says_more(
    fields: dict[str, Any], waits: list[int]
) -> None:
    ModelConfig.objects.create(name="own", provider="openai", model_id="tiny", **fields)
    assert [configured().turns.take("own") for _ in range(3)] == waits


def test_models_of_one_server_stand_in_one_line() -> None:
    for name in ("a", "b"):
        ModelConfig.objects.create(name=name, provider="openai", model_id=name, base_url="http://10.0.0.5:8080/v1")
    assert [configured().turns.take("a"), configured().turns.take("b")] == [0, 1]


def test_a_run_that_waits_for_a_person_is_told_nothing_and_not_rung_for() -> None:
    first, asks = worker(), worker()
    first.turns.take("own")
    asks.turns.take("own")
    Run.objects.filter(pk=asks.run).update(owner="", lease_until=None, **make.waiting("gate", "tool_approval"))
    first.turns.leave()
    assert Run.objects.values_list("waiting_on", "wake_at").get(pk=asks.run) == ("tool_approval", None)


def test_who_lost_the_run_does_not_give_its_turn_away() -> None:
    lost = worker()
    lost.turns.take("own")
    epoch = lost.owned.journal.epoch + 1
    Run.objects.filter(pk=lost.run).update(epoch=epoch)
    again = PgTurns(lost.owned.journal.connection, lost.run, epoch, lambda model: (SEAT, 1))
    assert again.take("own") == 0
    lost.turns.leave()
    assert worker().turns.take("own") == 1


def test_nobody_waits_at_an_endpoint_without_a_limit() -> None:
    assert [worker(0).turns.take("own") for _ in range(3)] == [0, 0, 0]
    assert not ModelTurn.objects.exists()


def test_of_many_that_ask_at_once_one_has_the_turn() -> None:
    runs = [owned.own(owned.new_run()) for _ in range(8)]
    start, before = threading.Barrier(8), []

    def ask(mine: owned.Owned) -> None:
        try:
            connection.ensure_connection()
            turns = PgTurns(connection.connection, mine.run.pk, mine.journal.epoch, lambda model: (SEAT, 1))
            start.wait()
            before.append(turns.take("own"))
        finally:
            connection.close()

    threads = [threading.Thread(target=ask, args=[mine]) for mine in runs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(before) == list(range(8))

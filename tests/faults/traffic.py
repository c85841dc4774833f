"""P23: the broker dies while jobs are on their way to a worker; the worker lives on, and hears again (SPEC J4)."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Iterator

from tests.faults import house, oracle, stand, workers
from tests.faults.outcome import Found, Outcome

SCRIPT = "short_errand"
BETWEEN_S = 0.004
AT_ONCE, HELD_S = 0, 60
UP_S, DOWN_S = (1.0, 2.0), (0.1, 0.5)
"""Long enough for a queue to grow, and for the worker to close its connection before there is a broker again."""
HEARD_WITHIN_S = 20.0
UNTIL = 20
"""Deaths after which a worker without the guard has ended: every second hits it while it puts jobs back."""


def check(count: int) -> list[Outcome]:
    """``count`` deaths of the broker under traffic of either kind, then a run that has to be heard of."""
    outcome = Outcome("P23", faults=count)
    house.agent(SCRIPT)
    outcome.found.broken += ended(count, AT_ONCE) + ended(count, HELD_S)
    if not outcome.found.all:
        outcome.found += heard_of()
    control = ended(max(count, UNTIL), HELD_S, "in_memory")
    outcome.control = next((how for how in control if how.startswith("ended")), "")
    return [outcome]


def ended(count: int, hold: int, *off: str) -> list[str]:
    """How the worker ended; nothing when it outlived all deaths."""
    with workers.at_work(workers.Workers("threads", 4, off=off)) as at_work, traffic(hold):
        for number in range(1, count + 1):
            patience = 120 if number == 1 else stand.within(HEARD_WITHIN_S)  # the first is its start, too
            if stand.wait_for(listens, patience) < 0:
                return [f"heard nothing after {number - 1} deaths of the broker"]
            time.sleep(random.uniform(*UP_S))
            stand.STAND.kill_valkey()
            time.sleep(random.uniform(*DOWN_S))
            stand.STAND.start_valkey()
            assert at_work.process is not None
            if stand.wait_for(lambda: listens() or has_ended(at_work), stand.within(HEARD_WITHIN_S)) < 0:
                return [f"heard nothing after {number} deaths of the broker\n{stand.tail(['worker'], lines=60)}"]
            if has_ended(at_work):
                return [f"ended with death {number} of the broker: {stand.tail(['worker'], lines=1).splitlines()[-1]}"]
    return []


def heard_of() -> Found:
    """A run of afterwards, with a clock: what was lost on the way is made good."""
    run = house.submit(SCRIPT)
    with workers.at_work(workers.Workers("threads", 4)) as at_work:
        workers.see_through([run], at_work, 120)
    return oracle.examine(run)


def has_ended(at_work: workers.Workers) -> bool:
    return at_work.process is not None and at_work.process.poll() is not None


def listens() -> bool:
    """Does a worker wait at the broker for jobs?"""
    import redis
    from django.conf import settings

    with contextlib.suppress(redis.RedisError), redis.Redis.from_url(settings.REDIS_URL) as client:
        return any(connection["cmd"] == "brpop" for connection in client.client_list())
    return False


@contextlib.contextmanager
def traffic(hold: int) -> Iterator[None]:
    """Jobs about runs that there are none of, hundreds a second; for ``hold`` seconds the worker has each of them
    unacknowledged."""
    from agentops.celery import app

    over = threading.Event()

    def send() -> None:
        while not over.wait(BETWEEN_S):
            with contextlib.suppress(Exception):  # there is no broker
                app.send_task("loops.advance", kwargs={"run_id": str(uuid.uuid4())}, retry=False, countdown=hold)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    try:
        yield
    finally:
        over.set()
        sender.join()

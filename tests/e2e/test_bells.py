"""A bell must not get lost because somebody else touches the run at that moment."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import transaction

from loops.models import Run
from loops.storage import journal
from tests.integration.services import world
from tests.integration.services.world import closing_connections

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J3", "J4")]


@pytest.fixture
def run(transactional_db: Any, settings: Any) -> Run:
    settings.AGENTOPS_CELERY = "tests.e2e.plant.app"  # nobody listens there
    return world.make().submit().run


def held(run: Run, begun: threading.Event, go_on: threading.Event) -> threading.Thread:
    """Somebody who decides a gate of the run holds its row for a moment."""

    @closing_connections
    def hold() -> None:
        with transaction.atomic():
            Run.objects.select_for_update(no_key=True).get(pk=run.pk)
            begun.set()
            go_on.wait(60)

    thread = threading.Thread(target=hold)
    thread.start()
    assert begun.wait(60)
    return thread


def test_a_run_is_claimed_although_somebody_decides_something_about_it(run: Run) -> None:
    begun, go_on = threading.Event(), threading.Event()
    thread = held(run, begun, go_on)
    threading.Timer(0.3, go_on.set).start()
    claim = journal.claim(run.pk, "one")
    thread.join()
    assert claim is not None
    assert claim.epoch == 1


def test_of_two_who_claim_at_once_one_gets_it(run: Run) -> None:
    begun, go_on = threading.Event(), threading.Event()
    thread = held(run, begun, go_on)
    claims: list[journal.Claim | None] = []

    @closing_connections
    def claim(owner: str) -> None:
        claims.append(journal.claim(run.pk, owner))

    both = [threading.Thread(target=claim, args=(name,)) for name in ("one", "two")]
    for one in both:
        one.start()
    threading.Timer(0.3, go_on.set).start()
    for one in (*both, thread):
        one.join()
    assert len([one for one in claims if one is not None]) == 1

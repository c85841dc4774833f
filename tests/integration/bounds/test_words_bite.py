"""Words that are kept in part say of how many they are a part (SPEC X5)."""

from __future__ import annotations

from typing import Any

import pytest

from gates.models import Gate
from loops.engine import facts as f
from loops.engine.failures import breakers as b
from loops.ids import new_id
from loops.llm import transport_errors
from loops.models import AuditEvent, Breaker
from loops.services import audit
from loops.storage import audit_rows, breakers, journal, rows
from tests import fakes
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X5")]


@pytest.fixture(autouse=True)
def bell(settings: Any) -> None:
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"


def test_the_reason_of_a_breaker_says_that_it_was_cut() -> None:
    store = breakers.PgBreakers(journal.raw_connection(), new_id(), 1)
    why = "overloaded " * 40
    for _ in range(5):
        store.failed(b.MODEL, "claude", why)
    kept = Breaker.objects.get().why
    assert kept.endswith("… (440 characters)")
    assert len(kept) == breakers.LONGEST_WHY


def test_the_reason_of_a_pause_says_that_it_was_cut() -> None:
    state = fakes.World().state
    for length, end in ((rows.PAUSE_CHARS, "x"), (1234, "… (1,234 characters)")):
        fact = f.RunPaused(by="monitor", reason="x" * length, at=1)
        pause = rows.project(str(new_id()), [(fact, state)])["pause"]
        assert pause["paused_reason"].endswith(end)
        assert len(pause["paused_reason"]) == rows.PAUSE_CHARS


def test_the_words_of_a_provider_say_that_they_were_cut() -> None:
    message = str(transport_errors.http_failure(500, "y" * 5000, {}))
    assert message.endswith("… (5,010 characters)")
    assert len(message) == transport_errors.MAX_MESSAGE


def test_the_log_of_what_people_did_says_what_was_cut() -> None:
    audit.record("x", actor=None, detail={"long": "x" * 700, "deep": {"fits": "y" * audit_rows.LONGEST}})
    detail = AuditEvent.objects.get(kind="x").detail
    assert detail == {
        "long": f"{'x' * audit_rows.LONGEST}… (700 characters)",
        "deep": {"fits": "y" * audit_rows.LONGEST},
    }


def test_a_title_in_the_queue_says_that_it_was_cut() -> None:
    run = owned.begun()
    question = "Which one? " * 60
    assert run.drive([fakes.says("", ("ask_question", {"question": question}))], fakes.Tools({})) == "gate:question"
    gate = Gate.objects.get(run=run.run)
    assert gate.title.endswith("… (660 characters)")
    assert gate.view["question"] == question

"""The conversation page: exactly what was sent with each request, and what was left out of it (SPEC R4, U1)."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from django.urls import reverse

from loops.engine import facts as f
from loops.engine.apply import apply, initial
from loops.models import ModelConfig, Run
from loops.storage.rows import project
from tests import factories as make
from tests.unit.engine.test_context_window import WINDOW, Honest, a_run
from tests.web.test_pages import dangers, text_of

SENT = "Exactly what was sent."
NOT_SENT = "This is not what was sent."


def driven(steps: int = 40, window: int = WINDOW, **more: Any) -> list[f.Fact]:
    """The facts of a run that a real driver led, in a window that it would pass again and again."""
    world = a_run(Honest(steps, window=window), **more)
    assert world.drive() == "ended"
    return world.journal.facts


def stored(run: Run, facts: list[f.Fact]) -> None:
    state = None
    for fact in facts:
        state = initial(fact) if isinstance(fact, f.RunStarted) else apply(state, fact)  # type: ignore[arg-type]
        make.fact(run, fact, step=state.step)


def shown(house: Any, who: str = "viewer", **query: Any) -> str:
    return text_of(house.client(who).get(reverse("run-conversation", args=[house.run.pk]), query))


def numbers(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<li class="talk-\w+" id="m(\d+)"', page)]


@pytest.mark.spec("R4", "U1", "N1")
def test_every_request_is_shown_as_it_was_sent_and_verified(house):
    facts = driven()
    stored(house.run, facts)
    asked = [fact for fact in facts if isinstance(fact, f.ModelRequested)]
    for number in (1, 2, len(asked) // 2, len(asked)):
        page = shown(house, request=number)
        assert f"Request {number} of {len(asked)}" in page
        assert SENT in page
        assert asked[number - 1].request_sha256 in page
        assert "Be good." in page
        assert "3 tools offered" in page or "4 tools offered" in page
        assert "Context window" in page


@pytest.mark.spec("R4", "N1")
def test_a_changed_journal_is_noticed(house):
    """The other half of the proof: one result in the middle reads differently from what the model was given."""
    facts = driven(6)
    at = next(number for number, fact in enumerate(facts) if isinstance(fact, f.ToolCompleted))
    changed = replace(facts[at], result=replace(facts[at].result, content="something else"))
    stored(house.run, [*facts[:at], changed, *facts[at + 1 :]])
    assert SENT in shown(house, request=1)
    for number in (2, 3, 6):
        page = shown(house, request=number)
        assert NOT_SENT in page
        assert SENT not in page


@pytest.mark.spec("U1", "R4")
def test_what_was_left_out_is_marked_and_can_be_read(house):
    facts = driven()
    stored(house.run, facts)
    prunings = [(seq, fact) for seq, fact in enumerate(facts, 1) if isinstance(fact, f.ContextPruned)]
    dropped = [(seq, fact) for seq, fact in prunings if fact.dropped_messages]
    page = shown(house)
    total = sum(fact.dropped_messages for _, fact in dropped)
    assert f"{total} earlier messages are summarised here" in page
    client = house.client("viewer")
    for seq, fact in dropped:
        address = reverse("run-left-out", args=[house.run.pk, seq])
        assert address in page
        gone = text_of(client.get(address))
        assert len(re.findall(r'id="gone-\d+"', gone)) == fact.dropped_messages
    first = text_of(client.get(reverse("run-left-out", args=[house.run.pk, dropped[0][0]])))
    assert ">0 yyyyyy" in first
    assert ">0 yyyyyy" not in page


@pytest.mark.spec("U1")
def test_the_timeline_and_the_head_say_how_full_the_window_is(house):
    stored(house.run, driven(12))
    make.step(house.run, 12, action={"calls": [], "context": {"tokens": 6400, "window": 8000}})
    page = text_of(house.client("viewer").get(reverse("run", args=[house.run.pk])))
    assert "The conversation was shortened for the model" in page
    assert re.search(r"Context</span><span class=\"num\">≈ 6.4k of 8k", page)


@pytest.mark.spec("U1")
def test_each_step_keeps_how_full_the_window_was(house):
    facts = driven(3)
    states = [initial(facts[0])]
    for fact in facts[1:]:
        states.append(apply(states[-1], fact))
    rows = project(str(house.run.pk), list(zip(facts, states, strict=True)))
    shown = [row["action"]["context"] for row in rows["step_updates"] if row.get("action")]
    assert all(each["window"] == WINDOW and each["tokens"] > 300 for each in shown)
    assert len(shown) == 4


def test_a_run_whose_requests_were_kept_by_an_earlier_version_says_that_it_cannot_tell(house):
    old = [replace(x, max_tokens=0, tokens={}, size=0) if isinstance(x, f.ModelRequested) else x for x in driven(3)]
    stored(house.run, old)
    page = shown(house, request=2)
    assert "cannot be compared" in page
    assert SENT not in page
    assert NOT_SENT not in page


@pytest.mark.spec("R3", "R4")
def test_long_conversations_come_page_by_page(house):
    stored(house.run, driven(80, window=10**9, windows={}))
    latest = shown(house)
    assert len(latest) < 200_000
    seen = numbers(latest)
    until = re.search(r'href="\?until=(\d+)"', latest)
    while until:
        page = shown(house, until=until[1])
        seen = numbers(page) + seen
        until = re.search(r'href="\?until=(\d+)"', page)
    assert seen == list(range(164))


@pytest.mark.spec("R4", "U2")
@pytest.mark.parametrize(("provider", "field"), [("anthropic", "cache_control"), ("openai", "tool_call_id")])
def test_a_request_can_be_had_in_the_form_of_its_provider(house, provider, field):
    facts = driven(3)
    stored(house.run, facts)
    ModelConfig.objects.create(name="scripted", provider=provider, model_id="m", api_key_env="SECRET_OF_MINE")
    response = house.client("viewer").get(reverse("run-request", args=[house.run.pk, 2]))
    assert response["Content-Disposition"].startswith("attachment")
    body = response.json()
    assert field in response.content.decode()
    assert body["messages"][-1]["role"] in ("user", "tool")
    assert "SECRET_OF_MINE" not in response.content.decode()


def test_nobody_else_reads_it(house):
    stored(house.run, driven(2))
    client = house.client("outsider")
    for name, more in (("run-conversation", []), ("run-left-out", [5]), ("run-request", [1])):
        assert client.get(reverse(name, args=[house.run.pk, *more])).status_code == 404


@pytest.mark.parametrize(
    "query", [{"request": "99999"}, {"request": "-1"}, {"request": "x"}, {"until": "0"}, {"until": "9" * 30}]
)
def test_odd_addresses_are_answered(house, query):
    stored(house.run, driven(2))
    assert '<ol class="talk">' in shown(house, **query)
    client = house.client("viewer")
    assert client.get(reverse("run-left-out", args=[house.run.pk, 2])).status_code == 404
    assert client.get(reverse("run-left-out", args=[house.run.pk, 2**40])).status_code == 404
    assert client.get(reverse("run-request", args=[house.run.pk, 77])).status_code == 404


def test_a_hostile_summary_is_inert(house):
    bad = "<script>alert(1)</script><img src=x onerror=alert(1)>"
    facts = driven()
    made = [
        replace(x, summary=bad, model=bad, method="summarised") if isinstance(x, f.ContextPruned) else x for x in facts
    ]
    stored(house.run, made)
    page = shown(house)
    assert "alert(1)" in page
    assert dangers(page) == []

"""A call in doubt runs again by a person's word only, and only when nobody else can be at it any more (SPEC J2)."""

from __future__ import annotations

import time
from typing import Any

import pytest
from django.test import Client

from gates import services
from gates.models import Gate
from gates.web.cards import build
from tests import decisions
from tests.integration.gates.builders import World, open_gate

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J2", "J3")]

EVIDENCE = {"before": {"a.txt": "1" * 64}, "after": {"a.txt": "2" * 64}, "now": {"a.txt": "3" * 64, "new": ""}}


SOON_S = 60


def doubt(world: World, again_after_s: int = 0) -> Gate:
    begun = time.time_ns() // 1000 - SOON_S * 1_000_000
    view = {"tool": "move_file", "arguments": {"path": "a.txt"}, "evidence": EVIDENCE, "attempt": 1}
    return open_gate(world, "in_doubt", view=view | {"begun_at": begun, "again_after_s": again_after_s})


def decide(world: World, gate: Gate, verdict: str, reason: str = "", payload: dict[str, Any] | None = None) -> None:
    decisions.decide(
        actor=world.reviewer, gate_id=gate.pk, verdict=verdict, digest=gate.digest, reason=reason, payload=payload
    )


def test_it_may_run_again_once_its_owner_is_proven_dead(world: World) -> None:
    gate = doubt(world)
    decide(world, gate, "approve")
    gate.refresh_from_db()
    assert gate.status == "approved"


@pytest.mark.parametrize(("verdict", "payload"), [("approve", {}), ("respond", {"outcome": "not_done"})])
def test_not_before(world: World, verdict: str, payload: dict[str, Any]) -> None:
    gate = doubt(world, SOON_S)
    with pytest.raises(services.InvalidDecision, match="may still be running the call"):
        decide(world, gate, verdict, payload=payload)
    gate.refresh_from_db()
    assert gate.is_open


@pytest.mark.parametrize(("verdict", "payload"), [("respond", {"outcome": "done", "result": "42"}), ("reject", {})])
def test_the_other_ways_out_need_no_waiting(world: World, verdict: str, payload: dict[str, Any]) -> None:
    gate = doubt(world, SOON_S)
    decide(world, gate, verdict, reason="looked", payload=payload)
    assert not Gate.objects.get(pk=gate.pk).is_open


def test_the_card_shows_what_is_known_and_when_it_may_run_again(world: World) -> None:
    early, late = build(doubt(world, SOON_S), world.reviewer), build(doubt(world), world.reviewer)
    assert early.evidence == [("a.txt", ["1" * 12, "2" * 12, "3" * 12]), ("new", ["unknown", "unknown", "no file"])]
    assert ("approve" in early.verdicts, "approve" in late.verdicts) == (False, True)
    assert (early.again_from is None, late.again_from) == (False, None)


def test_the_page_offers_it(world: World, client: Client) -> None:
    gate = doubt(world)
    client.force_login(world.reviewer)
    page = client.get(f"/review/{gate.pk}/").content.decode()
    for words in ("What is known", "It was done", "Not done: run it again", "1" * 12, "no file"):
        assert words in page
    later = client.get(f"/review/{doubt(world, SOON_S).pk}/").content.decode()
    assert "Not done: run it again" not in later
    assert "It can be run again <time" in later

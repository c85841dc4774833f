"""Each door by which a person decides a gate. A new address or command fails in ``test_showing`` until it is listed."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from gates.models import Gate

Sent = dict[str, Any]


def sent_for(gate: Gate, shown: str, **more: Any) -> Sent:
    """What a person sends who was shown the gate and approves; ``more`` says otherwise."""
    return {"verdict": "approve", "digest": gate.digest, "shown": shown, "reason": "", **more}


def by_page(client: Client, gate: Gate, shown: str, **more: Any) -> Any:
    return client.post(f"/review/{gate.pk}/decide/", {**sent_for(gate, shown, **more), "sure": "1"})


def by_fragment(client: Client, gate: Gate, shown: str, **more: Any) -> Any:
    sent = {**sent_for(gate, shown, **more), "place": "run", "sure": "1"}
    return client.post(f"/review/{gate.pk}/decide/", sent, headers={"HX-Request": "true"})


def by_bulk(client: Client, gate: Gate, shown: str, **more: Any) -> Any:
    sent = sent_for(gate, shown, **more)
    item = f"{gate.pk}:{sent.pop('digest')}:{sent.pop('shown')}"
    return client.post("/review/bulk/", {**sent, "confirmed": "1", "item": item})


def by_api(client: Client, gate: Gate, shown: str, **more: Any) -> Any:
    sent = sent_for(gate, shown, **more)
    return client.post(f"/api/v1/gates/{gate.pk}/decide/", sent, content_type="application/json")


DOORS = {"gate-decide": (by_page, by_fragment), "review-bulk": (by_bulk,), "gate-decide-api": (by_api,)}
"""Name of the address -> how one decides there."""
WAYS = [way for ways in DOORS.values() for way in ways]
EACH_WAY = pytest.mark.parametrize("way", [pytest.param(way, id=way.__name__) for way in WAYS])

"""From the fields of a card to the arguments of ``services.decide``. Rules are not here."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from gates.models import Gate
from gates.policy.payloads import limit_name
from gates.policy.verdicts import Verdict
from gates.services import BulkItem, InvalidDecision
from gates.services.deciding import view_bytes
from gates.web import arguments
from gates.web.cards import LONG_BYTES


def read(gate: Gate, typed: Mapping[str, str]) -> dict[str, Any]:
    """verdict, digest, reason and payload. Raises InvalidDecision for what cannot be read."""
    verdict = typed.get("verdict", "")
    _seen_whole(gate, verdict, typed)
    payload: dict[str, Any] = {}
    if typed.get("confirm"):
        payload["confirm"] = typed["confirm"]
    if verdict == Verdict.APPROVE_WITH_EDITS:
        payload["arguments"] = _arguments(gate, typed)
    elif verdict == Verdict.EXTEND:
        payload[limit_name(gate.view) or "limit"] = _number(typed.get("extend", ""))
    elif verdict == Verdict.RESPOND:
        name = "outcome" if gate.kind == Gate.Kind.IN_DOUBT else "answer"
        payload[name] = typed.get(name, "").replace("\r\n", "\n")
        if name == "outcome" and typed.get("result"):
            payload["result"] = typed["result"].replace("\r\n", "\n")
    reason = typed.get("reason", "").replace("\r\n", "\n")
    return {"verdict": verdict, "digest": typed.get("digest", ""), "reason": reason, "payload": payload}


def bulk_items(values: Iterable[str]) -> list[BulkItem]:
    """Each value is "<gate>:<digest>"."""
    return [BulkItem(gate, digest) for gate, _, digest in (value.partition(":") for value in values)]


def _seen_whole(gate: Gate, verdict: str, typed: Mapping[str, str]) -> None:
    approves = verdict in (Verdict.APPROVE, Verdict.APPROVE_WITH_EDITS)
    if approves and view_bytes(gate) > LONG_BYTES and typed.get("seen") != gate.digest:
        raise InvalidDecision.of("This is long. Scroll to its end before you approve it.")


def _arguments(gate: Gate, typed: Mapping[str, str]) -> dict[str, Any]:
    try:
        return arguments.read(gate.view, typed)
    except arguments.Unreadable as unreadable:
        raise InvalidDecision(unreadable.errors) from unreadable


def _number(text: str) -> float | int:
    try:
        number = json.loads(text)
    except ValueError:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InvalidDecision({"extend": ["Give a number."]})
    return number

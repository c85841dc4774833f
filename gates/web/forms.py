"""From the fields of a card to the arguments of ``services.decide``. Rules are not here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gates.models import Gate
from gates.policy.payloads import limit_name
from gates.policy.take_back import asks_twice
from gates.services import BulkItem, InvalidDecision
from gates.web import arguments
from loops.engine.encoding import strict_json
from loops.engine.values import Verdict


def read(gate: Gate, typed: Mapping[str, str]) -> dict[str, Any]:
    """verdict, digest, proof of showing, reason and payload. Raises InvalidDecision for what cannot be read, or is not
    confirmed and has to be."""
    verdict = typed.get("verdict", "")
    if not typed.get("sure") and asks_twice(gate.kind, gate.tool, gate.risk, verdict, gate.view):
        raise InvalidDecision({"sure": ["Confirm it."]})
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
    digest, shown = typed.get("digest", ""), typed.get("shown", "")
    return {"verdict": verdict, "digest": digest, "shown": shown, "reason": reason, "payload": payload}


def bulk_items(values: Iterable[str]) -> list[BulkItem]:
    """Each value is "<gate>:<digest>", from the preview with ":<proof of showing>" behind it."""
    found = ([*value.split(":"), "", ""][:3] for value in values)
    return [BulkItem(gate, digest, shown) for gate, digest, shown in found]


def _arguments(gate: Gate, typed: Mapping[str, str]) -> dict[str, Any]:
    try:
        return arguments.read(gate.view, typed)
    except arguments.Unreadable as unreadable:
        raise InvalidDecision(unreadable.errors) from unreadable


def _number(text: str) -> float | int:
    try:
        number = strict_json.read(text)
    except strict_json.NotJson:
        number = None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise InvalidDecision({"extend": ["Give a number."]})
    return number

"""Which approvals can be taken back, and where a slip is grave enough to wait for that (SPEC Q5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gates.policy.kinds import Kind
from gates.policy.payloads import confirmation_word
from gates.policy.queue import RISK_RANK, risk_rank
from loops.engine.effects import ABOUT_A_CALL
from loops.engine.values import Verdict

APPROVALS = (Verdict.APPROVE, Verdict.APPROVE_WITH_EDITS)


def is_grave(kind: str, risk: str) -> bool:
    """High risk, or for good: approving takes a second, different key, and the call does not leave at once."""
    return kind == Kind.IRREVERSIBLE_ACTION or risk_rank(risk) >= RISK_RANK["high"]


def asks_twice(kind: str, tool: str, risk: str, verdict: str, view: Mapping[str, Any]) -> bool:
    """Does a person confirm ``verdict`` by a second, different key or button? What has a word to be typed has that."""
    if verdict in APPROVALS:
        return (is_grave(kind, risk) and not confirmation_word(kind, tool)) or is_partly_recorded(view)
    return verdict == Verdict.ROLL_BACK


def is_partly_recorded(view: Mapping[str, Any]) -> bool:
    """Did calls of the run change what nobody recorded, so that no file of a result tells of it?"""
    return bool(view.get("unrecorded") or view.get("more_unrecorded"))


def can_be(kind: str, verdict: str) -> bool:
    """Is ``verdict`` on a gate of ``kind`` an approval that a call uses up?"""
    return kind in ABOUT_A_CALL and verdict in APPROVALS


def held(kind: str, risk: str, verdict: str, seconds: float) -> float:
    """How many of ``seconds`` the run does not hear of the verdict: all, or none."""
    return seconds if can_be(kind, verdict) and is_grave(kind, risk) else 0

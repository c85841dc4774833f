"""What comes with a verdict: an answer, edited arguments, a new limit. Unknown fields are errors, never ignored."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from gates.policy.kinds import GATE_KINDS, Kind
from loops.engine.state.limits import EXTENDABLE
from loops.engine.values import Verdict

Errors = dict[str, list[str]]
FORM = ""
"""Key of errors that belong to no field."""

LIMITS = {name: row.high // row.scale for name, row in EXTENDABLE.items()}
"""Limits a person may extend, each with the most that there is of it."""

EXTENSIONS = frozenset((kind, row.extends) for kind, row in GATE_KINDS.items() if row.extends)
"""What uses up one of a run's extensions (``loops.engine.people.decisions``)."""
LONGEST_ANSWER = 20_000
OUTCOMES = ("done", "not_done")


class Invalid(Exception):
    """The payload does not fit the verdict; ``errors`` by field."""

    def __init__(self, errors: Errors) -> None:
        super().__init__("; ".join(message for messages in errors.values() for message in messages))
        self.errors = errors


def confirmation_word(kind: str, tool: str) -> str:
    """What has to be typed before ``kind`` is approved; empty when nothing has."""
    return (tool or "irreversible") if kind == Kind.IRREVERSIBLE_ACTION else ""


def cleaned(
    *,
    kind: str,
    verdict: str,
    tool: str,
    reason: str,
    payload: Mapping[str, Any],
    view: Mapping[str, Any],
) -> dict[str, Any]:
    """The payload as it is stored and sent to the run. Raises Invalid."""
    if not isinstance(payload, Mapping):
        raise Invalid({FORM: ["The payload must be an object."]})
    payload = dict(payload)
    if verdict in (Verdict.APPROVE, Verdict.APPROVE_WITH_EDITS):
        _confirmed(kind, tool, str(payload.pop("confirm", "")))
    if verdict == Verdict.REJECT and not any(letter.isprintable() and not letter.isspace() for letter in reason):
        raise Invalid({"reason": ["Say why, so that the agent can do better."]})
    if verdict == Verdict.APPROVE_WITH_EDITS and is_of_criterion(view):
        raise Invalid({"verdict": ["The task's own command cannot be edited: approve it as it is, or reject it."]})
    if kind == Kind.ROLLBACK_CHOICE and verdict not in (view.get("choices") or ()):
        raise Invalid({"verdict": ["This run cannot be continued. Keep its changes or roll them back."]})
    if counts_as_extension(kind, verdict) and extensions_left(view) == 0:
        raise Invalid({"verdict": [none_left(view)]})
    read = _respond_reader(kind) if verdict == Verdict.RESPOND else _READERS.get(verdict, _nothing)
    result = read(payload, view)
    if payload:
        raise Invalid({name: ["Unknown field."] for name in payload})
    return result


def is_of_criterion(view: Mapping[str, Any]) -> bool:
    """Is it about the command of an acceptance criterion, which the agent did not write?"""
    return "criterion" in view


def limit_name(view: Mapping[str, Any]) -> str:
    """The limit a gate is about, in the spelling of ``LIMITS``; "" when it names none."""
    name = str(view.get("limit", ""))
    named = (name if name.startswith("max_") else f"max_{name}").replace("microusd", "usd")
    return named if named in LIMITS else ""


def limit_number(view: Mapping[str, Any], key: str) -> float | int | None:
    """``used``, ``bound``, ``least`` or ``suggested`` in the unit people give: whole costs are millionths."""
    number = view.get(key)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return number / _scale(limit_name(view)) if isinstance(number, int) else number


def _scale(name: str) -> int:
    return EXTENDABLE[name].scale if name in EXTENDABLE else 1


def counts_as_extension(kind: str, verdict: str) -> bool:
    """Does it let a run go on past a bound, or out of a loop? So often and no oftener (SPEC A6)."""
    return (kind, verdict) in EXTENSIONS


def extensions_left(view: Mapping[str, Any]) -> int | None:
    """How many extensions the run of this gate has left; None where the gate does not count any."""
    used, allowed = view.get("extensions_used"), view.get("extensions_allowed")
    return max(0, allowed - used) if isinstance(used, int) and isinstance(allowed, int) else None


def none_left(view: Mapping[str, Any]) -> str:
    """Why it cannot be extended any more, in words for whoever wanted to."""
    return (
        f"This run cannot be continued: all {view.get('extensions_allowed')} extensions that its limits allow "
        "are used. End it here; it can be forked, or submitted again with other limits."
    )


def _confirmed(kind: str, tool: str, typed: str) -> None:
    word = confirmation_word(kind, tool)
    if word and typed.strip() != word:
        raise Invalid({"confirm": [f"This cannot be undone. Type {word} to approve it."]})


def _nothing(payload: dict[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    return {}


def _arguments(payload: dict[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    arguments = payload.pop("arguments", None)
    if not isinstance(arguments, dict):
        raise Invalid({"arguments": ["The edited arguments must be an object."]})
    return {"arguments": arguments}


def _answer(payload: dict[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    answer = payload.pop("answer", "")
    if not isinstance(answer, str) or not answer.strip():
        raise Invalid({"answer": ["Write an answer."]})
    if len(answer) > LONGEST_ANSWER:
        raise Invalid({"answer": [f"At most {LONGEST_ANSWER:,} characters."]})
    return {"answer": answer}


def _outcome(payload: dict[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    outcome = payload.pop("outcome", "")
    if outcome not in OUTCOMES:
        raise Invalid({"outcome": ["Say whether it was done or not done."]})
    result = payload.pop("result", "")
    if not isinstance(result, str) or len(result) > LONGEST_ANSWER:
        raise Invalid({"result": [f"A text of at most {LONGEST_ANSWER:,} characters."]})
    return {"outcome": outcome, "result": result} if result.strip() else {"outcome": outcome}


def _extension(payload: dict[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    given = {name: payload.pop(name) for name in LIMITS if name in payload}
    if len(given) != 1:
        raise Invalid({FORM: ["Extend exactly one limit."]})
    ((name, value),) = given.items()
    about = limit_name(view)
    if about and name != about:
        raise Invalid({name: [f"This gate can extend {about} only."]})
    bound, least = (limit_number(view, key) if about else None for key in ("bound", "least"))
    return {name: _new_limit(name, value, bound, least)}


def _new_limit(name: str, value: Any, bound: float | None, least: float | None) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Invalid({name: ["Give a number."]})
    if _scale(name) == 1 and value != int(value):
        raise Invalid({name: ["Give a whole number."]})
    if bound is not None and value <= bound:
        raise Invalid({name: [f"Must be more than the present limit, {bound:.12g}."]})
    if least is not None and value < least:
        raise Invalid({name: [f"Must be at least {least:.12g}: with less it would stop again at once."]})
    if not 0 < value <= LIMITS[name]:
        raise Invalid({name: [f"Must be more than 0 and at most {LIMITS[name]:,}."]})
    return value if _scale(name) > 1 else int(value)


Reader = Callable[[dict[str, Any], Mapping[str, Any]], dict[str, Any]]

_READERS: dict[str, Reader] = {
    Verdict.APPROVE_WITH_EDITS: _arguments,
    Verdict.EXTEND: _extension,
}


def _respond_reader(kind: str) -> Reader:
    return _outcome if kind == Kind.IN_DOUBT else _answer

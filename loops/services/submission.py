"""What a submitted task must look like. Pure: cleans the input or names every fault in it, field by field."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loops.engine.encoding import canonical, json_schema
from loops.engine.limits import complexity
from loops.engine.state.limits import FIELD_OF, LIMITS
from loops.engine.text.truncation import shortened
from loops.masking import LEAVE_OUT, known

MAX_GOAL = 200_000
MAX_CONSTRAINTS = 20_000
MAX_TITLE = 200
MAX_CRITERIA = 50
MAX_CRITERION = 2_000
MAX_COMMAND = 4_000
MAX_KEY = 200
MAX_SCHEMA = 100_000
MAX_DEPTH = 32
FINAL_REVIEWS = ("", "always", "unless_verified", "never")
MICRO = 1_000_000
_OF_CRITERION = re.compile(r"criteria\[(\d+)\](?:\.(\w+))?")


class InvalidTask(Exception):
    """A task that cannot be taken. ``errors`` maps each field to a message fit for people."""

    def __init__(self, errors: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {message}" for field, message in errors.items()))
        self.errors = dict(errors)


@dataclass(frozen=True, slots=True)
class Content:
    """The clean content of a task: everything that decides what will be done."""

    title: str
    goal: str
    criteria: list[dict[str, str]]
    constraints_text: str
    complexity: str
    limits: dict[str, int]
    final_review: str
    output_schema: dict[str, Any] | None
    execution_loop: str

    def sha256(self, agent_id: str, workspace_id: str) -> str:
        """Identity of the content. The title is for people and decides nothing, so it is no part of it."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "title"}
        return canonical.sha256({**fields, "agent": agent_id, "workspace": workspace_id})


def clean(raw: Mapping[str, Any], loops: Sequence[str]) -> Content:
    """Check every field of ``raw`` (the names of Content) and raise InvalidTask with all faults at once."""
    faults: dict[str, str] = {}
    goal = _text(raw.get("goal"), "goal", MAX_GOAL, faults, required=True)
    content = Content(
        title=_text(raw.get("title"), "title", MAX_TITLE, faults) or _title_of(goal),
        goal=goal,
        criteria=_criteria(raw.get("criteria"), faults),
        constraints_text=_text(raw.get("constraints_text"), "constraints_text", MAX_CONSTRAINTS, faults),
        complexity=_choice(raw.get("complexity"), "complexity", ("", *complexity.LEVELS), faults),
        limits=_limits(raw.get("limits"), faults),
        final_review=_choice(raw.get("final_review"), "final_review", FINAL_REVIEWS, faults),
        output_schema=_schema(raw.get("output_schema"), faults),
        execution_loop=_choice(raw.get("execution_loop"), "execution_loop", ("", *loops), faults),
    )
    if faults:
        raise InvalidTask(faults)
    return content


def clean_criteria(raw: Any) -> list[dict[str, str]]:
    """Criteria alone, as ``clean`` takes them. Raises InvalidTask."""
    faults: dict[str, str] = {}
    found = _criteria(raw, faults)
    if faults:
        raise InvalidTask(faults)
    return found


def called(field: str) -> str:
    """A field of a task as people call it: the second criterion is "criterion 2", whatever its key is."""
    found = _OF_CRITERION.fullmatch(field)
    if not found:
        return field
    number = f"criterion {int(found[1]) + 1}"
    return f"the command of {number}" if found[2] == "command" else number


def clean_limits(raw: Mapping[str, Any] | None) -> dict[str, int]:
    """Limits alone, as ``clean`` takes them. Raises InvalidTask."""
    faults: dict[str, str] = {}
    found = _limits(raw, faults)
    if faults:
        raise InvalidTask(faults)
    return found


def clean_key(key: str | None) -> str | None:
    """An idempotency key: short printable ASCII, or none at all."""
    if key is None or key == "":
        return None
    if known().is_in(key):
        raise InvalidTask({"idempotency_key": LEAVE_OUT})
    if len(key) > MAX_KEY or not (key.isascii() and key.isprintable()):
        raise InvalidTask({"idempotency_key": f"use at most {MAX_KEY} printable ASCII characters"})
    return key


def unstorable(text: str) -> str:
    """Why ``text`` cannot be stored as it is; empty when it can."""
    if "\0" in text:
        return f"holds a NUL character at position {text.index(chr(0))}; remove it"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds half of a character (a lone surrogate) at position {error.start}; send valid Unicode"
    return ""


def _title_of(goal: str) -> str:
    first = next((line.strip() for line in goal.splitlines() if line.strip()), "")
    return shortened(first, 100)


def _text(value: Any, field: str, longest: int, faults: dict[str, str], *, required: bool = False) -> str:
    if value is None:
        value = ""
    if not isinstance(value, str):
        faults[field] = "must be text"
        return ""
    if len(value) > longest:
        faults[field] = f"has {len(value):,} characters; at most {longest:,} are possible"
    elif fault := unstorable(value):
        faults[field] = fault
    elif required and not value.strip():
        faults[field] = "say what is to be done"
    return "" if field in faults else value.strip() if field == "title" else value


def _choice(value: Any, field: str, choices: tuple[str, ...], faults: dict[str, str]) -> str:
    value = "" if value is None else value
    if isinstance(value, str) and value in choices:
        return value
    faults[field] = f"must be one of {', '.join(choice for choice in choices if choice)}, or empty"
    return ""


def _criteria(value: Any, faults: dict[str, str]) -> list[dict[str, str]]:
    if value is None:
        return []
    if not isinstance(value, list | tuple):
        faults["criteria"] = "must be a list"
        return []
    if len(value) > MAX_CRITERIA:
        faults["criteria"] = f"has {len(value)} entries; at most {MAX_CRITERIA} are possible"
        return []
    return [_criterion(item, f"criteria[{index}]", faults) for index, item in enumerate(value)]


def _criterion(value: Any, field: str, faults: dict[str, str]) -> dict[str, str]:
    item = {"text": value} if isinstance(value, str) else value
    if not isinstance(item, Mapping) or set(item) - {"text", "command"}:
        faults[field] = 'must be {"text": ..., "command": ...}; the command may be empty'
        return {}
    text = _text(item.get("text"), f"{field}.text", MAX_CRITERION, faults)
    command = _text(item.get("command"), f"{field}.command", MAX_COMMAND, faults)
    if not any(isinstance(part, str) and part.strip() for part in item.values()):
        faults.setdefault(field, "needs a text or a command")
    return {"text": text or command[:MAX_CRITERION], "command": command}


def _limits(value: Any, faults: dict[str, str]) -> dict[str, int]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        faults["limits"] = "must be an object"
        return {}
    given, scaled = dict(value), set()
    for shown, name in FIELD_OF.items():
        if shown != name and shown in given:
            given[name] = _scaled(given.pop(shown), LIMITS[name].scale)
            scaled.add(name)
    return {
        name: amount
        for name, amount in given.items()
        if amount is not None and _within(name, amount, faults, in_dollars=name in scaled)
    }


def _scaled(amount: Any, scale: int) -> Any:
    try:
        return round(float(amount) * scale)
    except (TypeError, ValueError, OverflowError):
        return amount


def _within(name: str, amount: Any, faults: dict[str, str], *, in_dollars: bool) -> bool:
    if name not in LIMITS:
        faults[f"limits.{shortened(name, 40)}"] = f"no such limit; known are {', '.join({**LIMITS, **FIELD_OF})}"
        return False
    low, high = LIMITS[name].low, LIMITS[name].high
    if isinstance(amount, int) and not isinstance(amount, bool) and low <= amount <= high:
        return True
    whole = f"must be a whole number from {low:,} to {high:,}"
    dollars = f"must be an amount from ${low / MICRO:,.0f} to ${high / MICRO:,.0f}"
    faults[f"limits.{name}"] = dollars if in_dollars else whole
    return False


def _schema(value: Any, faults: dict[str, str]) -> dict[str, Any] | None:
    if value is None or value == {}:
        return None
    fault = _schema_fault(value)
    if fault:
        faults["output_schema"] = fault
        return None
    return dict(value)


def _schema_fault(value: Any) -> str:
    if not isinstance(value, Mapping):
        return "must be a JSON Schema object"
    fault = _json_fault(value, MAX_DEPTH)
    if fault:
        return fault
    if len(canonical.encode(value)) > MAX_SCHEMA:
        return f"is larger than {MAX_SCHEMA:,} bytes"
    try:
        json_schema.check(value)
    except json_schema.BadSchema as error:
        return f"cannot be used: {shortened(str(error), 400)}"
    return ""


def _json_fault(value: Any, depth: int) -> str:
    """Whatever would not survive storing, or would reach out of the schema when it is used."""
    if depth == 0:
        return f"is nested deeper than {MAX_DEPTH} levels"
    if isinstance(value, str):
        return unstorable(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "holds a number that JSON does not know (NaN or infinity)"
    if isinstance(value, Mapping):
        return _object_fault(value, depth)
    if isinstance(value, list | tuple):
        return next((fault for item in value if (fault := _json_fault(item, depth - 1))), "")
    return ""


def _object_fault(value: Mapping[str, Any], depth: int) -> str:
    for key, item in value.items():
        if key in ("$ref", "$dynamicRef") and isinstance(item, str) and not item.startswith("#"):
            return "may refer only to itself ($ref must start with #)"
        if fault := unstorable(key) or _json_fault(item, depth - 1):
            return fault
    return ""

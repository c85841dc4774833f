"""Everything the decision card shows of one gate, read once. The template only lays it out. One file: it is one object,
of which a template asks what it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from django.template import TemplateDoesNotExist
from django.template.loader import get_template
from django.utils import timezone

from gates.models import Gate
from gates.policy import kinds
from gates.policy.disclosure import LONG_BYTES, repeated_arguments
from gates.policy.payloads import (
    LIMITS,
    confirmation_word,
    counts_as_extension,
    extensions_left,
    is_of_criterion,
    limit_name,
    limit_number,
    none_left,
)
from gates.policy.queue import waiting
from gates.policy.take_back import asks_twice, is_partly_recorded
from gates.policy.verdicts import REVIEWABLE_BYTES, again_from, lets
from gates.services import objections_of, seconds_left, standing_of
from gates.services.decisions import view_bytes
from gates.services.disclosure import proof, unshowable
from gates.services.refusals import already_decided
from gates.web import arguments, changed_files, escaping, labels, steps
from gates.web.changed_files import Changed, Line, lines_of
from gates.web.confidence import Feature
from loops.engine.state.limits import EXTENDABLE
from loops.engine.state.remark import Level
from loops.engine.values import Verdict
from loops.models import Step

_PLACED = {
    "tool", "arguments", "diff", "command", "operation", "reversibility", "parameters_schema", "question", "choices",
    "result", "criteria", "limit", "used", "bound", "suggested", "least", "reasoning",
    "extensions_used", "extensions_allowed", "criterion",
}  # fmt: skip
_COMMAND = {"kind", "argv", "shown", "warnings", "directory", "network", "sandbox", "scripts", "danger", "covers"}
"""What a preview of a command holds, shown together; its ``shown`` and ``argv`` are the same words."""
_ROLLBACK = {"files", "more_files", "diff_is_cut", "others", "choices", "again", "failure"}
"""What the question of a rollback holds beside its diff."""
_CHANGE = {
    "kind",
    "path",
    "added",
    "removed",
    "before_bytes",
    "after_bytes",
    "before_sha256",
    "after_sha256",
    "created",
    "deleted",
    "danger",
}
"""What a preview of a change of a file holds beside its diff; the arguments name the path."""


@dataclass(frozen=True, slots=True)
class Limit:
    name: str
    used: float | None
    bound: float | None
    suggested: float | None
    least: float | None

    @property
    def most(self) -> float | None:
        """The most that can be granted."""
        return LIMITS.get(self.name)

    @property
    def label(self) -> str:
        """The limit in words."""
        return EXTENDABLE[self.name].form_label if self.name in EXTENDABLE else self.name

    @property
    def step(self) -> str:
        """Step of the number field."""
        return EXTENDABLE[self.name].step if self.name in EXTENDABLE else "1"


@dataclass(frozen=True)
class Card:
    gate: Gate
    view: Mapping[str, Any]
    verdicts: tuple[str, ...]
    objections: list[str]
    outcome: str
    word: str
    warnings: list[str]
    too_long: bool
    waiting: str
    steps: list[Step]
    limit: Limit | None
    form: list[arguments.Field]
    subject: str
    errors: Mapping[str, list[str]] = field(default_factory=dict)
    typed: Mapping[str, str] | None = None
    is_own_claim: bool = False
    again_from: datetime | None = None
    """A call in doubt may be run again from then on, not yet."""
    repeated: list[tuple[Step, list[str]]] = field(default_factory=list)
    """The steps of a loop, each with its calls in one line."""
    repeated_before: list[int] = field(default_factory=list)
    """Steps of the loop before those that are shown."""
    changed: list[Changed] = field(default_factory=list)
    """The files that a result is about."""
    proof: str = ""
    """What is sent back as evidence that all of this was shown, but for the contents of changed files."""
    locked: frozenset[str] = frozenset()
    """Verdicts that wait until everything has been on the screen: the end of a long card, and of each changed file."""
    hidden: list[str] = field(default_factory=list)
    """What can be shown to nobody, so that it can only be rejected."""
    take_back_s: float = 0
    """For how many seconds more an approval waits, so that it can be taken back."""

    @property
    def words(self) -> labels.Labels:
        """What the buttons say."""
        return labels.of_kind(self.gate.kind)

    @property
    def advised(self) -> str:
        """The button that the run itself recommends."""
        return labels.advised(self.gate.kind, self.gate.recommended) if self.gate.recommended else ""

    @property
    def reasons(self) -> list[str]:
        """Why this needs a decision; a limit is called as people call it."""
        name = f"{self.limit.name}: " if self.limit else ""
        said = f"{self.limit.label}: " if self.limit else ""
        return [
            said + reason.removeprefix(name) if name and reason.startswith(name) else reason
            for reason in map(str, self.gate.reasons)
        ]

    @property
    def extensions(self) -> str:
        """How many extensions the run has had and may have; empty where none is counted."""
        left = extensions_left(self.view)
        if left is None or not any(counts_as_extension(self.gate.kind, verdict) for verdict in Verdict):
            return ""
        if not left:
            return none_left(self.view)
        used, allowed = self.view["extensions_used"], self.view["extensions_allowed"]
        return f"{used} of {allowed} extensions used. {'This would be the last.' if left == 1 else ''}".strip()

    @property
    def open_pane(self) -> str:
        """The verdict whose form had errors, so that it is open again."""
        return str((self.typed or {}).get("verdict", "")) if self.errors else ""

    @property
    def form_errors(self) -> list[str]:
        """Errors that belong to no field on the card."""
        placed = {f"arguments.{one.name}" for one in self.form} | {
            "reason",
            "answer",
            "confirm",
            "outcome",
            "result",
            "extend",
            "sure",
        }
        return [message for name, messages in self.errors.items() if name not in placed for message in messages]

    @property
    def part(self) -> str:
        """Template of what only its kind has; "" where there is none."""
        return _part_of(self.gate.kind)

    @property
    def asks_twice(self) -> bool:
        """To approve it, or to roll back, takes a second key."""
        verdict = Verdict.ROLL_BACK if Verdict.ROLL_BACK in self.verdicts else Verdict.APPROVE
        return asks_twice(self.gate.kind, self.gate.tool, self.gate.risk, verdict, self.view)

    @property
    def sure(self) -> str:
        """What is asked before an approval is taken."""
        partly = is_partly_recorded(self.view)
        what = "Not all that it changed is known" if partly else f"{self.gate.risk.capitalize()} risk"
        return f"{what}: are you sure?"

    @property
    def asked_again(self) -> Mapping[str, bool]:
        """The verdict that was sent unconfirmed, if one was."""
        return {self.open_pane: "sure" in self.errors}

    @property
    def to_view(self) -> int:
        """How many changed files have contents to be seen."""
        return sum(one.file.has_contents for one in self.changed)

    @property
    def diff(self) -> list[Line]:
        return lines_of(str(self.view.get("diff") or ""))

    @property
    def call_arguments(self) -> list[tuple[str, str, bool]]:
        """(name, value, whether the change above holds all of it)."""
        given, repeated = self.view.get("arguments"), repeated_arguments(self.view)
        return (
            [(name, _text(value), name in repeated) for name, value in given.items()] if isinstance(given, dict) else []
        )

    @property
    def unrecorded(self) -> list[dict[str, str]]:
        """Calls of which nobody knows what they changed."""
        found = self.view.get("unrecorded")
        return found if isinstance(found, list) else []

    @property
    def by_others(self) -> list[str]:
        """Changed files, and among ``changed``, that no call of the run changed."""
        found = self.view.get("by_others")
        return list(map(_text, found)) if isinstance(found, list) else []

    @property
    def remarks(self) -> list[Mapping[str, Any]]:
        """What a reviewer should know of the changes."""
        found = self.view.get("remarks")
        return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []

    @property
    def is_suspicious(self) -> bool:
        return any(remark.get("level") == Level.SUSPICIOUS for remark in self.remarks)

    @property
    def result(self) -> str:
        return _text(self.view["result"]) if self.view.get("result") is not None else ""

    @property
    def others(self) -> list[tuple[str, str]]:
        """Whatever else the view holds: nothing that was bound stays unseen."""
        placed = _PLACED | (_COMMAND if self.argv else _CHANGE if self.view.get("diff") else {"danger"})
        if self.gate.kind == Gate.Kind.ROLLBACK_CHOICE:
            placed = _PLACED | _ROLLBACK
        row = kinds.of(self.gate.kind)
        placed = placed | (row.shows if row else frozenset())
        return [(name, _text(value)) for name, value in self.view.items() if name not in placed]

    @property
    def begun_at(self) -> datetime | None:
        """When the call in doubt was begun."""
        micros = self.view.get("begun_at")
        return datetime.fromtimestamp(micros / 1e6, UTC) if isinstance(micros, int) and micros else None

    @property
    def evidence(self) -> list[tuple[str, list[str]]]:
        """(path, what stood there before, what should stand there after, what stands there now) of a call in doubt."""
        states = self.view.get("evidence")
        states = states if isinstance(states, dict) else {}
        columns = [found if isinstance(found, dict) else {} for found in map(states.get, ("before", "after", "now"))]
        paths = dict.fromkeys(path for column in columns for path in column)
        return [(path, [_hash(column.get(path)) for column in columns]) for path in paths]

    @property
    def confidence_said(self) -> str:
        """The score and the threshold it missed."""
        return f"{_number(self.view, 'score'):.2f}, a person is asked below {_number(self.view, 'threshold'):.2f}"

    @property
    def features(self) -> list[Feature]:
        """What took something off the confidence, the heaviest first."""
        heavy = [feature for feature in self._measured if float(feature.off)]
        return sorted(heavy, key=lambda feature: feature.off, reverse=True)

    @property
    def harmless(self) -> list[str]:
        """Names of what was measured and took nothing off."""
        return [feature.name for feature in self._measured if not float(feature.off)]

    @property
    def _measured(self) -> list[Feature]:
        found, weights = self.view.get("features"), self.view.get("weights")
        weights = weights if isinstance(weights, dict) else {}
        names = found if isinstance(found, dict) else {}
        return [Feature.of(name, _number(names, name), _number(weights, name)) for name in names]

    @property
    def argv(self) -> list[str]:
        """The exact words of the command that would run; empty for anything else."""
        words = self.view.get("argv")
        return [str(word) for word in words] if isinstance(words, list) else []


def build(gate: Gate, user: Any, *, errors: Any = None, typed: Any = None) -> Card:
    """The card of ``gate`` for ``user``. The caller has looked the gate up by ``visible_to``."""
    view = gate.view if isinstance(gate.view, dict) else {}
    size, standing = view_bytes(gate), standing_of(user, gate) if gate.is_open else None
    verdicts = standing.verdicts(size) if standing else ()
    if gate.kind == Gate.Kind.ROLLBACK_CHOICE:
        verdicts = tuple(verdict for verdict in verdicts if verdict in view.get("choices", ()))
    if is_of_criterion(view):
        verdicts = tuple(verdict for verdict in verdicts if verdict != Verdict.APPROVE_WITH_EDITS)
    now: datetime = timezone.now()
    around, repeated, repeated_before = steps.shown(gate, view)
    again = again_from(gate.kind, view, gate.opened_at, now)
    if again is not None:
        verdicts = tuple(verdict for verdict in verdicts if verdict != Verdict.APPROVE)
    changed = changed_files.of(gate, user)
    hidden = unshowable(gate, [one.file for one in changed]) if verdicts else []
    if hidden:
        verdicts = tuple(verdict for verdict in verdicts if not lets(gate.kind, verdict))
    long = size > LONG_BYTES or any(one.file.has_contents for one in changed)
    if extensions_left(view) == 0:
        verdicts = tuple(verdict for verdict in verdicts if not counts_as_extension(gate.kind, verdict))
    return Card(
        gate=gate,
        view=view,
        verdicts=tuple(str(verdict) for verdict in verdicts),
        objections=standing.objections() if standing else [],
        outcome="" if gate.is_open else already_decided(gate).message,
        word=confirmation_word(gate.kind, gate.tool),
        warnings=escaping.warnings_of([view, gate.title, gate.tool]),
        too_long=size > REVIEWABLE_BYTES,
        waiting=waiting(gate.opened_at, gate.due_at, now),
        steps=around,
        limit=_limit(view) if gate.kind == Gate.Kind.LIMIT_REACHED else None,
        form=arguments.fields(view, typed, errors) if "approve_with_edits" in verdicts else [],
        subject=_pretty(gate),
        errors=errors or {},
        typed=typed,
        again_from=again,
        is_own_claim=gate.claimed_by_id is not None and gate.claimed_by_id == user.pk,
        repeated=[(step, steps.calls_of(step)) for step in repeated],
        repeated_before=repeated_before,
        changed=changed,
        proof=proof(user, gate),
        locked=frozenset(str(one) for one in verdicts if long and lets(gate.kind, one)),
        hidden=hidden,
        take_back_s=0 if gate.is_open else _take_back_s(gate, user),
    )


def _take_back_s(gate: Gate, user: Any) -> float:
    left = seconds_left(gate)
    return 0 if left and objections_of(user, gate, Verdict.REJECT) else left


def whole(gate: Gate, user: Any) -> Card:
    """What is bound of ``gate``, without what stands around it and without a query: for showing several at once."""
    view = gate.view if isinstance(gate.view, dict) else {}
    return Card(
        gate=gate,
        view=view,
        verdicts=(),
        objections=[],
        outcome="",
        word="",
        warnings=escaping.warnings_of([view, gate.title, gate.tool]),
        too_long=False,
        waiting="",
        steps=[],
        limit=_limit(view) if gate.kind == Gate.Kind.LIMIT_REACHED else None,
        form=[],
        subject=_pretty(gate),
        proof=proof(user, gate),
    )


def _pretty(gate: Gate) -> str:
    return json.dumps(json.loads(bytes(gate.subject)), indent=2, ensure_ascii=False)


def _number(values: Mapping[str, Any], name: str) -> float:
    value = values.get(name)
    return float(value) if isinstance(value, int | float) else 0.0


def _hash(found: Any) -> str:
    return {None: "unknown", "": "no file", "directory": "a folder"}.get(found, str(found)[:12])


def _limit(view: Mapping[str, Any]) -> Limit:
    numbers = {key: limit_number(view, key) for key in ("used", "bound", "suggested", "least")}
    return Limit(name=limit_name(view), **numbers)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


@cache
def _part_of(kind: str) -> str:
    name = f"gates/kinds/{kind}.html"
    try:
        get_template(name)
    except TemplateDoesNotExist:
        return ""
    return name

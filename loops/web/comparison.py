"""Two runs side by side: what they share, then step beside step, and what each of them cost (UI page 6, SPEC K3)."""

from __future__ import annotations

import difflib
import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.db.models import Count, Q

from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain
from loops.engine.state.spec import RunSpec
from loops.models import Fact, ModelCall, Run, Step, ToolCallRecord
from loops.services import lineage
from loops.services.lineage import Shared
from loops.storage import reader
from loops.web import diffs, formatting, open_gates
from loops.web.timeline import SAID, look_of

PAGE = 40
MINUS = "\u2212"
LONGEST_RESULT = 20_000
"""Characters of each result that are compared line by line."""


@dataclass(slots=True)
class Side:
    """One step of one run; ``step`` None where that run has no such step."""

    step: Step | None = None
    calls: list[ToolCallRecord] = field(default_factory=list)
    gates: list[Any] = field(default_factory=list)

    @property
    def said(self) -> str:
        return formatting.one_line((self.step.said or self.step.reasoning) if self.step else "", 200)

    @property
    def look(self) -> str:
        return look_of(self.step, self.gates)

    @property
    def said_look(self) -> str:
        return SAID[self.look] if self.step else ""

    @property
    def reused(self) -> Mapping[str, Any]:
        return (self.step.action or {}).get("reused") or {} if self.step else {}

    @property
    def plan(self) -> list[tuple[str, Any]]:
        """What was called with what: two sides that are alike did the same, whatever came of it."""
        return [(call.tool, call.arguments) for call in self.calls]


@dataclass(frozen=True, slots=True)
class Row:
    """Step ``number`` of both; a shared one has a single side."""

    number: int
    one: Side
    other: Side
    shared: bool

    @property
    def alike(self) -> bool:
        return bool(self.one.calls) and self.one.plan == self.other.plan


@dataclass(frozen=True, slots=True)
class Total:
    """A figure of both runs, said; ``gap`` is how much more or less the other has."""

    label: str
    one: str
    other: str
    gap: str = ""


@dataclass(frozen=True, slots=True)
class Comparison:
    shared: Shared
    rows: list[Row]
    totals: list[Total]
    settings: list[Total]
    earlier: int | None
    """``after`` of the page before; None on the first."""
    later: int
    results: list[diffs.FileDiff] | None
    """None while one of the two has left nothing."""
    results_cut: tuple[int, int] | None = None
    """Characters of both results, where they are compared in part only."""
    longest_result: int = LONGEST_RESULT


def compare(one: Run, other: Run, after: int | None = None) -> Comparison:
    """A page of steps behind step ``after``; without it the page on which the two part."""
    common = lineage.shared(one, other)
    last = max(one.total_steps, other.total_steps)
    begin = max(0, common.steps - 2) if after is None else min(after, last)
    end = begin + PAGE
    texts = _results(one, other)
    return Comparison(
        shared=common,
        rows=_rows(one, other, common, begin, min(end, last)),
        totals=_totals(one, other),
        settings=_settings(one, other),
        earlier=max(0, begin - PAGE) if begin else None,
        later=end if end < last else 0,
        results=_diff(*texts) if texts else None,
        results_cut=_cut(*texts) if texts else None,
    )


def _rows(one: Run, other: Run, common: Shared, begin: int, end: int) -> list[Row]:
    numbers = range(begin + 1, end + 1)
    sides: dict[tuple[uuid.UUID, int], Side] = defaultdict(Side)
    within = {"step_number__gt": begin, "step_number__lte": end}
    runs = [one.pk, other.pk]
    for step in Step.objects.filter(execution__in=runs, **within):
        sides[step.execution_id, step.step_number].step = step
    calls = ToolCallRecord.objects.filter(run__in=runs, **within).defer("data", "idempotency_key")
    for call in calls.order_by("step_number", "position"):
        sides[call.run_id, call.step_number].calls.append(call)
    gates = open_gates.gates().objects.filter(run__in=runs, **within).defer("subject", "view").order_by("id")
    for gate in gates:
        sides[gate.run_id, gate.step_number].gates.append(gate)
    recorded = common.run if common.run in runs else one.pk
    return [
        Row(number, sides[recorded, number], Side(), shared=True)
        if number <= common.steps
        else Row(number, sides[one.pk, number], sides[other.pk, number], shared=False)
        for number in numbers
    ]


def _totals(one: Run, other: Run) -> list[Total]:
    tools = _counts(ToolCallRecord.objects.filter(started_at__isnull=False), one, other)
    answers = _counts(ModelCall.objects.exclude(Q(input_tokens=0) & Q(output_tokens=0)), one, other)
    gates = _counts(open_gates.gates().objects.all(), one, other)
    unknown = one.cost_unknown or other.cost_unknown
    costs = float(one.total_cost_usd), float(other.total_cost_usd)
    took = _took(one), _took(other)
    return [
        Total("Progress", f"{one.progress * 100:.0f} %", f"{other.progress * 100:.0f} %"),
        _number("Steps (incl. shared)", one.total_steps, other.total_steps),
        _number("Model calls (this run only)", answers[one.pk], answers[other.pk]),
        _number("Tool calls (incl. shared)", tools[one.pk], tools[other.pk]),
        _number("Questions to people (this run only)", gates[one.pk], gates[other.pk]),
        _number("Tokens (this run only)", one.total_tokens, other.total_tokens),
        Total(
            "Cost (this run only)",
            formatting.usd(costs[0], unknown=one.cost_unknown),
            formatting.usd(costs[1], unknown=other.cost_unknown),
            "" if unknown else _gap(costs[1] - costs[0], formatting.usd),
        ),
        Total(
            "Time",
            formatting.duration(took[0]),
            formatting.duration(took[1]),
            _gap(took[1] - took[0], formatting.duration),
        ),
    ]


def _counts(rows: Any, one: Run, other: Run) -> dict[uuid.UUID, int]:
    found = rows.filter(run__in=[one.pk, other.pk]).order_by().values("run_id").annotate(n=Count("pk"))
    return {one.pk: 0, other.pk: 0} | {row["run_id"]: row["n"] for row in found}


def _number(label: str, one: int, other: int) -> Total:
    return Total(label, formatting.compact(one), formatting.compact(other), _gap(other - one, formatting.compact))


def _gap(value: float, say: Any) -> str:
    sign = "+" if value > 0 else MINUS
    return f"{sign}{say(abs(value))}" if value else ""


def _took(run: Run) -> float:
    return ((run.completed_at or run.last_activity_at) - run.started_at).total_seconds()


def _settings(one: Run, other: Run) -> list[Total]:
    """What the two were told to work with; ``gap`` says "differs" where it does."""
    bodies = dict(Fact.objects.filter(run__in=[one.pk, other.pk], seq=1).values_list("run_id", "body"))
    ours, theirs = (_said(bodies.get(run.pk)) for run in (one, other))
    differs = {label: "differs" if ours[label] != theirs[label] else "" for label in ours or theirs}
    return [Total(label, ours[label], theirs[label], gap) for label, gap in differs.items()]


def _said(body: Any) -> dict[str, str]:
    """The settings in the first fact of a run; nothing is said of one that has not begun."""
    if body is None:
        return defaultdict(str)
    spec = from_plain(RunSpec, canonical.decode(bytes(body))["spec"])
    said = defaultdict(str, {"Agent": spec.agent.name, "Model": spec.model_for("actor"), "Policy": spec.policy_version})
    said["Instructions"] = formatting.one_line(spec.agent.instructions, 80) or "none"
    limits = asdict(spec.limits)
    return said | {
        label: formatting.amount(name, limits[name]) for name, label in formatting.LIMITS.items() if name in limits
    }


def _results(one: Run, other: Run) -> tuple[str, str] | None:
    ours, theirs = (reader.report(run.pk) if run.is_ended else None for run in (one, other))
    return (_text(ours), _text(theirs)) if ours is not None and theirs is not None else None


def _diff(ours: str, theirs: str) -> list[diffs.FileDiff]:
    parts = (text[:LONGEST_RESULT].splitlines() for text in (ours, theirs))
    return diffs.parse("\n".join(difflib.unified_diff(*parts, "a/result", "b/result", lineterm="")))


def _cut(ours: str, theirs: str) -> tuple[int, int] | None:
    """Both sizes where what was left out may differ."""
    sizes = len(ours), len(theirs)
    return sizes if max(sizes) > LONGEST_RESULT and ours != theirs else None


def _text(report: Any) -> str:
    found = report.get("result") or report.get("partial_output") or report.get("diagnosis") or ""
    return found if isinstance(found, str) else formatting.pretty(found)

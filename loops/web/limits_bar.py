"""What a run has used against the bounds in force: those it began with, and what people granted since (SPEC D2, D3)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from django.utils import timezone

from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain
from loops.engine.measures.limits import extended
from loops.engine.state.limits import Limits
from loops.models import Fact, Run, Step
from loops.web import formatting, open_gates

_started: dict[uuid.UUID, Limits] = {}
_complexity: dict[uuid.UUID, tuple[str, str]] = {}
_KEPT = 1000
_contexts: dict[uuid.UUID, tuple[int, int]] = {}
"""Tokens and window by the latest answer: shown on while the next one is awaited."""


@dataclass(frozen=True, slots=True)
class Meter:
    label: str
    used: float
    bound: float
    said: str


Granted = Sequence[Mapping[str, Any]]
"""The bounds that people granted a run at its gates, oldest first."""


def limits_now(run: Run) -> Limits:
    """The bounds in force: those it began with, and what people granted since."""
    return limits_in_force(run, granted_to(run))


def granted_to(run: Run) -> Granted:
    gates = open_gates.gates().objects.filter(run=run, kind="limit_reached", status="extended").order_by("id")
    return [payload or {} for payload in gates.values_list("decision__payload", flat=True)]


def limits_in_force(run: Run, granted: Granted) -> Limits:
    return reduce(extended, granted, _limits_at_start(run))


def _limits_at_start(run: Run) -> Limits:
    """Fixed by the first fact, so read once; before there is one the head shows what the run row says."""
    if run.pk in _started:
        return _started[run.pk]
    body = Fact.objects.filter(run=run, seq=1).values_list("body", flat=True).first()
    if body is None:
        return Limits(max_steps=run.max_steps or Limits().max_steps)
    if len(_started) >= _KEPT:
        _started.clear()
        _complexity.clear()
    spec = canonical.decode(bytes(body)).get("spec", {})
    limits = from_plain(Limits, spec.get("limits", {}))
    _complexity[run.pk] = str(spec.get("complexity", "")), str(spec.get("complexity_reason", ""))
    _started[run.pk] = limits
    return limits


def complexity_of(run: Run) -> tuple[str, str]:
    """(level, why) as it was stated or estimated when the run began; empty before that (SPEC D2)."""
    _limits_at_start(run)
    return _complexity.get(run.pk, ("", ""))


def meters_of(run: Run, limits: Limits) -> list[Meter]:
    cost = float(run.total_cost_usd)
    at_most = limits.max_cost_microusd / 1e6
    working = working_seconds(run)
    steps = run.max_steps or limits.max_steps
    return [
        Meter("Steps", run.total_steps, steps, f"{run.total_steps} of {steps}"),
        Meter("Working time", working, limits.max_seconds, _of(formatting.duration, working, limits.max_seconds)),
        Meter(
            "Tokens", run.total_tokens, limits.max_tokens, _of(formatting.compact, run.total_tokens, limits.max_tokens)
        ),
        Meter("Cost", cost, at_most, f"{formatting.usd(cost, unknown=run.cost_unknown)} of {formatting.usd(at_most)}"),
    ]


def context_meter(run: Run, latest: Step | None) -> list[Meter]:
    """How full the model's window is, by its latest answer; none before one, or where the window is not known."""
    known = (latest.action or {}).get("context") if latest else None
    if known:
        if len(_contexts) >= _KEPT:
            _contexts.clear()
        _contexts[run.pk] = known["tokens"], known["window"]
    used, window = _contexts.get(run.pk, (0, 0))
    return [Meter("Context", used, window, f"≈ {_of(formatting.compact, used, window)}")] if window else []


def working_seconds(run: Run) -> float:
    """Time spent at work: what is charged. Waiting for people, models, turns and folders is free (SPEC D2)."""
    under_way = (timezone.now() - run.last_activity_at).total_seconds() if run.is_at_work else 0.0
    return run.active_us / 1e6 + max(0.0, under_way)


def _of(say: Any, used: float, bound: float) -> str:
    return f"{say(used)} of {say(bound)}"

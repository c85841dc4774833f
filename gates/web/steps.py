"""The steps that a decision card shows: those before the gate, and those that a loop is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from gates.models import Gate
from loops.models import Step
from loops.web.formatting import one_line

STEPS_AROUND = 3
STEPS_REPEATED = 10


def shown(gate: Gate, view: Mapping[str, Any]) -> tuple[list[Step], list[Step], list[int]]:
    """The last steps before the gate, and those that a loop is made of; both oldest first, read together. And the
    numbers of those of the loop that came before."""
    numbers = view.get("steps") if gate.kind == Gate.Kind.LOOP_DETECTED else None
    wanted = {one for one in numbers if isinstance(one, int)} if isinstance(numbers, list) else set()
    before_these = sorted(wanted)[:-STEPS_REPEATED]
    wanted -= set(before_these)
    at = gate.step_number  # its own row may not be there yet
    around = Q(step_number__gt=at - STEPS_AROUND - 1, step_number__lte=at)
    steps = Step.objects.filter(around | Q(step_number__in=wanted), execution_id=gate.run_id).order_by("step_number")
    found = list(steps.defer("result", "validation"))
    before = [step for step in found if at - STEPS_AROUND - 1 < step.step_number <= at]
    return before[-STEPS_AROUND:], [step for step in found if step.step_number in wanted], before_these


def calls_of(step: Step) -> list[str]:
    """Its calls, each in one line."""
    return [f"{call['tool']} {one_line(call['arguments'])}" for call in (step.action or {}).get("calls") or []]

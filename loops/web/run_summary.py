"""What a run is doing, why, how far it is, and what would stop it next: the four questions its head always answers.

Read off the run's row, its latest step and its meters, so that the answer costs nothing beyond what the head reads
anyway. What the model said is quoted as its own words; it is never taken for what the run really does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from loops.engine.state.measures import REPORTED
from loops.engine.state.needs import NeedKind
from loops.models import Run, Step
from loops.web import formatting, open_gates
from loops.web.limits_bar import Meter

WHY_CHARS = 220
METHODS = {
    "checks": "acceptance checks",
    "tests": "tests",
    REPORTED: "tests that a command reported",
    "artifacts": "files changed",
    "model": "the model's own judgement",
}
"""How progress was measured, best first (SPEC G1)."""
STARTING = frozenset({Run.Status.QUEUED, Run.Status.INITIALIZING})


@dataclass(frozen=True, slots=True)
class RunSummary:
    """Empty are ``why`` while the model has said nothing yet, ``measured`` during a step, and ``stops`` at the end.
    ``percent`` is None where nothing had to be reached: 0 % would say that it fell short."""

    doing: str
    why: str
    percent: int | None
    measured: str
    stops: str


def outlook(run: Run, latest: Step | None, meters: Sequence[Meter], *, is_asked: bool = True) -> RunSummary:
    """The answers for ``run``, whose latest step and bounds are these. Not ``is_asked``: no gate of it is open, so one
    that it waits for was decided, and the run hears of that in a moment."""
    percent = round(100 * run.progress)
    if run.end_reason == "no_criteria" and not percent:
        return RunSummary(_doing(run, latest, is_asked), _why(latest), None, "no criteria to measure progress by", "")
    method = ((latest.validation or {}).get("method") or "") if latest else ""
    return RunSummary(
        doing=_doing(run, latest, is_asked),
        why=_why(latest),
        percent=percent,
        measured=_measured(percent, method),
        stops=_stops(run, meters),
    )


AT_REST = {
    Run.Status.QUEUED: "Waiting for a free worker",
    Run.Status.INITIALIZING: "Preparing the workspace",
}


def _doing(run: Run, latest: Step | None, is_asked: bool) -> str:
    match run.status:
        case Run.Status.WAITING_FOR_RESOURCE:
            return open_gates.standing(run)
        case status if status in AT_REST:
            return AT_REST[status]
        case Run.Status.PAUSED:
            return f"{formatting.paused(run)}. It continues when somebody resumes it"
        case Run.Status.THINKING:
            return open_gates.said(run) or f"Asks the model what to do in step {run.total_steps}"
        case Run.Status.EXECUTING_TOOL:
            return _running(run, latest)
        case Run.Status.WAITING if run.waiting_kind == NeedKind.MESSAGE:
            return "Waiting for your message"
        case Run.Status.WAITING if run.waiting_kind == NeedKind.GATE and not is_asked:
            return "Continues in a moment"
        case Run.Status.WAITING:
            return f"Waiting for a person: {open_gates.said(run)}"
        case _:
            return _ended(run)


def _ended(run: Run) -> str:
    """Why it ended, and what people may still say to that."""
    why = formatting.ended(run) if run.end_reason else "Ended"
    return f"{why}; waits for a person: {open_gates.said(run)}" if run.waiting_on else why


def _measured(percent: int, method: str) -> str:
    """Empty while a step is under way: the score is then an earlier step's."""
    if method in METHODS:
        return f"by {METHODS[method]}"
    return "" if percent else "not measured yet"


def _running(run: Run, latest: Step | None) -> str:
    """The call under way, in one line."""
    proposed: list[dict[str, Any]] = ((latest.action or {}).get("calls") or []) if latest else []
    telling = next(
        (formatting.one_line(call["arguments"], 90) for call in proposed if call["tool"] == run.waiting_on), ""
    )
    name = open_gates.said(run)
    return f"{name}: {telling}" if telling else name


def _why(latest: Step | None) -> str:
    return formatting.one_line((latest.said or latest.reasoning) if latest else "", WHY_CHARS)


def _stops(run: Run, meters: Sequence[Meter]) -> str:
    """The bound that is nearest, by the share of it that is used; a person, where a person is what it waits for."""
    if run.is_ended:
        return ""
    if run.status in (Run.Status.WAITING, Run.Status.PAUSED):
        return "None while waiting for a person"
    if run.status == Run.Status.WAITING_FOR_RESOURCE:
        return "None while waiting"
    bounded = [meter for meter in meters if meter.bound]
    if run.status in STARTING or not bounded:
        return "No limit is near"
    nearest = max(bounded, key=lambda meter: meter.used / meter.bound)
    return f"{nearest.label}: {nearest.said} used"

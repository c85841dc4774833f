"""How amounts, times and states are said: one place, so that every page says them alike."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from loops.engine.ends.reasons import EXPLANATIONS, explained
from loops.engine.state.evidence import WEAK, Evidence
from loops.engine.state.limits import FIELD_OF
from loops.engine.state.limits import LIMITS as TABLE
from loops.engine.state.needs import STANDSTILLS
from loops.engine.text import money
from loops.engine.text.arguments import telling
from loops.models import Run
from loops.storage.status import WAITING_FOR_RESOURCE, weakness

STATES: dict[str, tuple[str, str]] = {
    # status: (look, icon). Every state also has its word (SPEC A2), so colour never speaks alone.
    "queued": ("idle", "clock"),
    "initializing": ("busy", "loader-circle"),
    "thinking": ("busy", "brain"),
    "executing_tool": ("busy", "wrench"),
    "waiting": ("wait", "user-check"),
    "waiting_for_resource": ("idle", "hourglass"),
    "paused": ("wait", "circle-pause"),
    "completed": ("good", "circle-check"),
    "failed": ("bad", "circle-x"),
    "interrupted": ("idle", "circle-stop"),
    "escalated": ("bad", "circle-arrow-up"),
}
LEVELS: dict[str, tuple[str, str, str]] = {
    # level of evidence: (look, icon, what it means)
    Evidence.PROVED: (
        "good",
        "shield",
        "Passes in a clean checkout, by the report of its tests, and fails without the work",
    ),
    Evidence.ACCEPTED: ("good", "user-check", "A person accepted it"),
    Evidence.SUPPORTED: ("idle", "circle-dot", "Passes in a clean checkout, but nothing shows that it could fail"),
    Evidence.CLAIMED: (
        "idle",
        "circle-dashed",
        "Only the agent says so, or a check that the run could have influenced",
    ),
    Evidence.CONTRADICTED: (
        "bad",
        "triangle-alert",
        "Also passes when the work is broken on purpose or left out, so it proves nothing",
    ),
}
MARKS = {"good": "circle-check", "idle": "circle-dashed", "bad": "circle-x"}
"""Icon of a criterion, and of an end, by its look."""
LIMITS = {name: TABLE[field].label for name, field in (*zip(TABLE, TABLE, strict=True), *FIELD_OF.items())}


def state(run: Run) -> str:
    """What a person is told of its status; of one that waits for a resource, for which."""
    needed = STANDSTILLS.get(run.waiting_kind, "") if run.status == WAITING_FOR_RESOURCE else ""
    found = weakness(run.final_status)
    return needed or (capital(found) if found is Evidence.CONTRADICTED else str(run.get_status_display()))


def state_look(run: Run) -> tuple[str, str]:
    """Look and icon: of a run that completed, no better than its weakest evidence."""
    found = weakness(run.final_status)
    return LEVELS[found][:2] if found else STATES.get(run.status, ("idle", "circle"))


def criterion(status: str, level: str = "") -> str:
    """Look of a criterion: what holds looks as good as its evidence, and no better."""
    if status == "passed":
        return LEVELS[level][0] if level in LEVELS else "good"
    return "idle" if status == "unproven" else "bad"


def end(level: str) -> str:
    """Look of the end of a run that completed, by its weakest evidence; none was recorded by earlier versions."""
    return LEVELS[level][0] if level in WEAK else "good"


def ended(run: Run) -> str:
    """Why it ended, in words, and no better than it was proved."""
    known = run.end_reason in EXPLANATIONS
    return explained(run.end_reason, weakness(run.final_status)).rstrip(".") if known else reason(run.end_reason)


def reason(code: str) -> str:
    """A reason code as words; an unknown one is still readable."""
    return (EXPLANATIONS.get(code) or code.replace("_", " ").capitalize()).rstrip(".")


def paused(run: Run) -> str:
    """Who paused it, and why where that was said."""
    if run.paused_reason:
        return f"Paused by the {run.paused_by}: {run.paused_reason}"
    return f"Paused by {run.paused_by or 'a person'}"


def capital(text: str) -> str:
    """The first letter large, the others as they are."""
    return text[:1].upper() + text[1:]


def amount(limit: str, value: float) -> str:
    """A value of a limit in its own unit."""
    if limit in ("max_cost_microusd", "max_cost_usd"):
        return usd(value / 1e6)
    if limit == "max_seconds":
        return duration(value)
    return compact(value) if limit == "max_tokens" else f"{value:g}"


def usd(amount: Decimal | float | None, *, unknown: bool = False) -> str:
    """Dollars; ``≥`` where some price was not known."""
    return f"{'≥ ' if unknown else ''}{money.usd(round(Decimal(str(amount or 0)) * 1_000_000))}"


def compact(number: float | None) -> str:
    """1234 -> 1.2k."""
    value = float(number or 0)
    for bound, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= bound:
            short = f"{value / bound:.1f}"
            return f"{short.removesuffix('.0')}{unit}"
    return f"{value:.0f}"


def duration(seconds: float | None) -> str:
    """840 ms, 4.2 s, 3 min 05 s, 2 h 10 min, 4 d 3 h."""
    value = max(float(seconds or 0), 0.0)
    if value < 1:
        return f"{value * 1000:.0f} ms"
    if value < 60:
        return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"
    whole = int(value)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s" if whole % 60 else f"{whole // 60} min"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min" if whole % 3600 >= 60 else f"{whole // 3600} h"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def ago(moment: datetime, now: datetime | None = None) -> str:
    """Just now, 5 min ago, in 3 h, 12 Nov."""
    now = now or datetime.now(UTC)
    gap = now - moment
    if abs(gap) < timedelta(seconds=5):
        return "just now"
    if abs(gap) > timedelta(days=6):
        return f"{moment.day} {moment:%b %Y}" if moment.year != now.year else f"{moment.day} {moment:%b}"
    seconds = abs(gap.total_seconds())
    amount = next(f"{seconds // size:.0f} {unit}" for size, unit in _UNITS if seconds >= size)
    return f"in {amount}" if gap < timedelta() else f"{amount} ago"


_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def pretty(value: Any) -> str:
    """JSON for people: indented, in the order given, text as it is."""
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def one_line(value: Any, longest: int = 120) -> str:
    """The most telling argument of a call in one line."""
    if isinstance(value, dict):
        plain = (f"{key}: {item}" for key, item in value.items() if not isinstance(item, dict | list))
        value = telling(value) or ", ".join(plain)
    text = " ".join(str(value if value is not None else "").split())
    return text if len(text) <= longest else text[: longest - 1] + "…"

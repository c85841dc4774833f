"""What pages of loops know about gates. The gates app lies above this one, so it is reached by name only."""

from __future__ import annotations

from functools import cache
from typing import Any

from django.apps import apps
from django.db.models import OuterRef, Subquery
from django.http import HttpRequest
from django.template.loader import TemplateDoesNotExist, get_template

from loops.engine.state.needs import STANDSTILLS, NeedKind
from loops.models import Run
from loops.querysets import OPERATE, RunQuerySet
from loops.storage.turns import place
from loops.web import formatting
from loops.web.access import Audience


def gates() -> Any:
    """The model of gates."""
    return apps.get_model("gates", "Gate")


def waiting_for(user: Any) -> Any:
    """Open gates that ``user`` may decide: the list of the Review page."""
    return gates().objects.waiting_for(user)


def held_for(user: Any) -> RunQuerySet:
    """Runs that the monitor paused and ``user`` may resume or stop: on the Review page as well, above the decisions."""
    return Run.objects.visible_to(user, OPERATE).held()


def held_by_others(user: Any) -> RunQuerySet:
    """Runs that the monitor paused and ``user`` sees, but others have to resume or stop."""
    return Run.objects.visible_to(user).held().exclude(pk__in=held_for(user).order_by().values("pk"))


def count_for(request: HttpRequest) -> int:
    """How many wait for the person asking; counted once a request."""
    if not hasattr(request, "_open_gates"):
        gates, held = waiting_for(request.user).order_by().values("pk"), held_for(request.user).order_by().values("pk")
        request._open_gates = gates.union(held, all=True).count()  # type: ignore[attr-defined]
    return int(request._open_gates)  # type: ignore[attr-defined]


def of_run(run: Run) -> list[tuple[Any, str]]:
    """(id, kind) of the open gates of ``run``, the oldest first; asks only if it waits for one."""
    if run.waiting_kind != NeedKind.GATE:
        return []
    return list(gates().objects.filter(run_id=run.pk, status="open").order_by("id").values_list("pk", "kind"))


def with_questions(runs: Any) -> Any:
    """Each with the title of its oldest open gate as ``asked``, None where it has none; in the query of ``runs``."""
    opened = gates().objects.filter(run_id=OuterRef("pk"), status="open").order_by("id")
    return runs.annotate(asked=Subquery(opened.values("title")[:1]))


def question_of(run: Run) -> str:
    """The same of one run; "" where it has none."""
    return str(with_questions(Run.objects.filter(pk=run.pk)).values_list("asked", flat=True).first() or "")


def decidable(asked: list[tuple[Any, str]], audience: Audience) -> list[Any]:
    """The ids of those that ``audience`` may decide."""
    return [gate for gate, kind in asked if audience.review or (audience.operate and kind == "rollback_choice")]


def remember(request: HttpRequest, number: int) -> None:
    """Who has just counted them need not do it again for the badge."""
    request._open_gates = number  # type: ignore[attr-defined]


def said(run: Run) -> str:
    """What a run waits for, in words that complete "waits for"; of one at work what it does, such as its tool."""
    if run.waiting_kind == NeedKind.TURN:
        return f"model {run.waiting_name} ({place(run.waiting_on)})"
    if run.waiting_kind in STANDSTILLS:
        return run.waiting_on
    if run.waiting_kind == NeedKind.MESSAGE:
        return "a message"
    if run.waiting_kind == NeedKind.GATE and run.waiting_name in gates().AWAITS:
        return str(gates().AWAITS[run.waiting_name])
    return formatting.capital(run.waiting_on if " " in run.waiting_on else run.waiting_on.replace("_", " "))


def waits(run: Run) -> str:
    """For a line of a list: what a run waits for, what it asks, or of one at work what it does."""
    if run.status in (Run.Status.THINKING, Run.Status.EXECUTING_TOOL):
        return said(run)
    asked = getattr(run, "asked", None) if run.waiting_kind == NeedKind.GATE else None
    verb = "queued" if run.waiting_kind == NeedKind.TURN else "waits"
    return f"{verb} for {said(run)}: {asked}" if asked else f"{verb} for {said(run)}"


def standing(run: Run) -> str:
    """What a run stands still for, without a person having to do anything."""
    verb = "Queued" if run.waiting_kind == NeedKind.TURN else "Waiting"
    return f"{verb} for {said(run)}" if run.waiting_on else verb


@cache
def has_cards() -> bool:
    """Can a gate be answered in place, on the page of its run?"""
    try:
        get_template("gates/_card.html")
    except TemplateDoesNotExist:
        return False
    return True

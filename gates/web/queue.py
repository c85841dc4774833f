"""The list of the Review page: filters from the URL, one query for rows and count, pages by key."""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from django.db.models import Case, Count, IntegerField, Subquery, Value, When
from django.http import QueryDict

from gates.models import Gate
from gates.querysets import GateQuerySet, Place
from loops.models import Project, Run
from loops.querysets import OPERATE

PAGE = 40
HELD = 5
WHOSE = {"": "Waiting for me", "claimed": "Claimed by me", "open": "All open", "decided": "Decided"}
RISKS = ("critical", "high", "medium", "low")


@dataclass(frozen=True, slots=True)
class Filters:
    """What the URL asks for. Unknown values are dropped, so that an old link still shows something true."""

    whose: str = ""
    project: str = ""
    kind: str = ""
    risk: str = ""

    @classmethod
    def of(cls, query: QueryDict) -> Filters:
        def known(name: str, values: Any) -> str:
            value = query.get(name, "")
            return value if value in values else ""

        return cls(
            whose=known("whose", WHOSE),
            project=query.get("project", "")[:100],
            kind=known("kind", Gate.Kind.values),
            risk=known("risk", RISKS),
        )

    @property
    def query(self) -> str:
        """The same as a query string, "" when nothing is filtered."""
        given = {name: getattr(self, name) for name in ("whose", "project", "kind", "risk") if getattr(self, name)}
        return f"?{urlencode(given)}" if given else ""

    @property
    def narrows(self) -> bool:
        return bool(self.query)


@dataclass(frozen=True, slots=True)
class Queue:
    filters: Filters
    gates: list[Gate]
    total: int
    next: str = ""
    projects: list[Project] = field(default_factory=list)
    could_read: bool = True
    held: list[Run] = field(default_factory=list)
    """Paused by AgentOps: no decision is asked for, but somebody has to resume or stop them. Those first that the
    reader may (``may_steer``); of the others too one knows why nothing comes of them."""
    held_more: int = 0
    """How many stand in the list of runs alone."""

    @property
    def kinds(self) -> list[tuple[str, str]]:
        return list(Gate.Kind.choices)

    @property
    def risks(self) -> tuple[str, ...]:
        return RISKS

    @property
    def whose(self) -> list[tuple[str, str]]:
        return list(WHOSE.items())


def read(user: Any, filters: Filters, projects: Iterable[Project] = (), after: str = "") -> Queue:
    """One page of the queue and how many there are in all pages. ``projects``: what one may choose from."""
    found = _found(user, filters)
    page = found.ranked() if filters.whose != "decided" else found.ranked().order_by("-decided_at", "-id")
    place = _place(after)
    if place and filters.whose != "decided":
        page = page.after(place)
    page = page.annotate(total=Subquery(_number(found), output_field=IntegerField()))
    gates = list(page.with_names().defer("view", "subject", "run__state_snapshot")[: PAGE + 1])
    more = len(gates) > PAGE and filters.whose != "decided"
    total = gates[0].total if gates else found.count() if place else 0
    cursor = _cursor(gates[PAGE - 1]) if more else ""
    held, held_more = _held(user, filters)
    return Queue(filters, gates[:PAGE], total, cursor, list(projects), held=held, held_more=held_more)


def next_after(user: Any, filters: Filters, gate: Gate | None = None) -> Gate | None:
    """The gate to look at now; the first of the queue that is not ``gate``."""
    queue = _found(user, filters).open().ranked()
    return (queue.exclude(pk=gate.pk) if gate else queue).first()  # type: ignore[no-any-return]


def _held(user: Any, filters: Filters) -> tuple[list[Run], int]:
    """With everything that waits; what is narrowed to gates of some kind shows those alone. With how many more."""
    if filters.kind or filters.risk or filters.whose not in ("", "open"):
        return [], 0
    held = Run.objects.visible_to(user).held()
    if filters.project:
        held = held.filter(project_id=filters.project)
    mine = [one.project_id for one in user.memberships.all() if one.role in OPERATE]
    first = Case(When(project_id__in=mine, then=Value(0)), default=Value(1))
    found = list(held.with_names().order_by(first, "paused_at")[: HELD + 1])
    for run in found:
        run.may_steer = user.is_superuser or run.project_id in mine
    return found[:HELD], held.count() - HELD if len(found) > HELD else 0


def _found(user: Any, filters: Filters) -> GateQuerySet:
    gates: GateQuerySet = Gate.objects.waiting_for(user)
    if filters.whose == "claimed":
        gates = Gate.objects.visible_to(user).open().filter(claimed_by=user)
    elif filters.whose == "open":
        gates = Gate.objects.visible_to(user).open()
    elif filters.whose == "decided":
        gates = Gate.objects.visible_to(user).exclude(status="open")
    narrowed = {name: getattr(filters, name) for name in ("kind", "risk") if getattr(filters, name)}
    if filters.project:
        narrowed["project_id"] = filters.project
    return gates.filter(**narrowed)


def _number(found: GateQuerySet) -> Any:
    """How many there are, for the query that reads a page of them."""
    return found.order_by().annotate(one=Value(1)).values("one").annotate(n=Count("pk")).values("n")


def _cursor(gate: Any) -> str:
    place = json.dumps([gate.risk_rank, gate.due.isoformat(), str(gate.pk)])
    return base64.urlsafe_b64encode(place.encode()).decode().rstrip("=")


def _place(cursor: str) -> Place | None:
    """Where the page before ended; a cursor that cannot be read starts at the top."""
    if not cursor:
        return None
    try:
        risk, due, key = json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)))
        return Place(int(risk), datetime.fromisoformat(due), uuid.UUID(key))
    except (ValueError, TypeError, AttributeError, binascii.Error, OverflowError, RecursionError):
        return None

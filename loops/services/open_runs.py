"""How many runs of one person may be open in a project (SPEC A6, ADR 0045): asked wherever one begins or goes on again.

A run belongs to who submitted or forked it. One that has ended and is wanted back counts from when it is asked for.
"""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.db.models import Exists, OuterRef, Q

from loops.models import Fork, MailboxItem, Policy, Project, Run
from loops.services import audit
from loops.services.submission import InvalidTask

REFUSED = "run.too_many_open"
_LOCK = "SELECT pg_advisory_xact_lock(hashtextextended('open runs of ' || %s || ' in ' || %s, 0))"


class TooManyOpen(Exception):
    """The person has as many open runs as the policy allows; the text says how to make room."""

    def __init__(self, count: int, most: int, project: Project) -> None:
        super().__init__(
            f"{count} runs are open in {project.name}, and its policy allows {most} for one person: stop some or wait "
            "until some have ended, or have an admin raise it under Admin, Policies"
        )
        self.count, self.most = count, most


def take_place(person: Any, project: Project, again: Run | None = None) -> None:
    """Raise TooManyOpen where ``person`` may have no further open run, or may not have ``again`` back. Call it in the
    transaction that makes one: until its end it holds back whoever asks for the same person and project."""
    with connection.cursor() as cursor:
        cursor.execute(_LOCK, [str(person.pk), str(project.pk)])
    most = Policy.objects.values_list("open_runs_per_person", flat=True).get(project=project)
    count = opened_by(person, project, again)
    if count >= most:
        raise TooManyOpen(count, most, project)


def opened_by(person: Any, project: Project, beside: Run | None = None) -> int:
    """Open runs of ``person`` in ``project``, and those that are asked to go on again, without ``beside``."""
    mine = Q(fork=None, task__created_by=person) | Q(fork__created_by=person)
    wanted = MailboxItem.objects.filter(run=OuterRef("pk"), kind=MailboxItem.Kind.RESUME, consumed_seq=None)
    going_on = ~Q(status__in=Run.ENDED) | Exists(wanted)
    runs = Run.objects.filter(mine, going_on, project=project)
    return int((runs.exclude(pk=beside.pk) if beside else runs).count())


def owner_of(run: Run) -> Any:
    """Whose run it is."""
    fork = Fork.objects.select_related("created_by").filter(run=run).first()
    return fork.created_by if fork else run.task.created_by


def refusal(actor: Any, project: Project, error: TooManyOpen, run: Run | None = None) -> InvalidTask:
    """The same as a fault of a task, with an audit event."""
    note(actor, project, error, run)
    return InvalidTask({"project": str(error)})


def note(actor: Any, project: Project, error: TooManyOpen, run: Run | None = None) -> None:
    """That somebody asked for one too many."""
    audit.record(REFUSED, actor=actor, project=project, run=run, detail={"open": error.count, "most": error.most})

"""What an upgrade tightened for decisions that were waiting then: named until they are taken. Some of the checks."""

from __future__ import annotations

import json
from collections import defaultdict

from django.db import connection
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Q

from agentops.ops.finding import OK, WARNING, Finding
from gates.contributors import shapers_of
from gates.models import Gate
from gates.policy.roles import APPROVING, REVIEWERS
from gates.querysets import GateQuerySet
from loops.models import Membership, Run

UPGRADE = ("gates", "0006_seals")
"""The last migration of the version that binds decisions to what was shown; its row says when it came."""
LOOKED_AT = 500
NAMED = 5


def unseen() -> Finding:
    """Decisions that opened before a proof of showing was asked for (ADR 0039)."""
    count = _from_before().open().count()
    if count:
        todo = "load their cards once more before deciding; programs send the `shown` of GET /api/v1/gates/{id}/"
        return WARNING, f"Decisions that have been open since before the upgrade: {count}", todo
    return OK, "Every open decision was shown by this version"


def unbound() -> Finding:
    """Commands whose approval says nothing of the workspace (ADR 0041): their run asks again."""
    usable = Q(status=Gate.Status.OPEN) | Q(status=Gate.Status.APPROVED, consumed_at=None)
    asked = _from_before().filter(usable, view__operation="execute", run__in=Run.objects.live())
    rows = asked.order_by("pk").values_list("pk", "subject")[:LOOKED_AT]
    found = [str(pk) for pk, subject in rows if "workspace" not in _parts(subject)]
    if not found:
        return OK, "Every approval of a command binds the workspace"
    todo = "nothing runs by them: decide what the runs ask instead, in Review"
    said = f"Decisions about commands that do not bind the workspace: {len(found)}"
    return WARNING, said, todo, ", ".join(found[:NAMED])


def nobody_left() -> Finding:
    """Where the policy asks for another person, and all who may decide have shaped the run (ADR 0043)."""
    around = ("project", "run__task")
    waiting = Gate.objects.open().filter(project__policy__own_approval_allowed=False, kind__in=APPROVING)
    gates = list(waiting.select_related(*around).order_by("pk")[:LOOKED_AT])
    people = defaultdict(set)
    members = Membership.objects.filter(project__in={gate.project_id for gate in gates}, role__in=REVIEWERS)
    for project, person in members.filter(user__is_active=True).values_list("project", "user"):
        people[project].add(person)
    shaped = defaultdict(set)
    for run, person in shapers_of({gate.run_id for gate in gates}):
        shaped[run].add(person)
    found = [
        gate for gate in gates if not people[gate.project_id] - shaped[gate.run_id] - {gate.run.task.created_by_id}
    ]
    if not found:
        return OK, "Every open decision has somebody who may take it"
    projects = sorted({gate.project.name for gate in found})
    more = f" and {len(projects) - NAMED} more" if len(projects) > NAMED else ""
    todo = "who shaped a run is no other person: make one more person reviewer in Admin > Projects, or reject them"
    said = f"Open decisions that nobody else of the project may approve: {len(found)}"
    return WARNING, said, todo, f"in {', '.join(projects[:NAMED])}{more}"


def _from_before() -> GateQuerySet:
    app, name = UPGRADE
    came = MigrationRecorder(connection).migration_qs.filter(app=app, name=name).values_list("applied", flat=True)
    return Gate.objects.filter(opened_at__lt=came[:1])  # type: ignore[no-any-return]


def _parts(subject: bytes) -> dict[str, object]:
    try:
        parts = json.loads(bytes(subject))
    except ValueError:
        return {}
    return parts if isinstance(parts, dict) else {}


CHECKS = {"decisions from before": unseen, "commands from before": unbound, "other people": nobody_left}

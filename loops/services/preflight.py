"""Have the commands of a task that is not submitted yet run once: are they there, and what do they say now?"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from loops.models import Agent, Policy, Preflight, Project, Workspace
from loops.querysets import OPERATE
from loops.services import access, audit
from loops.services.steering import NotPossible
from loops.services.submission import clean_criteria
from loops.storage.dispatch import hand_over
from loops.workspaces import copies, preflight

JOB = "loops.preflight"
NO_COMMAND = "No criterion has a command. Give one, such as python3 -m unittest, and try it."
RUNNING = "Commands that you tried are still running."
KEPT = timedelta(days=1)
State = Preflight.State


def ask(
    *, actor: Any, project: Project, agent: Agent, workspace: Workspace | None, criteria: Sequence[Any]
) -> Preflight:
    """Order it. Raises NotAllowed, InvalidTask or NotPossible."""
    access.require(actor, project, OPERATE, what="try commands")
    commands = [row["command"] for row in clean_criteria(criteria) if row["command"]]
    if not commands:
        raise NotPossible(NO_COMMAND)
    if why := copies.why_refused(workspace) if workspace is not None else "":
        raise NotPossible(why)
    now, mine = timezone.now(), Preflight.objects.filter(asked_by=actor)
    with transaction.atomic():
        mine.filter(asked_at__lt=now - KEPT).delete()
        if mine.select_for_update().filter(state__in=Preflight.OPEN, until__gt=now).exists():
            raise NotPossible(RUNNING)
        each_s = Policy.objects.get(project=project).commands_in(workspace).criterion_seconds
        until = now + Preflight.patience(len(commands), each_s)
        what = {"project": project, "workspace": workspace, "agent_type": agent.agent_type, "commands": commands}
        asked = Preflight.objects.create(asked_by=actor, until=until, **what)
        detail = {"workspace": workspace.name if workspace is not None else "", "commands": commands}
        audit.record("task.preflight", actor=actor, project=project, detail=detail)
        hand_over(JOB, preflight=str(asked.pk))
    return asked


def carry_out(preflight_id: uuid.UUID) -> bool:
    """By a worker; False where another one has it. It is not begun twice: who lost it asks again."""
    mine = Preflight.objects.filter(pk=preflight_id, state=State.WAITING, until__gt=timezone.now())
    if not mine.update(state=State.RUNNING):
        return False
    asked = Preflight.objects.select_related("workspace__project", "project").get(pk=preflight_id)
    results = preflight.measure(asked)
    Preflight.objects.filter(pk=preflight_id).update(state=State.DONE, results=results)
    return True

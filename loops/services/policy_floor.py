"""Nobody loosens what binds them: the project's policy as a floor, asked by every door (SPEC S1, S4, ADR 0045).

The rule itself is ``loops.engine.limits.ceilings``. Doors refuse with an audit event; the beginning of a run holds, so
that a row written in any other way binds no more loosely.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loops.engine.limits.ceilings import (
    OFF_AT_ZERO,
    REVIEW,
    Floor,
    Loosened,
    ceilings,
    loosened,
)
from loops.engine.state.limits import DEFAULTS, LIMITS
from loops.models import ComplexityProfile, Fork, Membership, Policy, Run
from loops.querysets import ADMINISTER, can
from loops.services import audit
from loops.services.submission import MICRO, InvalidTask

REFUSED, HELD, EXCEEDED = "policy.loosening_refused", "policy.loosening_held", "policy.exceeded"


def amounts(profile: ComplexityProfile) -> dict[str, int]:
    """The limits of a profile in the units of a run; what it has no field for is as everywhere. It leaves the price of
    a model open: that is asked for where a person set a limit on money."""
    whole = {name: getattr(profile, name, getattr(DEFAULTS, name)) for name in LIMITS}
    return {**whole, "max_cost_microusd": int(profile.max_cost_usd * MICRO), "allow_unknown_cost": 1}


def floor_of(project_id: str) -> Floor:
    """Two queries."""
    policy = Policy.objects.get(project_id=project_id)
    return floor_under(policy, list(ComplexityProfile.objects.all()))


def floor_under(policy: Policy, profiles: list[ComplexityProfile]) -> Floor:
    """The same of rows at hand."""
    named = policy.task_limits if isinstance(policy.task_limits, dict) else {}
    return Floor(ceilings(map(amounts, profiles), named), policy.final_review)


def require(
    actor: Any, project: Any, limits: Mapping[str, int], final_review: str = "", *, run: Run | None = None
) -> None:
    """Raise InvalidTask, with an audit event, where ``actor`` asks for more than the policy lets them."""
    if not limits and not final_review:
        return
    found = barred(loosened(floor_of(project.pk), limits, final_review), actor, can(actor, project.pk, ADMINISTER))
    if not found:
        return
    audit.record(REFUSED, actor=actor, project=project, run=run, detail=_detail(found))
    raise InvalidTask({one.field: said(one, project.name) for one in found})


def hold(run: Run, author: Any, limits: Mapping[str, int], final_review: str) -> tuple[dict[str, int], str]:
    """Limits and review with which ``run`` begins: as ``author`` asked, no looser than they may ask for now.

    Whatever had to be held is recorded, and whatever is above the policy since an admin may ask for it.
    """
    floor = floor_of(run.project_id)
    found = loosened(floor, limits, final_review)
    over = barred(found, author, can(author, run.project_id, ADMINISTER))
    for kind, some in ((HELD, over), (EXCEEDED, tuple(one for one in found if one not in over))):
        if some:
            audit.record(kind, actor=author, run=run, detail=_detail(some))
    bound = {one.field: one.allowed for one in over}
    given = {name: int(bound.get(f"limits.{name}", amount)) for name, amount in limits.items()}
    return given, str(bound.get(REVIEW, final_review or floor.final_review))


def barred(found: Iterable[Loosened], actor: Any, is_admin: bool) -> tuple[Loosened, ...]:
    """What of ``found`` is not for ``actor`` to ask: admins of a project give any limit by name, and no looser review,
    which would let them accept their own results; a superuser, who is trusted, anything."""
    if actor.is_superuser and is_admin:
        return ()
    return tuple(one for one in found if one.field == REVIEW or not is_admin)


def _detail(found: Iterable[Loosened]) -> dict[str, Any]:
    return {one.field: {"asked": one.asked, "allowed": one.allowed} for one in found}


def said(one: Loosened, project: str) -> str:
    """In words for people: what was asked for, what is allowed, and who can raise it."""
    asked, allowed = (in_words(one.field, amount) for amount in (one.asked, one.allowed))
    submits = "" if one.field == REVIEW else "submit it, or "
    return (
        f"asks for {asked}; the policy of {project} allows {allowed}: an admin of the project can {submits}change that "
        "under Admin, Policies"
    )


def in_words(field: str, amount: int | str) -> str:
    """An amount in the unit that people give."""
    if isinstance(amount, str):
        return f'"{amount}"'
    if field == "limits.allow_unknown_cost":
        return "models without a known price" if amount else "no model without a known price"
    if field.removeprefix("limits.") in OFF_AT_ZERO and amount == 0:
        return "0 (never)"
    return f"{amount / MICRO:,.2f} US dollars" if field == "limits.max_cost_microusd" else f"{amount:,}"


def beyond(runs: Iterable[Run]) -> list[tuple[Run, tuple[Loosened, ...]]]:
    """Which of ``runs`` (with task, project and who made them) were asked for more than their authors may ask for now:
    they were taken before the policy was a floor, or before it was tightened."""
    rows = list(runs)
    forks = Fork.objects.filter(run__in=rows).select_related("created_by").in_bulk(field_name="run_id")
    profiles = list(ComplexityProfile.objects.all())
    policies = Policy.objects.filter(project__in={run.project_id for run in rows})
    floors = {policy.project_id: floor_under(policy, profiles) for policy in policies}
    admins = set(Membership.objects.filter(project__in=floors, role__in=ADMINISTER).values_list("user", "project"))
    found = []
    for run in rows:
        fork = forks.get(run.pk)
        author = fork.created_by if fork else run.task.created_by
        asked = loosened(floors[run.project_id], fork.limits if fork else run.task.limits, run.task.final_review)
        is_admin = author.is_superuser or (author.pk, run.project_id) in admins
        if more := barred(asked, author, is_admin):
            found.append((run, more))
    return found

"""Nobody loosens what binds them: the project's policy as a floor, asked by every door (SPEC S1, S4, ADR 0045).

The rule itself is ``loops.engine.limits.ceilings``. Doors refuse with an audit event; the beginning of a run holds, so
that a row written in any other way binds no more loosely.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from loops.engine.limits.ceilings import (
    OFF_AT_ZERO,
    Floor,
    Loosened,
    ceilings,
    held,
    loosened,
    strictest,
)
from loops.engine.state.limits import DEFAULTS, LIMITS
from loops.models import ComplexityProfile, Fork, Membership, Policy, Run
from loops.querysets import ADMINISTER, can
from loops.services import audit
from loops.services.submission import MICRO, InvalidTask

REFUSED, HELD = "policy.loosening_refused", "policy.loosening_held"


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
    found = loosened(floor_of(project.pk), limits, final_review)
    if not found or can(actor, project.pk, ADMINISTER):
        return
    detail = {one.field: {"asked": one.asked, "allowed": one.allowed} for one in found}
    audit.record(REFUSED, actor=actor, project=project, run=run, detail=detail)
    raise InvalidTask({one.field: said(one, project.name) for one in found})


def hold(run: Run, author: Any, limits: Mapping[str, int], final_review: str) -> tuple[dict[str, int], str]:
    """Limits and review with which ``run`` begins: as ``author`` asked, no looser than they may ask for now.

    What an admin asked for stands. Whatever had to be held is recorded.
    """
    floor = floor_of(run.project_id)
    if can(author, run.project_id, ADMINISTER):
        return dict(limits), final_review or floor.final_review
    found = loosened(floor, limits, final_review)
    if found:
        detail = {one.field: {"asked": one.asked, "allowed": one.allowed} for one in found}
        audit.record(HELD, actor=author, run=run, detail=detail)
    return held(floor, limits), strictest(final_review, floor.final_review)


def said(one: Loosened, project: str) -> str:
    """In words for people: what was asked for, what is allowed, and who can raise it."""
    asked, allowed = (in_words(one.field, amount) for amount in (one.asked, one.allowed))
    return (
        f"asks for {asked}; the policy of {project} allows {allowed}: an admin of the project can submit it, or change "
        "that under Admin, Policies"
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
        more = loosened(floors[run.project_id], fork.limits if fork else run.task.limits, run.task.final_review)
        if more and not author.is_superuser and (author.pk, run.project_id) not in admins:
            found.append((run, more))
    return found

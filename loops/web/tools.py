"""Tools: what agents can call, and who may call it (UI page 8, SPEC I2, I3). Read only; admins edit the matrix."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.engine import strategies
from loops.engine.values import Access, ToolSpec
from loops.models import AccessRule, Project
from loops.runs import composition
from loops.tools import policy
from loops.web import access


@login_required
@never_cache
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    """The registry beside the matrix of each project you work in."""
    projects = Project.objects.visible_to(request.user)
    rules = AccessRule.objects.filter(project__in=projects.values("pk")).select_related("project")
    by_project: dict[str, list[tuple[AccessRule, bool]]] = {}
    for rule in rules.order_by("project__name", "agent_type", "tool", "operation"):
        by_project.setdefault(rule.project.name, []).append((rule, _speaks(rule)))
    context = {
        "specs": _specs(),
        "broken": composition.broken_packages(),
        "loops": [(name, strategies.prompt(name)) for name in strategies.names()],
        "matrix": by_project,
        "roles": access.roles(request),
    }
    return render(request, "loops/tools.html", context)


def _speaks(rule: AccessRule) -> bool:
    """False for a row that allows without naming a tool or an operation: the matrix reads it as ask."""
    read = policy.AccessRule(Access(rule.access), tool=rule.tool, operation=rule.operation)
    return read.access is not Access.ALLOW or policy.may_allow(read)


def _specs() -> list[tuple[ToolSpec, Access]]:
    """Registered tools by name, with what holds where no rule names each."""
    specs = composition.tool_registry().specs()
    return [(spec, policy.without_rule(spec)) for spec in sorted(specs, key=lambda spec: (spec.server, spec.name))]

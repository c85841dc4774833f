"""Tools: what agents can call, and who may call it (UI page 8, SPEC I2, I3). Read only; admins edit the matrix."""

from __future__ import annotations

import importlib
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.models import AccessRule, Project
from loops.web import access


@login_required
@never_cache
@require_safe
def tools(request: HttpRequest) -> HttpResponse:
    """The registry beside the matrix of each project you work in."""
    projects = Project.objects.visible_to(request.user)
    rules = AccessRule.objects.filter(project__in=projects.values("pk")).select_related("project")
    by_project: dict[str, list[AccessRule]] = {}
    for rule in rules.order_by("project__name", "agent_type", "tool", "operation"):
        by_project.setdefault(rule.project.name, []).append(rule)
    context = {"specs": _specs(), "matrix": by_project, "roles": access.roles(request)}
    return render(request, "console/tools.html", context)


def _specs() -> list[Any] | None:
    """Registered tools by name; None where this process cannot know them."""
    try:
        registry = importlib.import_module("loops.wiring").tool_registry()
    except (ImportError, AttributeError):
        return None
    specs = registry.specs() if hasattr(registry, "specs") else registry
    return sorted(specs, key=lambda spec: (spec.server, spec.name))

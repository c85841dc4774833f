"""Small answers for every page: the number on the Review badge, and finding a page or a run by name."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from loops.models import Run
from loops.web import access, open_gates

SUBMIT = "new-task"
PAGES = (
    ("Overview", "overview", "layout-dashboard", "g o"),
    ("Runs", "runs", "activity", "g u"),
    ("New task", SUBMIT, "plus", "g t"),
    ("Workspaces", "workspaces", "folder", ""),
    ("Tools", "tools", "wrench", ""),
    ("System", "system", "server", "g s"),
    ("Circuit breakers", "breakers", "zap", ""),
)
REVIEW = ("Review", "/review/", "inbox", "g r")
MOST = 8


@login_required
@never_cache
@require_safe
def badge(request: HttpRequest) -> HttpResponse:
    """The badge alone, asked for when a queue changed."""
    return render(request, "loops/_badge.html", {"waiting": open_gates.count_for(request)})


@login_required
@never_cache
@require_safe
def find(request: HttpRequest) -> HttpResponse:
    """Pages whose name holds the words, and the latest runs whose task does."""
    words = request.GET.get("q", "").strip()[:200]
    hidden = () if access.roles(request).may_operate else (SUBMIT,)
    pages = [(name, reverse(view), icon, keys) for name, view, icon, keys in PAGES if view not in hidden]
    pages.insert(1, REVIEW)
    runs = Run.objects.visible_to(request.user).with_names()
    if words:
        pages = [page for page in pages if words.lower() in page[0].lower()]
        runs = runs.filter(Q(task__title__icontains=words) | Q(agent__name__icontains=words))
    found = list(runs[: MOST + 1])
    context = {"pages": pages, "runs": found[:MOST], "more": len(found) > MOST, "words": words}
    return render(request, "loops/_found.html", context)

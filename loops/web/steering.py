"""Stop, pause, resume and talk (SPEC K1, K2): parse, one service call, say what happened."""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST
from django_htmx.http import HttpResponseClientRefresh, trigger_client_event

from loops.engine.people.stop_phrases import sounds_like_stop
from loops.models import Run
from loops.printable.text import printable
from loops.querysets import OPERATE
from loops.services import steering
from loops.services.steering import STEERING, InvalidMessage, NotPossible
from loops.web import access


@dataclass(frozen=True, slots=True)
class Action:
    """How a page offers what steers a run: its button, with what happens then, and what is answered to it."""

    label: str
    icon: str
    variant: str
    title: str
    answer: str


ACTIONS = {
    "pause": Action(
        "Pause",
        "pause",
        "outline",
        "Holds the run after what it is doing now. Nothing is lost.",
        "Pause requested. It takes effect after the current action.",
    ),
    "resume": Action(
        "Resume",
        "play",
        "outline",
        "Continues where the run was.",
        "Resume requested. The run continues where it was.",
    ),
    "retry": Action(
        "Try again",
        "refresh-cw",
        "outline",
        "Continues where the run failed because of AgentOps or its model.",
        "Retry requested. The run continues where it was.",
    ),
    "check_confidence": Action(
        "Check confidence",
        "gauge",
        "outline",
        "Rates how well the run does, before its next step.",
        "Confidence check requested. It runs before the next step.",
    ),
    "stop": Action(
        "Stop",
        "square",
        "destructive",
        "Ends the run now. What it has done stays; it can be resumed later.",
        "Stop requested. Completed work is kept; it can be resumed later.",
    ),
}
"""One for each of STEERING, in the order of the buttons."""
SENT = "Message sent. The run reads it before its next step."
CONTINUES = "Message sent; the run continues. To stop it, press Stop or send /stop."
MOST = 100


@login_required
@require_POST
def steer(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """One of the buttons."""
    run = access.run_or_404(request, run_id, OPERATE)
    action = request.POST.get("action", "")
    if action not in STEERING:
        return HttpResponseBadRequest("Unknown action.")
    try:
        STEERING[action](actor=request.user, run=run)
    except NotPossible as error:
        return _answer(request, run, str(error), ok=False)
    return _answer(request, run, ACTIONS[action].answer)


@login_required
@require_POST
def message(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """Text for the run, or a command."""
    run = access.run_or_404(request, run_id, OPERATE)
    text = request.POST.get("text", "")
    try:
        item = steering.send_message(actor=request.user, run=run, text=text)
    except (NotPossible, InvalidMessage) as error:
        return _answer(request, run, str(error), ok=False)
    if item.kind in ACTIONS:
        return _answer(request, run, ACTIONS[item.kind].answer)
    return _answer(request, run, CONTINUES if sounds_like_stop(text) else SENT)


@login_required
@require_POST
def bulk(request: HttpRequest) -> HttpResponse:
    """One action for several runs; each answers for itself."""
    action = request.POST.get("action", "")
    if action not in STEERING:
        return HttpResponseBadRequest("Unknown action.")
    chosen = request.POST.getlist("run")
    if len(chosen) > MOST:
        said = f"Only the first {MOST} of the {len(chosen)} selected runs were taken: select the others again."
        messages.warning(request, said)
    ids = [run_id for run_id in map(_uuid, chosen[:MOST]) if run_id]
    done, refused = 0, []
    for run in Run.objects.visible_to(request.user, OPERATE).with_names().filter(pk__in=ids):
        try:
            STEERING[action](actor=request.user, run=run)
            done += 1
        except NotPossible as error:
            refused.append(f"{run.task.title}: {error}")
    if done:
        verb = action.replace("_", " ").capitalize()
        messages.success(request, f"{verb} requested for {done} run{'' if done == 1 else 's'}.")
    for line in refused:
        messages.warning(request, line)
    if not done and not refused:
        messages.warning(request, "Select the runs first.")
    back = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(back, allowed_hosts={request.get_host()}, require_https=request.is_secure())
    return redirect(back if safe and back.startswith("/") else reverse("runs"))


def _answer(request: HttpRequest, run: Run, said: str, *, ok: bool = True) -> HttpResponse:
    """Say it where the person is: a toast for htmx, a message and the page again without it."""
    if not request.headers.get("HX-Request"):
        (messages.success if ok else messages.error)(request, said)
        return redirect("run", run.pk)
    if run.is_ended and ok:
        return HttpResponseClientRefresh()  # a resumed run changes every part of its page
    response = HttpResponse(status=204 if ok else 422)  # what was refused stays in the field
    return trigger_client_event(response, "say", {"text": printable(said), "look": "info" if ok else "error"})


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None

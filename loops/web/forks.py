"""Fork a run, and look at two runs side by side (UI pages 4 and 6, SPEC K3)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from django.contrib.auth.decorators import login_required
from django.db.models import Count, F, Sum
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from loops.engine import facts as f
from loops.models import Fact, ModelCall, ModelConfig, Run, ToolCallRecord
from loops.querysets import OPERATE
from loops.services.forks import MAX_MESSAGE, ForkConflict, InvalidTask, Point, fork_run, point_of
from loops.services.unpriced_models import CONFIRMED
from loops.storage import reader
from loops.web import access
from loops.web.comparison import compare as side_by_side
from loops.web.limit_ranges import ranges
from loops.web.limits_bar import limits_now
from loops.web.tasks import LIMIT_FIELDS, as_limit

_TOKENS = F("input_tokens") + F("output_tokens") + F("cache_read_tokens") + F("cache_write_tokens")
TEXTS = ("message", "instructions", "model", "idempotency_key")
SENT_OTHERWISE = "This form was already sent with other content, and made a fork. Submit again to make another fork."


@dataclass(slots=True)
class Preview:
    """What a fork at ``point`` takes over, and what is asked for again. ``waiting`` and ``begun`` are tool names."""

    point: Point
    steps: int
    answers: int = 0
    calls: int = 0
    tokens: int = 0
    cost: float = 0.0
    cost_unknown: bool = False
    waiting: list[str] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    has_result: bool = False


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def fork(request: HttpRequest, run_id: uuid.UUID) -> HttpResponse:
    """The form, with what will be reused and what will be asked again; posting it begins the fork."""
    run = access.run_or_404(request, run_id, OPERATE)
    draft, faults = _draft(request, run), {}
    if request.method == "POST":
        try:
            return redirect("run", _fork(request, run, draft).pk)
        except InvalidTask as error:
            faults = error.errors
        except ForkConflict:
            faults, draft["idempotency_key"] = {"message": SENT_OTHERWISE}, uuid.uuid4().hex
    context = {"run": run, "draft": draft, "faults": faults, **_choices(request, run, draft), **_previewed(run, draft)}
    part = request.headers.get("HX-Target") == "fork-preview"
    template = "loops/_fork_preview.html" if part else "loops/fork.html"
    return render(request, template, context, status=422 if faults else 200)


@login_required
@never_cache
@require_safe
def compare(request: HttpRequest, one_id: uuid.UUID, other_id: uuid.UUID) -> HttpResponse:
    """Two runs the person may see, step beside step; followed for as long as one of them is at work."""
    if one_id == other_id:
        raise Http404
    one, other = access.run_or_404(request, one_id), access.run_or_404(request, other_id)
    after = request.GET.get("after", "")
    if after and not (after.isascii() and after.isdigit() and len(after) < 10):
        raise Http404
    found = side_by_side(one, other, int(after) if after else None)
    goes_on = not (one.is_ended and other.is_ended)
    context = {"one": one, "other": other, "sides": [(one, "A"), (other, "B")], "found": found, "goes_on": goes_on}
    part = request.headers.get("HX-Target") == "comparison"
    return render(request, "loops/_comparison.html" if part else "loops/compare.html", context)


def _fork(request: HttpRequest, run: Run, draft: Mapping[str, Any]) -> Run:
    step = _step(draft["step"])
    if step is None:
        raise InvalidTask({"step": "must be a whole number"})
    before = _instructions(run)
    return fork_run(
        actor=request.user,
        run=run,
        step=step,
        message=draft["message"],
        instructions=None if draft["instructions"] == before else draft["instructions"],
        model=draft["model"],
        limits={name: as_limit(name, value) for name, value in draft["limits"].items() if value.strip()},
        idempotency_key=draft["idempotency_key"],
    ).run


def _draft(request: HttpRequest, run: Run) -> dict[str, Any]:
    given = request.POST if request.method == "POST" else request.GET
    draft: dict[str, Any] = {name: given.get(name, "").replace("\r\n", "\n") for name in TEXTS}
    if "instructions" not in given:
        draft["instructions"] = _instructions(run)
    draft["step"] = given.get("step", str(run.total_steps))
    draft["limits"] = {name: given.get(name, "") for name, _, _ in LIMIT_FIELDS}
    draft["limits"][CONFIRMED] = "1" if given.get(CONFIRMED) else ""
    draft["idempotency_key"] = draft["idempotency_key"] or uuid.uuid4().hex  # a second press makes no second fork
    return draft


def _step(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _instructions(run: Run) -> str:
    """The agent's instructions as the run began with them."""
    first = next(iter(reader.history(run.pk, until=1)), None)
    return first.spec.agent.instructions.replace("\r\n", "\n") if isinstance(first, f.RunStarted) else ""


def _choices(request: HttpRequest, run: Run, draft: Mapping[str, Any]) -> dict[str, Any]:
    limits, allowed = limits_now(run), ranges(request.user, run.project_id)
    now = {**asdict(limits), "max_cost_usd": f"{limits.max_cost_microusd / 1e6:g}"}
    return {
        "models": ModelConfig.objects.order_by("name").values_list("name", flat=True),
        "limit_fields": [
            (*field, draft["limits"][field[0]], now[field[0]], allowed[field[0]]) for field in LIMIT_FIELDS
        ],
        "max_message": MAX_MESSAGE,
    }


def _previewed(run: Run, draft: Mapping[str, Any]) -> dict[str, Any]:
    """``preview``, or ``no_point``: why the step given is none."""
    step = _step(draft["step"])
    try:
        point = point_of(run, step if step is not None else -1)
    except InvalidTask as error:
        return {"no_point": next(iter(error.errors.values()))}
    preview = Preview(point, steps=point.step)
    taken = ModelCall.objects.filter(run=run, seq__lte=point.seq)
    sums = taken.aggregate(n=Count("pk"), tokens=Sum(_TOKENS), cost=Sum("cost_microusd"))
    preview.answers, preview.tokens = sums["n"], sums["tokens"] or 0
    preview.cost = (sums["cost"] or 0) / 1e6
    preview.cost_unknown = run.cost_unknown and taken.filter(cost_microusd=None).exists()
    preview.calls = ToolCallRecord.objects.filter(
        run=run, step_number__lte=point.step, started_at__isnull=False, ok__isnull=False
    ).count()
    _add_open(run, preview)
    return {"preview": preview}


def _add_open(run: Run, preview: Preview) -> None:
    """Calls of the last step that had no outcome at the point: read from that step's own facts."""
    asked = Fact.objects.filter(run=run, kind="ModelRequested", seq__lte=preview.point.seq).order_by("-seq")
    begin = asked.values_list("seq", flat=True).first()
    calls: dict[str, tuple[str, str]] = {}
    for fact in reader.history(run.pk, after=(begin or 1) - 1, until=preview.point.seq) if begin else []:
        match fact:
            case f.GateOpened() if fact.call_id:
                calls[fact.call_id] = (fact.title, "waiting")
            case f.ToolIntended():
                calls[fact.call_id] = (fact.tool, "begun")
            case f.ToolCompleted() | f.ToolRefused():
                calls.pop(fact.call_id, None)
            case f.ResultProposed():
                preview.has_result = True
    preview.waiting = [what for what, state in calls.values() if state == "waiting"]
    preview.begun = [what for what, state in calls.values() if state == "begun"]

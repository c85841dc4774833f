"""New task: a goal with criteria, limits and a preview of what will happen (UI page 5, SPEC J6, D2)."""

from __future__ import annotations

import uuid
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from loops.engine import strategies
from loops.engine.limits.ceilings import held
from loops.engine.limits.complexity import estimate
from loops.engine.state.limits import FIELD_OF, LIMITS
from loops.models import Agent, ComplexityProfile, Policy, Preflight, Project, Run, Task, Workspace
from loops.querysets import OPERATE
from loops.services import policy_floor, repository_files, sandbox
from loops.services import preflight as service
from loops.services.steering import NotPossible
from loops.services.submission import MAX_CRITERIA, MAX_GOAL, MICRO, InvalidTask, called
from loops.services.tasks import IdempotencyConflict, submit_task
from loops.services.unpriced_models import CONFIRMED, models_of, unpriced
from loops.web import command_limits
from loops.web.limit_ranges import ranges
from loops.workspaces import copies

BLANK_ROWS = 2
ALREADY_SENT = "This was already sent. This is the run that it made."
SENT_OTHERWISE = "This form was already sent with other content: see Runs. Submit again to make another run of this."
TEXTS = ("title", "goal", "constraints_text", "complexity", "final_review", "execution_loop", "idempotency_key")
CHOICES = ("project", "agent", "workspace", "complexity", "final_review", "execution_loop")
"""Looked up before anything judges them, so in these a NUL is a letter that nothing is named with."""
LIMIT_FIELDS = tuple(
    (shown, row.form_label, row.step) for shown, name in FIELD_OF.items() if not (row := LIMITS[name]).is_switch
)
"""(name, label, step) of each number field."""


@login_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """The form; a task with faults comes back with every word kept."""
    draft = _posted(request) if request.method == "POST" else _prefilled(request)
    faults: dict[str, str] = {}
    if request.method == "POST" and "more_criteria" not in request.POST:
        try:
            submission = _submit(request, draft)
            if not submission.created:
                messages.info(request, ALREADY_SENT)
            if submission.note:
                messages.warning(request, submission.note)
            return redirect("run", submission.run.pk)
        except InvalidTask as error:
            faults = error.errors
        except IdempotencyConflict:
            faults, draft["idempotency_key"] = {"goal": SENT_OTHERWISE}, uuid.uuid4().hex
    context = {**_choices(request, draft), "draft": draft, "faults": faults, "fault_lines": _fault_lines(faults)}
    context["sandbox"] = sandbox.weak()
    return render(request, "loops/new_task.html", context, status=422 if faults else 200)


@login_required
@require_POST
def preview(request: HttpRequest) -> HttpResponse:
    """What would happen: limits, gates and the estimated complexity. Nothing is stored."""
    draft = _posted(request)
    context = {**_preview(request, draft), "limit_fields": _limit_fields(request, draft), "swapped": True}
    return render(request, "loops/_preview.html", context)


@login_required
@require_POST
def try_commands(request: HttpRequest) -> HttpResponse:
    """Have the commands of the criteria run once, before anything is submitted."""
    try:
        asked = service.ask(actor=request.user, **_chosen(request, _posted(request)))
    except (InvalidTask, NotPossible) as refusal:
        return render(request, "loops/_preflight.html", {"why_not": str(refusal)})
    return render(request, "loops/_preflight.html", {"asked": asked})


@login_required
@never_cache
@require_safe
def tried(request: HttpRequest, preflight_id: uuid.UUID) -> HttpResponse:
    """What they say, as far as it is known. Whoever asked sees it."""
    asked = get_object_or_404(Preflight, pk=preflight_id, asked_by=request.user)
    return render(request, "loops/_preflight.html", {"asked": asked})


def _chosen(request: HttpRequest, draft: dict[str, Any]) -> dict[str, Any]:
    """Project, agent, workspace and criteria of a draft. Raises InvalidTask."""
    project = _own_projects(request).filter(pk=draft["project"]).first()
    if project is None:
        raise InvalidTask({"project": "choose a project in which you may submit tasks"})
    agent = Agent.objects.filter(project=project, pk=draft["agent"]).first()
    if agent is None:
        raise InvalidTask({"agent": f"choose an agent of {project.name}"})
    criteria = [row for row in draft["criteria"] if row["text"].strip() or row["command"].strip()]
    workspace = _workspace(project, draft["workspace"])
    return {"project": project, "agent": agent, "workspace": workspace, "criteria": criteria}


def _submit(request: HttpRequest, draft: dict[str, Any]) -> Any:
    texts = {name: draft[name] for name in TEXTS}
    texts["idempotency_key"] = texts["idempotency_key"] or None
    return submit_task(
        actor=request.user,
        **_chosen(request, draft),
        limits={name: as_limit(name, value) for name, value in draft["limits"].items() if value.strip()},
        **texts,
    )


def _workspace(project: Project, chosen: str) -> Workspace | None:
    if not chosen:
        return None
    key = _uuid(chosen)
    found = Workspace.objects.filter(project=project, pk=key).first() if key else None
    if found is None:
        raise InvalidTask({"workspace": f"is not a workspace of {project.name}"})
    return found


def as_limit(name: str, value: str) -> Any:
    """A number where it is one; else the text, so that the service says what is wrong with it."""
    try:
        return float(value) if LIMITS[FIELD_OF[name]].scale > 1 else int(value)
    except ValueError:
        return value


def _posted(request: HttpRequest) -> dict[str, Any]:
    post = request.POST
    draft: dict[str, Any] = {name: post.get(name, "") for name in (*TEXTS, "project", "agent", "workspace")}
    draft = {name: value.replace("\r\n", "\n") for name, value in draft.items()}
    draft |= {name: draft[name].replace("\0", "\ufffd") for name in CHOICES}
    pairs = zip(post.getlist("criterion"), post.getlist("command"), strict=False)
    draft["criteria"] = [{"text": text, "command": command} for text, command in pairs][: MAX_CRITERIA + 1]
    draft["limits"] = {name: post.get(name, "") for name, _, _ in LIMIT_FIELDS}
    draft["limits"][CONFIRMED] = "1" if post.get(CONFIRMED) else ""
    return _with_blank_rows(draft)


def _prefilled(request: HttpRequest) -> dict[str, Any]:
    """Empty, on the workspace that was come from, or the task of an earlier run ("run again with changes")."""
    draft: dict[str, Any] = dict.fromkeys((*TEXTS, "project", "agent", "workspace"), "")
    draft |= {"criteria": [], "limits": dict.fromkeys((name for name, _, _ in LIMIT_FIELDS), "")}
    run = Run.objects.visible_to(request.user).filter(pk=_uuid(request.GET.get("from", ""))).with_names().first()
    if run is not None:
        draft |= _of_task(run.task)
    elif (row := _own_workspaces(request).filter(pk=_uuid(request.GET.get("workspace", ""))).first()) is not None:
        draft |= {"project": row.project_id, "workspace": str(row.pk)}
        draft["criteria"] = list(row.proposed_criteria)
    draft["idempotency_key"] = uuid.uuid4().hex  # a second press of the button submits nothing new
    return _with_blank_rows(draft)


def _of_task(task: Task) -> dict[str, Any]:
    limits = {name: str(task.limits.get(name, "")) for name, _, _ in LIMIT_FIELDS}
    if "max_cost_microusd" in task.limits:
        limits["max_cost_usd"] = f"{task.limits['max_cost_microusd'] / 1e6:g}"
    names = ("goal", "constraints_text", "complexity", "final_review", "execution_loop")
    return {
        **{name: getattr(task, name) for name in names},
        "project": task.project_id,
        "agent": task.agent_id,
        "workspace": str(task.workspace_id or ""),
        "criteria": [{"text": row.get("text", ""), "command": row.get("command", "")} for row in task.criteria],
        "limits": limits,
    }


def _with_blank_rows(draft: dict[str, Any]) -> dict[str, Any]:
    filled = [row for row in draft["criteria"] if row["text"] or row["command"]]
    draft["criteria"] = [*filled, *({"text": "", "command": ""} for _ in range(BLANK_ROWS))][: MAX_CRITERIA + 1]
    return draft


def _choices(request: HttpRequest, draft: dict[str, Any]) -> dict[str, Any]:
    projects = list(_own_projects(request))
    agents = list(Agent.objects.filter(project__in=projects, is_active=True).select_related("project", "actor_model"))
    agents.sort(key=lambda agent: agent.actor_model.is_scripted)  # what only plays a script is chosen on purpose
    if projects and not draft["project"]:
        able = {agent.project_id for agent in agents}
        draft["project"] = next((project.pk for project in projects if project.pk in able), projects[0].pk)
    mine = [agent for agent in agents if agent.project_id == draft["project"]]
    if not draft["agent"] and mine:
        draft["agent"] = mine[0].pk
    return {
        "projects": projects,
        "agents": agents,
        "workspaces": _own_workspaces(request),
        "complexities": Task.Complexity.choices,
        "loops": strategies.names(),
        "reviews": Policy.FinalReview.choices,
        "review_help": Policy._meta.get_field("final_review").help_text,
        "limit_fields": _limit_fields(request, draft),
        "max_goal": MAX_GOAL,
        **_preview(request, draft),
    }


def _limit_fields(request: HttpRequest, draft: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """(name, label, step, value, range) of every limit."""
    project = _own_projects(request).filter(pk=draft["project"]).first()
    allowed = ranges(request.user, project.pk) if project else {}
    return [(name, label, step, draft["limits"][name], allowed.get(name, "")) for name, label, step in LIMIT_FIELDS]


def _preview(request: HttpRequest, draft: dict[str, Any]) -> dict[str, Any]:
    stated = [row["text"] or row["command"] for row in draft["criteria"] if row["text"] or row["command"]]
    guess = estimate(draft["goal"][:MAX_GOAL], stated, draft["constraints_text"])
    level = draft["complexity"] or guess.level
    profile = ComplexityProfile.objects.filter(name=level).first()
    policy = Policy.objects.filter(project__in=_own_projects(request), project=draft["project"]).first()
    rules = policy.project.access_rules.filter(access="ask") if policy else []
    review = draft["final_review"] or (policy.final_review if policy else "")
    workspace = _about_workspace(request, draft)
    chosen = workspace.get("chosen")
    commands_of = policy or Policy(), chosen if policy and chosen and chosen.project_id == policy.project_id else None
    return {
        "level": level,
        "why": "stated by you" if draft["complexity"] else guess.explained,
        "profile": _bounds(profile, policy, draft["limits"]) if profile else [],
        "asks": list(rules),
        "policy": policy,
        "criterion_s": commands_of[0].commands_in(commands_of[1]).criterion_seconds,
        "commands": list(command_limits.lines(*commands_of)),
        "review": dict(Policy.FinalReview.choices).get(review, review),
        "warn_percent": round((policy or Policy()).warn_at * 100),
        "with_command": sum(bool(row["command"].strip()) for row in draft["criteria"]),
        "criteria_count": len(stated),
        **workspace,
        "unpriced": unpriced(models_of(agent)) if (agent := _agent(request, draft)) else [],
    }


def _about_workspace(request: HttpRequest, draft: dict[str, Any]) -> dict[str, Any]:
    """What would keep the run out of the folder, and from what its file states, as far as this machine can tell."""
    mine = _own_workspaces(request).select_related("project", "toml_by")
    chosen = mine.filter(pk=_uuid(draft["workspace"])).first()
    if chosen is None:
        return {}
    return {"chosen": chosen, "obstacle": copies.why_unusable(chosen), "toml": repository_files.unused(chosen)}


def _agent(request: HttpRequest, draft: dict[str, Any]) -> Agent | None:
    found: Agent | None = Agent.objects.filter(project__in=_own_projects(request), pk=draft["agent"]).first()
    return found


def _bounds(profile: ComplexityProfile, policy: Policy | None, limits: dict[str, str]) -> list[tuple[str, str, bool]]:
    """(label, value, overridden) of every limit, as the policy lets the profile's be."""
    amounts = policy_floor.amounts(profile)
    amounts = held(policy_floor.floor_of(policy.project_id), amounts) if policy else amounts
    values = {**amounts, "max_cost_usd": amounts["max_cost_microusd"] / MICRO}
    own = {name: value.strip() for name, value in limits.items()}
    return [(label, own[name] or f"{values[name]:,.12g}", bool(own[name])) for name, label, _ in LIMIT_FIELDS]


def _own_projects(request: HttpRequest) -> QuerySet[Any]:
    return Project.objects.visible_to(request.user, OPERATE)


def _own_workspaces(request: HttpRequest) -> QuerySet[Any]:
    return Workspace.objects.filter(project__in=_own_projects(request)).select_related("project")


def _fault_lines(faults: dict[str, str]) -> list[str]:
    """Faults that belong to no visible field of their own, in words."""
    known = {"goal", "project", "agent", "workspace", "constraints_text", "title"}
    return [f"{_label(field)} {message}" for field, message in faults.items() if field not in known]


def _label(field: str) -> str:
    if field.startswith("limits."):
        limit = field.removeprefix("limits.")
        labels = {name: label for name, label, _ in LIMIT_FIELDS} | {"max_cost_microusd": "Cost"}
        return labels.get(limit, limit if limit in LIMITS else "Limit")
    return called(field).replace("_", " ").capitalize()


def _uuid(text: str) -> uuid.UUID | None:
    try:
        return uuid.UUID(text)
    except ValueError:
        return None

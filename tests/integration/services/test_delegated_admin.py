"""Whatever an admin of one project may type reaches no host, no folder of the installation and no other team (S4, X7).

The fields are read from the forms that the admin pages build for such a person: a new one fails here until somebody
says what may stand in it.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group
from django.test import Client, RequestFactory
from django.urls import reverse

from agentops.urls import admin
from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.models import AccessRule, Agent, AuditEvent, ModelConfig, Policy, Workspace
from loops.services import people
from tests.integration.services.world import World

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S4", "X7")]
TEAM, FOLDER, GLOBS, CHOSEN, COUNTED = "team", "folder", "globs", "chosen", "counted"
WORDS, GLOBAL, LIMITS, HELD = "words", "global", "limits", "held"
"""A row of one's own team; a folder of the machine; globs in a workspace; one of a list; a number or a tick; text that
is only compared or shown; a row of the installation that everybody may use; amounts by the names of limits; what a
superuser alone fills in."""
FIELDS = {
    "loops.workspace": {
        "project": TEAM, "name": WORDS, "path": FOLDER, "copy_for_each_run": COUNTED,
        "git_ref": WORDS, "git_url": HELD, "git_token_env": HELD, "git_push_token_env": HELD,
        **dict.fromkeys(COMMAND_LIMITS, COUNTED),
    },
    "loops.policy": {
        **dict.fromkeys(("final_review", "expiry_outcome"), CHOSEN),
        **dict.fromkeys(("gate_expiry_minutes", "sla_minutes", "own_approval_allowed", "warn_at"), COUNTED),
        **dict.fromkeys(("calls_per_reply", "confidence_every_steps", "confidence_threshold"), COUNTED),
        "open_runs_per_person": COUNTED, "try_criteria": COUNTED, "task_limits": LIMITS,
        **dict.fromkeys(("criterion_seconds", "command_seconds", "command_memory_mib", "command_processes"), COUNTED),
        **dict.fromkeys(("workspace_mib", "workspace_files", "command_output_mib"), COUNTED),
        "reason": WORDS,
    },
    "loops.accessrule": {
        "project": TEAM, "paths": GLOBS, "access": CHOSEN,
        **dict.fromkeys(("agent_type", "tool", "operation", "note", "reason"), WORDS),
    },
    "loops.agent": {
        "project": TEAM, "execution_loop": CHOSEN, "program": CHOSEN, "is_active": COUNTED,
        **dict.fromkeys(("name", "agent_type", "instructions"), WORDS),
        **dict.fromkeys(("actor_model", "planner_model", "critic_model", "confidence_model"), GLOBAL),
        **dict.fromkeys(("summariser_model", "classifier_model"), GLOBAL),
    },
}  # fmt: skip
PLACES = [(label, name, kind) for label, fields in FIELDS.items() for name, kind in fields.items()]
STATE = "the state folder"
FOLDERS = [
    STATE, "/", "/etc", "/proc/self/root", "/root", "/usr/lib", "/var/lib", "/home", "/srv/other/../../etc", "relative",
    "~", "$HOME", "/srv/\u202etxt", "file:///etc", "//etc", "/srv/other team",
]  # fmt: skip
GLOBS_OUTSIDE = [
    '["../x"]',
    '["/etc/**"]',
    '["~/.ssh"]',
    '["a/../../b"]',
    '["a\\\\b"]',
    '["\\u0000"]',
    '"src"',
    "[[1]]",
]


@pytest.fixture
def chief(world: World) -> Client:
    people.ensure_groups()
    world.admin.groups.add(Group.objects.get(name="admin"))
    world.admin.is_staff = True
    world.admin.save()
    client = Client()
    client.force_login(world.admin)
    return client


def url(label: str, page: str, *args: Any) -> str:
    return reverse(f"admin:{label.replace('.', '_')}_{page}", args=args)


def sent(world: World, label: str, **more: Any) -> dict[str, Any]:
    """A form that would be saved, and what differs from it."""
    whole: dict[str, dict[str, Any]] = {
        "loops.workspace": {"name": "w", "path": "", "copy_for_each_run": "on"},
        "loops.accessrule": {
            "agent_type": "*", "tool": "*", "operation": "write", "access": "deny", "paths": "[]", "reason": "r"
        },
        "loops.agent": {
            "name": "a", "agent_type": "coder", "execution_loop": "react",
            "actor_model": ModelConfig.objects.first().pk, "is_active": "on",  # type: ignore[union-attr]
        },
    }  # fmt: skip
    return {"project": world.project.pk, **whole[label], **more}


def test_each_field_that_an_admin_of_a_project_may_fill_in_is_tried_here(world: World, chief: Client) -> None:
    request = RequestFactory().get("/")
    request.user = world.admin
    found: dict[str, set[str]] = {}
    for model, page in admin.site._registry.items():
        if page.has_add_permission(request) or page.has_change_permission(request):
            shown = None if page.has_add_permission(request) else model._default_manager.first()
            found[model._meta.label_lower] = set(page.get_form(request, shown, change=shown is not None)().fields)
    assert found == {label: set(fields) for label, fields in FIELDS.items()}


@pytest.mark.parametrize("label", ["loops.workspace", "loops.accessrule", "loops.agent"])
def test_control_the_same_form_is_saved(world: World, chief: Client, label: str) -> None:
    assert chief.post(url(label, "add"), sent(world, label)).status_code == 302


@pytest.mark.parametrize(("label", "name"), [(label, name) for label, name, kind in PLACES if kind == TEAM])
def test_nothing_is_made_for_another_team_and_who_tried_is_kept(
    world: World, chief: Client, label: str, name: str
) -> None:
    rows = {"loops.workspace": Workspace, "loops.accessrule": AccessRule, "loops.agent": Agent}[label].objects  # type: ignore[attr-defined]
    before = rows.count()
    answer = chief.post(url(label, "add"), sent(world, label, **{name: world.elsewhere.pk}))
    assert answer.status_code == 200
    assert "Select a valid choice" in answer.content.decode()
    assert rows.count() == before
    (kept,) = AuditEvent.objects.filter(kind="access.refused", actor=world.admin)
    assert kept.detail["fields"] == {name: str(world.elsewhere.pk)}


@pytest.mark.parametrize("path", FOLDERS)
@pytest.mark.parametrize(
    "copied", [{"copy_for_each_run": "on"}, {"allow": "on"}], ids=["copied", "by a superuser's tick"]
)
def test_no_folder_of_the_host_is_reached(world: World, chief: Client, path: str, copied: dict[str, str]) -> None:
    path = str(settings.PATHS.state) if path == STATE else path
    before = Workspace.objects.count()
    answer = chief.post(url("loops.workspace", "add"), sent(world, "loops.workspace", path=path, **copied))
    assert answer.status_code == 200
    assert Workspace.objects.count() == before
    assert AuditEvent.objects.filter(kind="workspace.refused", actor=world.admin).exists()


@pytest.mark.parametrize("paths", GLOBS_OUTSIDE)
def test_no_glob_leads_out(world: World, chief: Client, paths: str) -> None:
    before = AccessRule.objects.count()
    assert chief.post(url("loops.accessrule", "add"), sent(world, "loops.accessrule", paths=paths)).status_code == 200
    assert AccessRule.objects.count() == before


@pytest.mark.parametrize(("label", "name"), [(label, name) for label, name, kind in PLACES if kind == CHOSEN])
def test_what_is_chosen_from_a_list_is_one_of_it(world: World, chief: Client, label: str, name: str) -> None:
    """A loop by the name of another module would be code."""
    if label == "loops.policy":
        row = Policy.objects.get(project=world.project)
        shown = chief.get(url(label, "change", row.pk)).context["adminform"].form.initial
        form = {key: value for key, value in shown.items() if value is not None} | {"reason": "r", name: "os.system"}
        answer = chief.post(url(label, "change", row.pk), form)
    else:
        answer = chief.post(url(label, "add"), sent(world, label, **{name: "os.system"}))
    assert answer.status_code == 200
    assert "os.system is not one of" in answer.content.decode()


@pytest.mark.parametrize("name", [name for _, name, kind in PLACES if kind == HELD])
def test_what_a_superuser_alone_fills_in_is_not_taken_from_others(world: World, chief: Client, name: str) -> None:
    sending = sent(world, "loops.workspace", **{name: "https://127.0.0.1:1/x.git"})
    assert chief.post(url("loops.workspace", "add"), sending).status_code == 302
    assert getattr(Workspace.objects.latest("pk"), name) == ""


@pytest.mark.parametrize(("label", "name"), [(label, name) for label, name, kind in PLACES if kind == WORDS])
def test_text_with_a_nul_is_refused_with_a_sentence(world: World, chief: Client, label: str, name: str) -> None:
    if label == "loops.policy":
        row = Policy.objects.get(project=world.project)
        answer = chief.post(url(label, "change", row.pk), {name: "a\0b"})
    else:
        answer = chief.post(url(label, "add"), sent(world, label, **{name: "a\0b"}))
    assert answer.status_code == 200
    assert "Null characters are not allowed" in answer.content.decode()


@pytest.mark.parametrize(
    "limits", ['{"max_steps": 1000000000000}', '{"nothing": 1}', '{"max_steps": -1}', "[]", '"x"', "7"]
)
def test_no_range_is_wider_than_what_is_possible_at_all(world: World, chief: Client, limits: str) -> None:
    row = Policy.objects.get(project=world.project)
    shown = chief.get(url("loops.policy", "change", row.pk)).context["adminform"].form.initial
    form = {key: value for key, value in shown.items() if value is not None} | {"reason": "r", "task_limits": limits}
    chief.post(url("loops.policy", "change", row.pk), form)
    row.refresh_from_db()
    assert row.task_limits == {}


def test_a_cell_of_a_list_is_of_ones_own_rules_alone(world: World, chief: Client) -> None:
    theirs = AccessRule.objects.filter(project=world.elsewhere).first()
    mine = AccessRule.objects.filter(project=world.project).first()
    assert theirs is not None
    assert mine is not None
    form = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "_save": "Save"}
    chief.post(url("loops.accessrule", "changelist"), {**form, "form-0-id": theirs.pk, "form-0-access": "allow"})
    before = theirs.access
    theirs.refresh_from_db()
    assert theirs.access == before


@pytest.mark.parametrize(
    "label", ["loops.modelconfig", "loops.complexityprofile", "loops.breakerrule", "loops.project"]
)
def test_what_holds_for_all_is_not_typed_by_them(world: World, chief: Client, label: str) -> None:
    assert chief.post(url(label, "add"), {"name": "x"}).status_code == 403

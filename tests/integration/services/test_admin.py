"""Admin pages: they load, they version what they change, and history cannot be changed with them."""

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from agentops.urls import admin
from loops.models import (
    AccessRule,
    Agent,
    AuditEvent,
    ComplexityProfile,
    Membership,
    ModelConfig,
    Policy,
    PolicyVersion,
    Project,
)
from loops.services import audit, people, policies
from loops.services.tasks import run_spec

PAGES = sorted(model._meta.label_lower for model in admin.site._registry if model._meta.app_label == "loops")
HISTORY = ("auditevent", "policyversion", "provenancerecord", "run", "task")


def url(model, page, *args):
    return reverse(f"admin:loops_{model}_{page}", args=args)


@pytest.fixture
def root(world, client):
    client.force_login(world.root)
    return client


@pytest.fixture
def project_admin(world, client):
    """Staff who administer one project, and are no superuser."""
    people.ensure_groups()
    world.admin.groups.add(Group.objects.get(name="admin"))
    world.admin.is_staff = True
    world.admin.save()
    client.force_login(world.admin)
    return client


@pytest.mark.spec("S1")
@pytest.mark.parametrize("label", PAGES)
def test_every_list_and_form_loads(world, root, label):
    world.run()
    model = label.split(".")[1]
    assert root.get(url(model, "changelist")).status_code == 200
    row = admin.site._registry[next(m for m in admin.site._registry if m._meta.label_lower == label)].model.objects
    if first := row.first():
        assert root.get(url(model, "change", first.pk)).status_code == 200
    assert root.get(url(model, "add")).status_code in (200, 403)


@pytest.mark.spec("N1", "S1")
@pytest.mark.parametrize("model", HISTORY)
def test_history_offers_no_change(world, root, model):
    world.run()
    row = next(m for m in admin.site._registry if m._meta.label_lower == f"loops.{model}").objects.first()
    assert root.get(url(model, "add")).status_code == 403
    if row is not None:
        assert root.post(url(model, "change", row.pk), {}).status_code == 403
        assert root.post(url(model, "delete", row.pk), {"post": "yes"}).status_code == 403
    assert "delete_selected" not in root.get(url(model, "changelist")).content.decode()


def policy_form(root, policy, **change):
    """What the page sends when nothing but ``change`` was typed."""
    shown = root.get(url("policy", "change", policy.pk)).context["adminform"].form.initial
    return {**{name: value for name, value in shown.items() if value is not None}, **change}


@pytest.mark.spec("S1")
def test_saving_a_policy_makes_a_version_with_who_and_why(world, root):
    policy = Policy.objects.get(project=world.project)
    before = policies.current_version(world.project)
    form = policy_form(root, policy, final_review="always", reason="Two wrong invoices in May")
    assert root.post(url("policy", "change", policy.pk), form).status_code == 302
    version = PolicyVersion.objects.filter(project=world.project).first()
    assert (version.reason, version.created_by) == ("Two wrong invoices in May", world.root)
    assert policies.current_version(world.project) != before
    assert AuditEvent.objects.filter(kind="policy.changed", detail__changed=["policy.final_review"]).count() == 1


@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    "change",
    [
        {"reason": ""},
        {"reason": "r", "warn_at": "7"},
        {"reason": "r", "gate_expiry_minutes": "5"},
        {"reason": "r", "calls_per_reply": "0"},
    ],
)
def test_a_policy_without_reason_or_sense_is_not_saved(world, root, change):
    policy = Policy.objects.get(project=world.project)
    before = PolicyVersion.objects.count()
    assert root.post(url("policy", "change", policy.pk), policy_form(root, policy, **change)).status_code == 200
    assert PolicyVersion.objects.count() == before


@pytest.mark.spec("I3", "S1")
def test_cells_of_the_matrix_are_edited_in_the_list_as_one_version(world, root):
    rules = list(AccessRule.objects.filter(project=world.project))
    before = PolicyVersion.objects.filter(project=world.project).count()
    form = {"form-TOTAL_FORMS": len(rules), "form-INITIAL_FORMS": len(rules), "_save": "Save"}
    for index, rule in enumerate(rules):
        form |= {f"form-{index}-id": rule.pk, f"form-{index}-access": "deny"}
    listing = url("accessrule", "changelist") + f"?project__id__exact={world.project.pk}"
    assert root.post(listing, form).status_code == 302
    assert {rule.access for rule in policies.access_rules(world.project)} == {"deny"}
    assert PolicyVersion.objects.filter(project=world.project).count() == before + 1


@pytest.mark.spec("I3")
@pytest.mark.parametrize(("names", "saved"), [({}, False), ({"tool": "pay*"}, True), ({"operation": "read"}, True)])
def test_what_is_allowed_is_named(world, root, names, saved):
    form = {"project": world.project.pk, "agent_type": "*", "tool": "*", "operation": "*", "access": "allow"}
    root.post(url("accessrule", "add"), {**form, **names, "paths": "[]", "reason": "r"})
    assert AccessRule.objects.filter(project=world.project).count() == len(policies.DEFAULT_MATRIX) + saved


@pytest.mark.spec("I3", "S1")
def test_deleting_a_rule_makes_a_version(world, root):
    rule = AccessRule.objects.filter(project=world.project).first()
    before = policies.current_version(world.project)
    root.post(url("accessrule", "delete", rule.pk), {"post": "yes"})
    newest = PolicyVersion.objects.filter(project=world.project).first()
    assert policies.current_version(world.project) != before
    assert newest.reason.startswith("Deleted")


@pytest.mark.parametrize("paths", ['["../secret"]', '["/etc"]', '"src"', "[1]", '{"a": 1}'])
def test_a_rule_names_only_paths_inside_the_workspace(world, root, paths):
    form = {"project": world.project.pk, "agent_type": "*", "tool": "*", "operation": "write", "access": "deny"}
    assert root.post(url("accessrule", "add"), {**form, "paths": paths, "reason": "r"}).status_code == 200
    assert AccessRule.objects.filter(project=world.project).count() == len(policies.DEFAULT_MATRIX)


@pytest.mark.spec("S3")
def test_a_pasted_key_is_refused(root):
    form = {"name": "x", "provider": "anthropic", "model_id": "m", "max_tokens": 10, "thinking": "off"}
    form |= {"timeout_s": 10, "pace": 0, "api_key_env": "sk-ant-very-secret"}
    answer = root.post(url("modelconfig", "add"), form)
    assert "not the key" in answer.content.decode()
    assert not ModelConfig.objects.filter(name="x").exists()


@pytest.mark.spec("D2", "S1")
def test_a_profile_changes_every_project(world, root):
    profile = ComplexityProfile.objects.get(name="simple")
    names = [field.name for field in ComplexityProfile._meta.fields if field.editable]
    changed = {"max_steps": 9, "max_backtracks": 2, "confirm_after": 7}
    form = {name: getattr(profile, name) for name in names} | changed | {"reason": "Cheaper"}
    assert root.post(url("complexityprofile", "change", profile.pk), form).status_code == 302
    newest = [PolicyVersion.objects.filter(project=project).first().reason for project in Project.objects.all()]
    assert newest == ["Cheaper", "Cheaper"]
    run = world.submit(complexity="simple").run
    assert run.max_steps == 9
    limits = run_spec(run)["limits"]
    assert {name: limits[name] for name in changed} == changed


@pytest.mark.spec("N2")
def test_a_new_project_is_born_with_a_policy_and_is_on_record(root):
    members = {"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    root.post(url("project", "add"), {"name": "New", "slug": "new", **members})
    assert Policy.objects.filter(project__slug="new").exists()
    event = AuditEvent.objects.get(kind="project.created")
    assert (event.project.slug, event.detail) == ("new", {"name": "New", "slug": "new"})
    assert event.actor.is_superuser
    root.post(url("project", "change", event.project.pk), {"name": "Newer", "slug": "new", **members})
    assert AuditEvent.objects.filter(kind="project.created").count() == 1


@pytest.mark.spec("S4")
def test_a_project_admin_sees_and_changes_only_that_project(world, project_admin):
    mine = Policy.objects.get(project=world.project)
    theirs = Policy.objects.get(project=world.elsewhere)
    foreign = Agent.objects.get(project=world.elsewhere)
    assert project_admin.get(url("policy", "change", mine.pk)).status_code == 200
    assert project_admin.get(url("policy", "change", theirs.pk)).status_code == 302
    assert world.elsewhere.name not in project_admin.get(url("accessrule", "add")).content.decode()
    assert foreign.name not in project_admin.get(url("agent", "changelist")).content.decode()


@pytest.mark.spec("S4")
@pytest.mark.parametrize("who", ["operator", "reviewer", "viewer", "outsider"])
def test_others_do_not_enter(world, client, who):
    client.force_login(getattr(world, who))
    assert client.get(url("policy", "changelist")).status_code == 302


PERSON = "admin:auth_user_change"


def roles_form(client, person, *, existing=(), **change):
    """What the form of a person sends: all as shown, and ``change`` in the rows of roles."""
    page = client.get(reverse(PERSON, args=[person.pk]))
    shown = page.context["adminform"].form.initial
    fields = ("username", "first_name", "last_name", "email", "is_active", "is_staff", "is_superuser")
    form = {name: shown[name] for name in fields if shown[name]}
    form |= {"date_joined_0": str(timezone.localdate()), "date_joined_1": "10:00:00"}
    return {**form, "memberships-TOTAL_FORMS": 1, "memberships-INITIAL_FORMS": len(existing), **change}


@pytest.mark.spec("S4", "N1")
def test_roles_are_given_and_taken_on_the_form_of_a_person(world, root):
    person = User.objects.create_user("nia")
    row = {"memberships-0-project": world.project.pk, "memberships-0-role": "reviewer"}
    form = roles_form(root, person, **row)
    assert root.post(reverse(PERSON, args=[person.pk]), form).status_code == 302
    given = Membership.objects.get(user=person)
    assert (given.project, given.role) == (world.project, "reviewer")
    taken = {**row, "memberships-0-id": given.pk, "memberships-0-user": person.pk, "memberships-0-DELETE": "on"}
    form = roles_form(root, person, existing=[given], **taken)
    assert root.post(reverse(PERSON, args=[person.pk]), form).status_code == 302
    assert not Membership.objects.filter(user=person).exists()
    kept = AuditEvent.objects.filter(kind="members.changed", project=world.project).order_by("pk")
    assert [event.detail for event in kept] == [{"added": ["nia: reviewer"]}, {"removed": ["nia: reviewer"]}]


@pytest.mark.spec("N1")
def test_a_role_moved_to_another_project_is_in_the_audit_log_of_both(world, root):
    person, elsewhere = User.objects.create_user("nia"), world.elsewhere
    given = Membership.objects.create(user=person, project=world.project, role="viewer")
    moved = {"memberships-0-id": given.pk, "memberships-0-user": person.pk, "memberships-0-role": "viewer"}
    form = roles_form(root, person, existing=[given], **moved, **{"memberships-0-project": elsewhere.pk})
    assert root.post(reverse(PERSON, args=[person.pk]), form).status_code == 302
    kept = AuditEvent.objects.filter(kind="members.changed")
    assert {event.project: event.detail for event in kept} == {
        world.project: {"removed": ["nia"]},
        elsewhere: {"added": ["nia: viewer"]},
    }


@pytest.mark.spec("S4")
def test_a_project_admin_gives_no_roles_elsewhere(world, project_admin):
    """Who may change people, and administers one project, neither sees nor gives roles in another."""
    world.admin.user_permissions.add(*Permission.objects.filter(codename__in=["change_user", "view_user"]))
    person, elsewhere = User.objects.create_user("nia"), world.elsewhere
    theirs = Membership.objects.create(user=person, project=elsewhere, role="viewer")
    assert str(theirs.pk) not in project_admin.get(reverse(PERSON, args=[person.pk])).content.decode()
    row = {"memberships-0-project": elsewhere.pk, "memberships-0-role": "admin"}
    form = roles_form(project_admin, person, **row)
    assert project_admin.post(reverse(PERSON, args=[person.pk]), form).status_code == 200
    own = {**form, "memberships-0-project": world.project.pk, "memberships-0-role": "viewer"}
    assert project_admin.post(reverse(PERSON, args=[person.pk]), own).status_code == 302
    held = Membership.objects.filter(user=person).values_list("project", "role")
    assert set(held) == {(elsewhere.pk, "viewer"), (world.project.pk, "viewer")}


def test_roles_come_after_the_person(root):
    assert "memberships-TOTAL_FORMS" not in root.get(reverse("admin:auth_user_add")).content.decode()


@pytest.mark.spec("S3")
def test_tokens_are_not_listed(root):
    assert root.get("/admin/authtoken/tokenproxy/").status_code == 404


def test_group_admin_may_tune_and_not_rewrite(db):
    people.ensure_groups()
    names = set(Permission.objects.filter(group__name="admin").values_list("codename", flat=True))
    assert "change_policy" in names
    assert not names & {"delete_run", "change_auditevent", "delete_auditevent", "change_policyversion", "change_user"}


@pytest.mark.spec("N2")
def test_the_audit_log_says_in_words_what_happened(world, root):
    """Its filter names every kind without reading the log, which grows for ever."""
    audit.record("gate.taken_back", actor=world.root, project=world.project)
    with CaptureQueriesContext(connection) as asked:
        page = root.get(url("auditevent", "changelist"), {"kind__exact": "gate.taken_back"}).content.decode()
    row = page.partition("<tbody")[2].partition("</tbody>")[0]
    assert "Approval taken back" in row
    assert "gate.taken_back" in row
    assert "Policy changed" in page
    assert not [one["sql"] for one in asked if 'DISTINCT "loops_auditevent"."kind"' in one["sql"]]

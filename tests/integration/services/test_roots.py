"""Where a workspace may lie: what a project admin types reaches neither the host nor the installation (SPEC I7, S4)."""

from __future__ import annotations

import os
import stat
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as installation
from django.contrib.auth.models import Group
from django.test import Client
from django.utils import timezone

from agentops.ops import checks
from gates.models import Gate
from loops.models import AuditEvent, Fact, Policy, Run, ToolCallRecord, Workspace
from loops.runs.composition import rejudge
from loops.runs.drive import drive
from loops.services import forks, models, people, preflight
from loops.services.steering import NotPossible
from loops.services.submission import InvalidTask
from loops.workspaces import access, copies, folder_copy
from tests.decisions import decide
from tests.integration.services.world import World

pytestmark = pytest.mark.spec("I7")
ADD = "/admin/loops/workspace/add/"


@pytest.fixture
def place(tmp_path: Path, settings: Any) -> Path:
    """A folder of the host that no root covers."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.WORKSPACE_ROOTS = [str(tmp_path / "roots")]
    for name in ("roots/shop", "roots/other", "outside/home"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "outside/home/secret").write_text("not yours")
    return tmp_path


@pytest.fixture
def admins(world: World) -> Client:
    """The browser of somebody who administers one project, and is no superuser."""
    people.ensure_groups()
    world.admin.groups.add(Group.objects.get(name="admin"))
    world.admin.is_staff = True
    world.admin.save()
    return logged_in(world.admin)


def logged_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def form(world: World, path: Path | str, **more: Any) -> dict[str, Any]:
    return {"project": world.project.pk, "name": "W", "path": str(path), **more}


def of_the_host(place: Path) -> dict[str, str]:
    """What whoever wants the host types, by what it is."""
    state, code = installation.PATHS.state, installation.BASE_DIR
    (place / "roots/link").symlink_to(place / "outside")
    (place / "roots/.ssh").mkdir()
    return {
        "the state folder": str(state),
        "in the state folder": str(state / "postgres"),
        "above the state folder": str(state.parent),
        "the folders of runs": str(place / "runs"),
        "a run of another team": str(place / "runs/0190a000"),
        "the code": str(code),
        "in the code": str(code / "agentops"),
        "everything": "/",
        "a folder of the system": "/etc",
        "in a folder of the system": "/etc/ssh",
        "programs": "/usr/local/bin",
        "processes": "/proc/self/root",
        "all homes": "/home",
        "the home of root": "/root",
        "outside": str(place / "outside/home"),
        "out by dots": str(place / "roots/shop/../../outside/home"),
        "out by a link": str(place / "roots/link/home"),
        "a link": str(place / "roots/link"),
        "the root itself": str(place / "roots"),
        "a hidden folder": str(place / "roots/.ssh"),
        "like a root": str(place / "roots-2"),
        "relative": "roots/shop",
        "two slashes": f"/{place}/outside/home",
        "unprintable": f"{place}/roots/a\nb",
    }


KINDS = (
    "the state folder",
    "in the state folder",
    "above the state folder",
    "the folders of runs",
    "a run of another team",
    "the code",
    "in the code",
    "everything",
    "a folder of the system",
    "in a folder of the system",
    "programs",
    "processes",
    "all homes",
    "the home of root",
    "outside",
    "out by dots",
    "out by a link",
    "a link",
    "the root itself",
    "a hidden folder",
    "like a root",
    "relative",
    "two slashes",
    "unprintable",
)
NOBODYS = KINDS[:14]
"""Not even a superuser makes these a workspace."""


@pytest.mark.spec("I7", "S4")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("in_place", [False, True])
def test_what_a_project_admin_types_reaches_no_folder_of_the_host(
    world: World, admins: Client, place: Path, kind: str, in_place: bool
) -> None:
    path = of_the_host(place)[kind]
    answer = admins.post(ADD, form(world, path, **{} if in_place else {"copy_for_each_run": "on"}, allow="on"))
    assert answer.status_code == 200, "the form is shown again"
    assert answer.context["adminform"].form.errors["path"]
    assert not Workspace.objects.filter(name="W").exists()
    row = AuditEvent.objects.get(kind="workspace.refused")
    assert (row.actor, row.project) == (world.admin, world.project)
    assert row.detail["path"] == path.replace("//", "/")


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_that_came_by_another_door_opens_nothing(world: World, place: Path, kind: str) -> None:
    """As an upgrade or a restore brings it: refused where a task names it, and where a worker would use it."""
    path = of_the_host(place)[kind]
    old = Workspace.objects.create(project=world.project, name="Old", path=path, copy_for_each_run=False)
    with pytest.raises(InvalidTask) as refused:
        world.submit(workspace=old)
    assert refused.value.errors["workspace"]
    assert not Run.objects.exists()
    assert AuditEvent.objects.filter(kind="workspace.refused", detail__path=path).count() == 1
    for copied in (True, False):
        Workspace.objects.update(copy_for_each_run=copied, path="")
        old.refresh_from_db()
        run = world.submit(workspace=old, idempotency_key=str(copied)).run
        Workspace.objects.update(path=path)
        with pytest.raises((folder_copy.WorkspaceElsewhere, folder_copy.WorkspaceUnusable)):
            copies.prepare(Run.objects.get(pk=run.pk))
        assert Run.objects.get(pk=run.pk).workspace_path == ""


def test_below_a_root_a_project_admin_needs_nobody(world: World, admins: Client, place: Path) -> None:
    assert admins.post(ADD, form(world, f"{place}/roots/shop/")).status_code == 302
    made = Workspace.objects.get(name="W")
    assert made.path == str(place / "roots/shop"), "spelt in one way"
    assert copies.prepare(world.submit(workspace=made).run) == str(place / "roots/shop")
    assert not AuditEvent.objects.filter(kind="workspace.refused").exists()


@pytest.mark.spec("S4")
def test_a_root_for_each_project_keeps_the_others_out(world: World, admins: Client, place: Path, settings: Any) -> None:
    settings.WORKSPACE_ROOTS = [f"{place}/roots/{{project}}"]
    mine = place / "roots" / world.project.slug / "shop"
    mine.mkdir(parents=True)
    assert admins.post(ADD, form(world, place / "roots/other")).status_code == 200
    assert admins.post(ADD, form(world, mine)).status_code == 302


@pytest.mark.spec("S4")
@pytest.mark.parametrize("theirs", ["shop", "shop/inner", "."])
def test_a_folder_of_another_team_is_not_shared_by_an_admin_alone(
    world: World, admins: Client, place: Path, theirs: str
) -> None:
    (place / "roots/shop/inner").mkdir()
    path = os.path.normpath(place / "roots" / theirs)
    Workspace.objects.create(project=world.elsewhere, name="Theirs", path=path)
    answer = admins.post(ADD, form(world, place / "roots/shop"))
    assert answer.status_code == 200
    said = answer.context["adminform"].form.errors["path"][0]
    assert "superuser" in said
    assert "Theirs" not in said


@pytest.mark.spec("I7")
@pytest.mark.parametrize(
    ("other", "stands"), [("shop/inner", True), (".", True), ("shop/inner", False), ("home", True), ("relative", True)]
)
def test_two_folders_in_place_do_not_lie_in_each_other(
    world: World, admins: Client, place: Path, other: str, stands: bool
) -> None:
    """A copy of one of them, and a folder beside it, are ordinary. Rows from before may have a path from nowhere."""
    (place / "roots/shop/inner").mkdir()
    path = other if other == "relative" else os.path.normpath(place / "roots" / other)
    Workspace.objects.create(project=world.project, name="Other", path=path, copy_for_each_run=not stands)
    answer = admins.post(ADD, form(world, place / "roots/shop"))
    if stands and other not in {"home", "relative"}:
        assert answer.status_code == 200
        assert "lie in each other" in answer.context["adminform"].form.errors["path"][0]
        return
    assert answer.status_code == 302
    made = Workspace.objects.get(name="W")
    changed = form(world, made.path, name="Renamed")
    assert admins.post(f"/admin/loops/workspace/{made.pk}/change/", changed).status_code == 302, "beside itself"


@pytest.mark.parametrize("in_place", [False, True])
def test_a_superuser_allows_a_folder_by_saying_so_and_it_is_recorded(world: World, place: Path, in_place: bool) -> None:
    root, path = logged_in(world.root), place / "outside/home"
    more = {} if in_place else {"copy_for_each_run": "on"}
    assert root.post(ADD, form(world, path, **more)).status_code == 200, "silence allows nothing"
    assert root.post(ADD, form(world, path, **more, allow="on")).status_code == 302
    made = Workspace.objects.get(name="W")
    assert (made.allowed_by, made.allowed_path) == (world.root, str(path))
    assert made.allowed_in_place is in_place
    row = AuditEvent.objects.get(kind="workspace.allowed")
    assert (row.actor, row.detail["path"], row.detail["in_place"]) == (world.root, str(path), in_place)
    assert Path(copies.prepare(world.submit(workspace=made).run), "secret").read_text() == "not yours"


@pytest.mark.parametrize("kind", NOBODYS)
def test_not_even_a_superuser_gives_the_installation_to_agents(world: World, place: Path, kind: str) -> None:
    path = of_the_host(place)[kind]
    assert logged_in(world.root).post(ADD, form(world, path, allow="on")).status_code == 200
    assert not Workspace.objects.filter(name="W").exists()
    Workspace.objects.create(
        project=world.project, name="Forged", path=path, allowed_path=path, allowed_in_place=True, allowed_by=world.root
    )
    with pytest.raises(InvalidTask):
        world.submit(workspace=Workspace.objects.get(name="Forged"))


@pytest.mark.parametrize("change", [{"path": "outside"}, {"copy_for_each_run": None}])
def test_what_a_superuser_allowed_is_that_folder_in_that_use(
    world: World, admins: Client, place: Path, change: dict[str, Any]
) -> None:
    path = place / "outside/home"
    logged_in(world.root).post(ADD, form(world, path, copy_for_each_run="on", allow="on"))
    made = Workspace.objects.get(name="W")
    page = f"/admin/loops/workspace/{made.pk}/change/"
    assert admins.post(page, form(world, path, copy_for_each_run="on", name="Renamed")).status_code == 302
    sent = form(world, path, copy_for_each_run="on") | change
    sent["path"] = str(place / "outside") if "path" in change else sent["path"]
    answer = admins.post(page, {name: value for name, value in sent.items() if value is not None})
    assert answer.status_code == 200
    made.refresh_from_db()
    assert (made.name, made.path, made.copy_for_each_run) == ("Renamed", str(path), True)


def test_nobody_is_told_where_a_link_of_the_host_leads(world: World, admins: Client, place: Path) -> None:
    (place / "roots/link").symlink_to(place / "outside/home")
    for browser in (admins, logged_in(world.root)):
        said = browser.post(ADD, form(world, place / "roots/link", copy_for_each_run="on")).content.decode()
        assert "is a link" in said
        assert str(place / "outside/home") not in said


def test_a_folder_that_becomes_a_link_is_not_followed(world: World, place: Path) -> None:
    shop = Workspace.objects.create(project=world.project, name="Shop", path=str(place / "roots/shop"))
    copied, in_place = world.submit(workspace=shop).run, world.submit(workspace=shop).run
    (place / "roots/shop").rmdir()
    (place / "roots/shop").symlink_to(place / "outside/home")
    with pytest.raises(folder_copy.WorkspaceElsewhere, match="is a link"):
        copies.prepare(Run.objects.get(pk=copied.pk))
    Workspace.objects.update(copy_for_each_run=False)
    with pytest.raises(folder_copy.WorkspaceElsewhere, match="is a link"):
        copies.prepare(Run.objects.get(pk=in_place.pk))


def test_a_root_that_becomes_a_link_is_not_followed(world: World, place: Path) -> None:
    shop = Workspace.objects.create(project=world.project, name="Shop", path=str(place / "roots/home"))
    (place / "roots").rename(place / "moved")
    (place / "roots").symlink_to(place / "outside")
    with pytest.raises(InvalidTask, match="is a link"):
        world.submit(workspace=shop)


# --- an upgrade, and runs that are open -------------------------------------------------------------------------------


def test_doctor_names_folders_that_lie_in_each_other(world: World, place: Path) -> None:
    """From before that was refused."""
    (place / "roots/shop/inner").mkdir()
    for name in ("shop", "shop/inner"):
        path = str(place / "roots" / name)
        Workspace.objects.create(project=world.project, name=name, path=path, copy_for_each_run=False)
    found = {check.name: check for check in checks.standing()}["workspaces"]
    assert (found.status, found.said) == ("warning", "Workspaces that lie in each other: 2")
    assert "copies" in found.todo
    Workspace.objects.create(project=world.project, name="relative", path="shop", copy_for_each_run=False)
    found = {check.name: check for check in checks.standing()}["workspaces"]
    assert found.said == "Workspaces refused: 1; Workspaces that lie in each other: 2", "each hides no other"
    assert all(found.detail.count(f"{name} in ") == 1 for name in ("relative", "shop", "shop/inner")), "and none twice"
    assert "superuser" in found.todo
    assert "copies" in found.todo
    Workspace.objects.filter(name="relative").delete()
    assert "lie in each other" in access.allow(world.root, Workspace.objects.get(name="shop"))
    Workspace.objects.filter(name="shop").update(copy_for_each_run=True)
    assert {check.name: check for check in checks.standing()}["workspaces"].status == "ok"


def test_doctor_lists_what_an_upgrade_refuses_and_says_who_can_allow_it(world: World, place: Path) -> None:
    old = Workspace.objects.create(project=world.project, name="Old", path=str(place / "outside/home"))
    found = {check.name: check for check in checks.standing()}["workspaces"]
    assert found.status == "warning"
    assert "Old" in found.detail
    assert "Old" not in found.said, "the System page is for every team"
    assert "superuser" in found.todo
    page = logged_in(world.root).get("/admin/loops/workspace/").content.decode()
    assert "Refused" in page
    answer = logged_in(world.root).post(
        "/admin/loops/workspace/", {"action": "allow_folders", "_selected_action": [old.pk]}, follow=True
    )
    assert "allowed" in answer.content.decode()
    assert {check.name: check for check in checks.standing()}["workspaces"].status == "ok"
    assert world.submit(workspace=Workspace.objects.get(pk=old.pk)).created


def test_only_superusers_are_offered_to_allow(world: World, admins: Client, place: Path) -> None:
    old = Workspace.objects.create(project=world.project, name="Old", path=str(place / "outside/home"))
    assert "allow_folders" not in admins.get("/admin/loops/workspace/").content.decode()
    admins.post("/admin/loops/workspace/", {"action": "allow_folders", "_selected_action": [old.pk]})
    old.refresh_from_db()
    assert old.allowed_by is None


@pytest.mark.spec("J4")
def test_a_run_that_is_refused_its_folder_waits_and_goes_on_when_somebody_allows_it(world: World, place: Path) -> None:
    shop = Workspace.objects.create(project=world.project, name="Shop", path=str(place / "roots/shop"))
    run = world.submit(workspace=shop).run
    Workspace.objects.update(path=str(place / "outside/home"))
    assert drive(run.pk, "one") == "folder"
    run.refresh_from_db()
    assert run.status == "waiting_for_resource"
    assert "superuser" in run.waiting_on
    assert not Fact.objects.filter(run=run).exists()
    refused = AuditEvent.objects.filter(kind="workspace.refused", run=run)
    assert refused.count() == 1
    with pytest.raises(folder_copy.WorkspaceElsewhere):
        copies.prepare(Run.objects.get(pk=run.pk))
    assert refused.count() == 1, "said once"
    page = f"/admin/loops/workspace/{shop.pk}/change/"
    sent = form(world, place / "outside/home", copy_for_each_run="on", allow="on")
    assert logged_in(world.root).post(page, sent).status_code == 302
    assert Path(copies.prepare(Run.objects.get(pk=run.pk)), "secret").exists()


@pytest.mark.spec("I7", "J4")
def test_a_run_that_has_begun_waits_before_it_acts(world: World, place: Path) -> None:
    """In place: its folder is judged before each effect, and by each tool call too."""
    world.agent.actor_model = models.ensure_script("asks_a_question", pace=0)
    world.agent.save()
    shop = Workspace.objects.create(
        project=world.project, name="Shop", path=str(place / "roots/shop"), copy_for_each_run=False
    )
    Policy.objects.filter(project=world.project).update(final_review="never")
    run = world.submit(workspace=shop).run
    drive(run.pk, "one")
    gate = Gate.objects.get(run=run, status="open")
    (place / "roots/shop").rename(place / "moved")
    (place / "roots/shop").symlink_to(place / "outside/home")
    decide(actor=world.operator, gate_id=gate.pk, verdict="respond", digest=gate.digest, payload={"answer": "Yes"})
    assert drive(run.pk, "two") == "folder"
    run.refresh_from_db()
    assert run.status == "waiting_for_resource"
    assert "is a link" in run.waiting_on
    assert sorted(path.name for path in (place / "outside/home").iterdir()) == ["secret"]
    assert rejudge(run.pk, *call_of(run)).access.value == "deny"
    (place / "roots/shop").unlink()
    (place / "moved").rename(place / "roots/shop")
    Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() - timedelta(seconds=1), lease_until=None)
    assert drive(run.pk, "three") == "ended"


@pytest.fixture
def nested(world: World, place: Path) -> tuple[Workspace, Workspace]:
    """Two rows that lie in each other, from before that was refused, or by a door of nobody: an outer and an inner."""
    (place / "roots/shop/inner").mkdir()
    outer, inner = (
        Workspace.objects.create(
            project=world.project, name=name, path=str(place / "roots" / path), copy_for_each_run=False
        )
        for name, path in (("Outer", "shop"), ("Inner", "shop/inner"))
    )
    return outer, inner


def test_no_run_begins_in_folders_that_lie_in_each_other(world: World, nested: tuple[Workspace, Workspace]) -> None:
    outer, inner = nested
    for one, other in ((outer, inner), (inner, outer)):
        with pytest.raises(InvalidTask, match=f"{one.name} and {other.name} lie in each other.* copies, in Admin"):
            world.submit(workspace=one)
        tried = {"criteria": [{"text": "It holds", "command": "true"}], "workspace": one, "agent": world.agent}
        with pytest.raises(NotPossible, match="lie in each other"):
            preflight.ask(actor=world.operator, project=world.project, **tried)
    Workspace.objects.filter(pk=inner.pk).update(copy_for_each_run=True)
    first, second = (world.submit(workspace=Workspace.objects.get(pk=one.pk)).run for one in nested)
    assert (copies.prepare(first), copies.where(first).own) == (outer.path, False)
    assert copies.prepare(second) != inner.path, "a copy is nobody's folder but its own"


def test_a_run_that_was_queued_waits_while_they_lie_in_each_other(
    world: World, nested: tuple[Workspace, Workspace]
) -> None:
    outer, inner = nested
    Workspace.objects.filter(pk=outer.pk).update(copy_for_each_run=True)
    run = world.submit(workspace=Workspace.objects.get(pk=inner.pk)).run
    Workspace.objects.filter(pk=outer.pk).update(copy_for_each_run=False)
    with pytest.raises(folder_copy.WorkspaceElsewhere, match="Inner and Outer lie in each other"):
        copies.prepare(Run.objects.get(pk=run.pk))


@pytest.mark.spec("I7", "J4")
@pytest.mark.parametrize(("at", "other"), [(0, 1), (1, 0)], ids=["the outer one", "the inner one"])
def test_a_run_that_has_begun_waits_while_they_lie_in_each_other(
    world: World, place: Path, nested: tuple[Workspace, Workspace], at: int, other: int
) -> None:
    world.agent.actor_model = models.ensure_script("asks_a_question", pace=0)
    world.agent.save()
    Policy.objects.filter(project=world.project).update(final_review="never")
    theirs = Workspace.objects.filter(pk=nested[other].pk)
    theirs.update(copy_for_each_run=True)
    run = world.submit(workspace=Workspace.objects.get(pk=nested[at].pk)).run
    drive(run.pk, "one")
    gate = Gate.objects.get(run=run, status="open")
    theirs.update(copy_for_each_run=False)
    decide(actor=world.operator, gate_id=gate.pk, verdict="respond", digest=gate.digest, payload={"answer": "Yes"})
    assert drive(run.pk, "two") == "folder"
    run.refresh_from_db()
    said = f"{nested[at].name} and {nested[other].name} lie in each other, both used in place"
    assert (run.status, said in run.waiting_on) == ("waiting_for_resource", True)
    assert "let one work on copies, in Admin > Workspaces" in run.waiting_on
    assert rejudge(run.pk, *call_of(run)).access.value == "deny"
    theirs.update(copy_for_each_run=True)
    Run.objects.filter(pk=run.pk).update(wake_at=timezone.now() - timedelta(seconds=1), lease_until=None)
    assert drive(run.pk, "three") == "ended"


def call_of(run: Run) -> tuple[str, str, dict[str, str]]:
    ToolCallRecord.objects.create(run=run, call_id="c", tool="read_file", step_number=1)
    return "c", "read_file", {"path": "secret"}


def test_a_fork_takes_nothing_out_of_a_folder_that_is_not_open(world: World, place: Path) -> None:
    shop = Workspace.objects.create(
        project=world.project, name="Shop", path=str(place / "roots/shop"), copy_for_each_run=False
    )
    run = world.submit(workspace=shop).run
    drive(run.pk, "one")
    Run.objects.filter(pk=run.pk).update(workspace_path=str(place / "outside/home"))
    run.refresh_from_db()
    with pytest.raises(InvalidTask, match="superuser"):
        forks.fork_run(actor=world.operator, run=run, step=0)
    (place / "copy").mkdir()
    with pytest.raises(folder_copy.WorkspaceElsewhere, match="superuser"):
        copies.copy_present(run, place / "copy")
    assert not list((place / "copy").iterdir())


def test_what_lies_outside_keeps_its_owner(world: World, place: Path) -> None:
    before = (place / "outside/home/secret").lstat()
    old = Workspace.objects.create(
        project=world.project, name="Old", path=str(place / "outside/home"), copy_for_each_run=False
    )
    with pytest.raises(InvalidTask):
        world.submit(workspace=old)
    after = (place / "outside/home/secret").lstat()
    assert (after.st_uid, after.st_mode, after.st_nlink) == (before.st_uid, before.st_mode, before.st_nlink)
    assert stat.S_ISREG(after.st_mode)

"""A result becomes a new branch on the server that its repository was fetched from, ordered by a person (SPEC X3)."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connections

from loops import jobs
from loops.models import AuditEvent, Delivery, Membership, Policy, Run, Setup, Workspace
from loops.services import delivery as service
from loops.services.access import NotAllowed
from loops.services.configuration import Unfit
from loops.services.models import ensure_script
from loops.services.people import ensure_groups
from loops.services.steering import NotPossible
from loops.services.tasks import submit_task
from loops.tools.sandbox import capability
from loops.workspaces import commits, copies, fetch_command, patch, push, push_command, setups, sources, strays
from loops.workspaces.configured import WORKSPACES
from tests import factories as make
from tests.integration.rollback.world import Story
from tests.integration.runs.test_apply import commit as finish
from tests.integration.runs.test_apply import nobody_hears
from tests.integration.runs.test_patch import client_of
from tests.integration.services.git_server import GitServer, git
from tests.integration.services.test_sources import in_rows
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X3")]
PUSH = Delivery.Kind.PUSH
OURS = ("-c", "safe.directory=*")
"""The folder of a run belongs to the user of its commands."""
VARIABLE, TOKEN = "SHOP_PUSH_TOKEN", "tok-9931-that-may-write"
WORK: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "shop.py", "content": "second\n"}),
    ("run_command", {"command": "mkdir new; echo x > new/run.sh; chmod +x new/run.sh; rm old.txt"}),
]


class Served(Story):
    """The workspace is a repository on a server, to which a superuser lets results be pushed."""

    def __init__(self, server: GitServer, *given: Any) -> None:
        super().__init__(*given)
        self.server, self.bare = server, server.root / "shop.git"
        self.first = git(self.bare, "rev-parse", "main")

    def calls(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        given = {"name": "w", "git_url": self.server.url, "git_push_token_env": VARIABLE}
        self.workspace = WORKSPACES.make(actor=self.boss, project=self.project, given=given)
        self.fetch()
        task = {"workspace": self.workspace, "goal": json.dumps(calls)}
        agent = make.agent(self.project, name="A", actor_model=ensure_script("scripted", pace=0))
        self.run = submit_task(actor=self.boss, project=self.project, agent=agent, **task).run

    def fetch(self) -> Setup:
        row = Setup.objects.filter(workspace=self.workspace, state="waiting").first()
        row = row or sources.order(self.workspace)
        assert row is not None
        jobs.set_up(str(row.pk))
        row.refresh_from_db()
        assert row.state == "ready", row.why_not
        return row

    def drive(self) -> str:
        """What took long to fetch is too old for a task that was submitted after it: its run waits for another one."""
        if (why := super().drive()) == "folder":
            self.fetch()
            why = super().drive()
        return why

    def fresh(self) -> Run:
        """As another request finds it."""
        self.run = Run.objects.get(pk=self.run.pk)
        return self.run

    def pushed(self) -> str:
        """What the branch of the run is on the server."""
        ref = f"refs/heads/{commits.branch_of(self.run)}"
        return git(self.bare, "for-each-ref", "--format=%(objectname)", ref)

    def refs(self) -> str:
        return git(self.bare, "for-each-ref")


@pytest.fixture
def story(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Served]:
    """Jobs are done when they are handed over, but for the fetch."""
    monkeypatch.setattr(
        "loops.storage.dispatch.dispatch",
        lambda job, after=0, **given: jobs.deliver(**given) if job == "loops.deliver" else None,
    )
    monkeypatch.setenv(VARIABLE, TOKEN)
    with GitServer(reachable(tmp_path)).serving() as server:
        server.push({"shop.py": "first\n", "old.txt": "old\n", ".gitignore": "*.log\n"}, message="Begin")
        yield Served(server, tmp_path, settings, monkeypatch)


def order(story: Served, actor: Any = None) -> Delivery:
    actor = actor or story.boss
    digest = service.preview(actor, story.fresh(), PUSH).plan.digest
    made = service.apply_result(actor=actor, run=story.run, digest=digest, kind=PUSH)
    made.refresh_from_db()
    return made


def not_pushed(story: Served) -> str:
    """Why an order was not carried out; the server has what it had."""
    before = story.refs()
    made = order(story)
    assert (made.state, story.refs(), made.commit) == ("refused", before, "")
    detail = AuditEvent.objects.filter(kind="run.not_pushed").latest("pk").detail
    assert detail["why"] == made.why_not
    assert not [path.name for path in copies.root().iterdir() if path.name.startswith(push.NAME)]
    return made.why_not


def test_a_clone_has_the_branch_with_what_the_run_left(story: Served, tmp_path: Path) -> None:
    finish(story, [*WORK, ("run_command", {"command": "echo x > a.log"})])
    story.boss.email = "ana@example.org"
    story.boss.save()
    client = client_of(story.boss)
    assert "own copy" in client.get(f"/runs/{story.run.pk}/").content.decode()
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    assert made.commit == story.pushed()
    git(tmp_path, "clone", "-q", str(story.bare), "clone")
    clone = tmp_path / "clone"
    git(clone, "switch", "-q", made.branch)
    assert git(clone, "rev-parse", "HEAD", "HEAD^") == f"{made.commit}\n{story.first}"
    assert git(clone, "rev-parse", "origin/main") == story.first
    assert git(clone, "fsck", "--strict", "--full") == ""
    assert git(clone, "diff", "--name-status", "HEAD^", "HEAD").split("\n") == [
        "A\tnew/run.sh",
        "D\told.txt",
        "M\tshop.py",
    ]
    assert ((clone / "shop.py").read_text(), os.access(clone / "new/run.sh", os.X_OK)) == ("second\n", True)
    shown = git(clone, "show", "-s", "--format=%an <%ae>%n%cn <%ce>%n%ct%n%B").split("\n")
    assert shown[:3] == [f"A <{patch.no_reply()}>", "ana <ana@example.org>", str(int(made.ordered_at.timestamp()))]
    assert any(line == f"AgentOps-Run: {patch.link(story.run)}" for line in shown)
    assert any("a.log: .gitignore leaves it out" in line for line in shown)
    events = AuditEvent.objects.filter(kind__in=("run.push", "run.pushed")).order_by("pk")
    assert [(event.kind, event.actor) for event in events] == [("run.push", story.boss), ("run.pushed", story.boss)]
    assert (events[1].detail["commit"], events[1].detail["folder"]) == (made.commit, story.server.url)
    assert "own copy" not in client.get(f"/runs/{story.run.pk}/").content.decode()
    assert (
        f"git fetch &amp;&amp; git switch {made.branch}" in client.get(f"/runs/{story.run.pk}/push/").content.decode()
    )
    assert "were pushed, as a branch of their own" in client.get(f"/runs/{story.run.pk}/files/").content.decode()


def test_what_the_server_has_since_is_no_obstacle(story: Served) -> None:
    """The parent stays the commit that was fetched."""
    finish(story, WORK)
    moved = story.server.push({"shop.py": "third\n"})
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    assert git(story.bare, "rev-parse", f"{made.branch}^", "main") == f"{story.first}\n{moved}"


# --- the grant and who may -------------------------------------------------------------------------------------------


@pytest.mark.spec("S4")
def test_without_a_superuser_s_word_nothing_is_pushed(story: Served) -> None:
    finish(story, WORK)
    digest = service.preview(story.boss, story.run, PUSH).plan.digest
    admin = make.user("adam", admin=story.project)
    ensure_groups()
    admin.groups.add(Group.objects.get(name="admin"))
    admin.is_staff = True
    admin.save()
    asked = len(story.server.asked)
    for change in ({"git_push_token_env": "OTHER_TOKEN"}, {"git_push_token_env": ""}):
        with pytest.raises(Unfit, match="for a superuser to say"):
            WORKSPACES.change(actor=admin, row=story.workspace, given=change)
        Workspace.objects.update(**change)  # by another door
        with pytest.raises(NotPossible, match="A superuser can allow it under Admin > Workspaces"):
            service.apply_result(actor=story.boss, run=story.fresh(), digest=digest, kind=PUSH)
        name = f"/runs/{story.run.pk}"
        page = client_of(story.boss).get(f"{name}/push/").content.decode()
        assert ("A superuser can allow it" in page, f"{name}/result.patch" in page) == (True, True)
        assert "Push as a branch" not in client_of(story.boss).get(f"{name}/files/").content.decode()
    assert (len(story.server.asked), Delivery.objects.count()) == (asked, 0)
    WORKSPACES.change(actor=story.boss, row=story.workspace, given={"git_push_token_env": VARIABLE})
    assert order(story).state == "applied"


@pytest.mark.spec("S4")
def test_a_grant_that_ended_since_it_was_ordered_stops_it(story: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it was begun, and after a worker died at it."""
    finish(story, WORK)
    nobody_hears(monkeypatch)
    made = order(story)
    Workspace.objects.update(git_push_token_env="OTHER_TOKEN")
    assert service.carry_out(made.pk) == "refused"
    Workspace.objects.update(git_push_token_env=VARIABLE)
    made = order(story)
    monkeypatch.setattr(push, "send", _dies)
    with pytest.raises(Killed):
        service.carry_out(made.pk)
    monkeypatch.undo()
    Workspace.objects.update(git_push_token_env="OTHER_TOKEN")
    assert service.carry_out(made.pk) == "refused"
    made.refresh_from_db()
    assert (made.why_not, story.pushed()) == (sources.NOT_PUSHED_TO, "")


class Killed(BaseException):
    pass


def _dies(*_: Any) -> None:
    raise Killed


@pytest.mark.spec("S4", "T2", "T3")
def test_who_may(story: Served) -> None:
    finish(story, WORK)
    people = {role: make.user(role) for role in ("operator", "reviewer", "viewer")}
    for role, person in people.items():
        Membership.objects.create(user=person, project=story.project, role=role)
    name = f"/runs/{story.run.pk}/push/"
    digest = service.preview(people["operator"], story.run, PUSH).plan.digest
    for role, expected in {"viewer": (404, 403), "reviewer": (404, 403)}.items():
        client = client_of(people[role])
        with pytest.raises(NotAllowed, match="push results"):
            order(story, people[role])
        assert client.get(name).status_code == client.post(name, {"digest": digest}).status_code == expected[0]
        body = json.dumps({"digest": digest})
        assert client.post(f"/api/v1{name}", body, content_type="application/json").status_code == expected[1]
        with pytest.raises(CommandError):
            call_command("agentops", "--as", people[role].username, "push", str(story.run.pk), "--yes")
    assert (Delivery.objects.count(), story.pushed()) == (0, "")
    assert order(story, people["operator"]).state == "applied"


@pytest.mark.spec("T2", "T3")
def test_page_api_and_terminal_show_the_same_and_order_the_same(story: Served) -> None:
    finish(story, WORK)
    client, name = client_of(story.boss), f"/runs/{story.run.pk}/push/"
    page, plan = client.get(name).content.decode(), service.preview(story.boss, story.run, PUSH).plan
    assert isinstance(plan, commits.Plan)
    assert all(file.path in page for file in plan.files)
    assert (f'value="{plan.digest}"' in page, plan.folder) == (True, story.server.url)
    shown = client.get(f"/api/v1{name}").json()
    assert [shown[key] for key in ("digest", "branch", "parent", "folder")] == [
        *(plan.digest, plan.branch, story.first, story.server.url),
    ]
    wrong = client.post(f"/api/v1{name}", json.dumps({"digest": "0" * 64}), content_type="application/json")
    assert (wrong.status_code, AuditEvent.objects.filter(kind="run.push_refused").count()) == (409, 1)
    said = io.StringIO()
    with pytest.raises(CommandError, match="Nothing was written"):
        call_command("agentops", "push", str(story.run.pk), stdout=said)
    assert ("deleted  old.txt" in said.getvalue(), story.pushed()) == (True, "")
    call_command("agentops", "push", str(story.run.pk), "--yes", stdout=said)
    assert f"Pushed to {plan.branch} of {story.server.url}: {story.pushed()}" in said.getvalue()
    told = client.get(f"/api/v1{name}").json()["latest"]
    assert (told["state"], told["kind"], told["commit"]) == ("applied", "push", story.pushed())
    assert client.get(f"/api/v1/runs/{story.run.pk}/commit/").json()["why_not"] == sources.TAKE_THE_PATCH


def test_what_came_of_a_folder_is_pushed_nowhere(story: Served) -> None:
    Story.calls(story, [])
    Run.objects.update(status="completed")
    copies.prepare(story.fresh())
    with pytest.raises(NotPossible, match="no repository on a server"):
        service.preview(story.boss, story.fresh(), PUSH)
    Workspace.objects.update(path="", git_url=story.server.url, git_push_token_env=VARIABLE)
    with pytest.raises(NotPossible, match="no repository on a server"):
        service.preview(story.boss, story.fresh(), PUSH)


# --- the token -------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S3")
def test_the_token_stands_nowhere_and_a_wrong_one_is_said(story: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story, WORK)
    story.server.wants(fetch_command.USER, TOKEN)
    monkeypatch.setenv(VARIABLE, "wrong-token-4711")
    why = not_pushed(story)
    assert why.startswith(f"The server refuses the token in {VARIABLE}, or it may not write")
    monkeypatch.setenv(VARIABLE, "")
    assert f"The variable {VARIABLE} of the worker holds no token." in not_pushed(story)
    monkeypatch.setenv(VARIABLE, TOKEN)
    hook(story, f"echo it was {TOKEN}; exit 1")
    why = not_pushed(story)
    assert (f"It says: “it was [masked: {VARIABLE}]" in why, TOKEN in why) == (True, False)
    hook(story, "exit 0")
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    encoded = story.server.authorization.removeprefix("Basic ")
    assert (in_rows(VARIABLE) != [], in_rows(TOKEN), in_rows(encoded)) == (True, [], [])
    files = [path for path in copies.root().rglob("*") if path.is_file() and not path.is_symlink()]
    assert files
    assert not [path for path in files if TOKEN.encode() in path.read_bytes()]


# --- what the server says --------------------------------------------------------------------------------------------


def hook(story: Served, *lines: str) -> None:
    place = story.bare / "hooks/pre-receive"
    place.parent.mkdir(exist_ok=True)
    place.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    place.chmod(0o755)


@pytest.mark.spec("S1")
def test_words_of_a_server_that_refuses_are_shown_and_bounded(story: Served) -> None:
    finish(story, WORK)
    hook(story, "printf 'Protected \\033[31m\\342\\200\\256branch <b>x</b>\\n'; seq 5000; exit 1")
    why = not_pushed(story)
    assert why.startswith("The server refuses the branch: pre-receive hook declined. It says: “Protected ")
    assert ("\x1b" in why, "\u202e" in why, len(why) < 2 * fetch_command.WHY_CHARS + 200) == (False, False, True)
    assert "<b>x</b>" not in client_of(story.boss).get(f"/runs/{story.run.pk}/push/").content.decode()
    hook(story, "exit 0")
    assert order(story).state == "applied"


def test_a_server_that_is_not_there_or_leads_elsewhere(story: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story, WORK)
    story.server.redirect = "http://localhost:1"
    assert "The server leads on to localhost:1, which nobody allowed" in not_pushed(story)
    story.server.redirect = ""
    story.bare.rename(story.bare.with_name("gone.git"))
    story.bare = story.bare.with_name("gone.git")
    assert not_pushed(story).startswith(fetch_command.NO_REPOSITORY)
    with monkeypatch.context() as patched:
        patched.setattr("loops.tools.sandbox.network.proxy.CONNECT_S", 0.0)
        assert "could not be reached" in not_pushed(story)


@pytest.mark.spec("X1", "I7")
def test_commands_without_namespaces_push_nothing(story: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story, WORK)
    weaker = capability.SandboxLevel(capability.CONFINED, "as asked")
    monkeypatch.setattr(push, "sandbox_level", lambda: weaker)
    asked = len(story.server.asked)
    assert ("network" in not_pushed(story), len(story.server.asked)) == (True, asked)


@pytest.mark.spec("I7")
def test_it_has_the_limits_of_its_project_and_says_who_raises_them(story: Served) -> None:
    story.server.push({f"large/{number}": os.urandom(2_000_000).hex() for number in range(10)})
    finish(story, WORK)
    hook(story, "sleep 30")
    policies = Policy.objects.filter(project=story.project)
    policies.update(workspace_mib=16)
    why = not_pushed(story)
    assert "its quota is 16777216." in why
    assert "An admin raises that in Admin > Policies: Disk of a workspace." in why
    hook(story, "exit 0")
    policies.update(workspace_mib=1_024)
    assert order(story).state == "applied"


# --- the branch ------------------------------------------------------------------------------------------------------


def test_a_branch_that_is_there_is_never_moved(story: Served) -> None:
    finish(story, WORK)
    name = commits.branch_of(story.run)
    git(story.bare, "branch", name, "main")
    assert not_pushed(story) == push.TAKEN.format(name)
    git(story.bare, "branch", "-m", name, "kept")
    assert order(story).state == "applied"


@pytest.mark.parametrize("where", ["first", "elsewhere"])
def test_one_that_comes_in_between_is_not_moved_either(story: Served, where: str) -> None:
    """Not even forward: git alone would move one that stands where the result began."""
    finish(story, WORK)
    name = commits.branch_of(story.run)
    at = story.first if where == "first" else story.server.push({"shop.py": "else\n"}, branch="elsewhere")

    def before(path: str) -> None:
        if "service=git-receive-pack" in path:
            git(story.bare, "update-ref", f"refs/heads/{name}", at)

    story.server.before = before
    made = order(story)
    assert (made.state, made.why_not, story.pushed()) == ("refused", push.TAKEN.format(name), at)


def test_ordered_again_it_is_found_there_and_made_anew_where_it_was_deleted(story: Served) -> None:
    finish(story, WORK)
    first = order(story)
    Delivery.objects.filter(pk=first.pk).update(ordered_at=first.ordered_at - timedelta(days=1))
    assert "It was pushed already" in client_of(story.boss).get(f"/runs/{story.run.pk}/push/").content.decode()
    again = order(story)
    assert (again.state, again.commit, story.pushed()) == ("applied", first.commit, first.commit)
    git(story.bare, "branch", "-D", first.branch)
    third = order(story)
    assert (third.state, third.commit) == ("applied", story.pushed())


# --- which repository ------------------------------------------------------------------------------------------------

TAMPERS = (
    "git config user.name x; git config user.email x; echo evil > evil; git add evil; git commit -qm evil; rm evil; "
    "git config core.hooksPath .; printf '#!/bin/sh\\ntouch /workspace/ran\\n' > pre-push; chmod +x pre-push; "
    "git config url.http://localhost:1/.insteadOf http://; echo second > shop.py"
)


@pytest.mark.spec("I7", "S3")
@pytest.mark.parametrize("kept", [True, False])
def test_what_an_agent_did_to_the_repository_in_its_copy_is_not_pushed(story: Served, kept: bool) -> None:
    """Its commits, hooks and settings stay where they are, also where nothing but its copy is left."""
    finish(story, [("run_command", {"command": TAMPERS})])
    assert git(story.folder, *OURS, "rev-parse", "HEAD") != story.first
    assert git(story.folder, *OURS, "log", "-1", "--format=%s") == "evil"
    if not kept:
        shutil.rmtree(setups.place())
    made = order(story)
    assert (made.state, made.why_not) == ("applied", "")
    assert git(story.bare, "rev-list", made.branch).split() == [made.commit, story.first]
    assert "evil" not in git(story.bare, "ls-tree", "-r", "--name-only", made.branch).split()


def test_where_nothing_is_left_of_it_the_patch_is_offered(story: Served) -> None:
    finish(story, WORK)
    shutil.rmtree(setups.place())
    shutil.rmtree(story.folder / ".git")
    with pytest.raises(NotPossible, match=r"is not on this machine any more\. Take the patch"):
        order(story)


def test_a_commit_that_was_never_fetched_is_pushed_by_nobody(story: Served) -> None:
    """An agent may have made it, in the folder of the run."""
    finish(story, [("run_command", {"command": TAMPERS})])
    own = git(story.folder, *OURS, "rev-parse", "HEAD")
    Run.objects.update(copied_from=f"{story.server.url}@{own}")
    with pytest.raises(NotPossible, match="Take the patch"):
        order(story)


def test_a_worker_without_the_repository_leaves_it_to_another_one(
    story: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish(story, WORK)
    nobody_hears(monkeypatch)
    made = order(story)
    for place in (setups.place(), story.folder / ".git"):
        place.rename(place.with_name("away"))
    assert service.carry_out(made.pk) == "waiting"
    for place in (setups.place(), story.folder / ".git"):
        place.with_name("away").rename(place)
    assert service.carry_out(made.pk) == "applied"


# --- a worker that dies ----------------------------------------------------------------------------------------------


@pytest.mark.spec("J4")
@pytest.mark.parametrize("moment", ["before the server has it", "after"])
def test_killed_in_the_middle_it_is_pushed_once(story: Served, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    """Kill -9, of a process of its own, while the server works; then another worker."""
    finish(story, WORK)
    nobody_hears(monkeypatch)
    made = order(story)
    reached, goes_on = threading.Event(), threading.Event()

    def hold(path: str) -> None:
        if path.endswith("/git-receive-pack"):
            reached.set()
            goes_on.wait(60)

    setattr(story.server, "before" if moment.startswith("before") else "after", hold)
    connections.close_all()
    child = os.fork()
    if not child:
        try:
            service.carry_out(made.pk)
        finally:
            os._exit(1)
    assert reached.wait(60)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    made.refresh_from_db()
    left = [path.name for path in copies.root().iterdir() if path.name.startswith(push.NAME)]
    assert (made.state, len(left)) == ("writing", 3)
    assert bool(story.pushed()) == (moment == "after")
    story.server.before = story.server.after = lambda path: None
    goes_on.set()
    assert service.carry_out(made.pk) == "applied"
    made.refresh_from_db()
    assert (made.commit, made.plan["tried"]) == (story.pushed(), story.pushed())
    assert git(story.bare, "rev-list", "--count", made.branch) == "2"
    assert service.carry_out(made.pk) == ""
    assert AuditEvent.objects.filter(kind="run.pushed").count() == 1
    assert not [path.name for path in copies.root().iterdir() if path.name.startswith(push.NAME)]


@pytest.mark.spec("J4")
def test_two_workers_at_once(story: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story, WORK)
    nobody_hears(monkeypatch)
    made = order(story)
    with push.scratch(made):
        assert service.carry_out(made.pk) == ""
    assert service.carry_out(made.pk) == "applied"


@pytest.mark.spec("J4")
def test_what_a_lost_worker_left_goes_when_its_order_has_ended(story: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story, WORK)
    nobody_hears(monkeypatch)
    made = order(story)
    left = [copies.root() / f"{push.NAME}{made.pk}{suffix}" for suffix in push.SUFFIXES]
    for place in left:
        place.mkdir()
    strays.clear()
    assert all(place.exists() for place in left), "its order is under way"
    Delivery.objects.filter(pk=made.pk).update(state="refused")
    strays.clear()
    assert not any(place.exists() for place in left)


def test_a_repository_by_sha256_says_so(story: Served) -> None:
    finish(story, WORK)
    Run.objects.update(copied_from=f"{story.server.url}@{'a' * 64}")
    with pytest.raises(NotPossible, match=r"its objects by sha256 .* Take the patch"):
        order(story)


def test_a_push_that_is_tried_for_ever_is_given_up(story: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(story, WORK)
    nobody_hears(monkeypatch)
    made = order(story)

    def fails(*_: Any) -> None:
        raise OSError("no space")

    monkeypatch.setattr(push_command, "job", fails)
    for _ in range(service.MOST_TRIES - 1):
        assert service.carry_out(made.pk) == "writing"
    assert service.carry_out(made.pk) == "refused"

"""A workspace whose source is a repository on a server: fetched in the sandbox, and runs get it (SPEC I7, S3, S4)."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections
from django.utils import timezone

from loops import jobs
from loops.models import AuditEvent, Policy, Run, Setup, Workspace
from loops.runs.drive import drive
from loops.services import delivery, preflight, setups
from loops.services.access import NotAllowed
from loops.services.configuration import Unfit
from loops.services.models import ensure_script
from loops.services.people import NotPossible, ensure_groups
from loops.services.steering import NotPossible as CannotBeWritten
from loops.services.tasks import submit_task
from loops.storage import facts_by_kind, journal
from loops.tools.sandbox import capability
from loops.workspaces import copies, fetch_command, installation, sources
from loops.workspaces import setups as kept
from loops.workspaces.configured import WORKSPACES
from loops.workspaces.folder_copy import WorkspaceUnusable
from tests import factories as make
from tests.integration.services.git_server import GitServer, git
from tests.stack import PATIENCE_S, wait_until
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("I7", "S3", "S4", "J4")]
TOKEN = "tok-4711-of-the-shop"
HOOK = "#!/bin/sh\ntouch hook-fired\n"


class Shop:
    """A project, and people who differ in what they may."""

    def __init__(self, server: GitServer) -> None:
        self.server = server
        self.project = make.project()
        self.boss = make.superuser("ana")
        self.admin = make.user("adam", admin=self.project)
        ensure_groups()
        self.admin.groups.add(Group.objects.get(name="admin"))
        self.admin.is_staff = True
        self.admin.save()
        self.operator = make.user("olga", operator=self.project)
        self.agent = make.agent(self.project, name="E", actor_model=ensure_script("asks_a_question", pace=0))

    def made(self, ref: str = "", token: str = "", **more: Any) -> Workspace:
        """By a superuser; it is ordered to be fetched, and was not yet."""
        given = {"name": "shop", "git_url": self.server.url, "git_ref": ref, "git_token_env": token, **more}
        return WORKSPACES.make(actor=self.boss, project=self.project, given=given)

    def fetched(self, workspace: Workspace) -> Setup:
        """What became of the one that is ordered, or of one that is ordered now."""
        row = Setup.objects.filter(workspace=workspace, state="waiting").first()
        row = row or setups.fetch(actor=self.operator, workspace=workspace)
        jobs.set_up(str(row.pk))
        row.refresh_from_db()
        return row

    def submit(self, workspace: Workspace) -> Run:
        task = {"goal": "Do it", "workspace": workspace}
        return submit_task(actor=self.operator, project=self.project, agent=self.agent, **task).run


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    settings.AGENTOPS_WORKSPACES = str(reachable(tmp_path) / "runs")
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    with GitServer(tmp_path).serving() as server:
        server.push({"shop.py": "first\n", "AGENTS.md": "Be careful.\n"}, message="Begin")
        yield Shop(server)


def in_rows(text: str) -> list[str]:
    """Tables in which it stands anywhere."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace")
        tables = [name for (name,) in cursor.fetchall()]
        found = []
        for table in tables:
            cursor.execute(f'SELECT 1 FROM "{table}" t WHERE t::text LIKE %s LIMIT 1', [f"%{text}%"])
            found += [table] * bool(cursor.fetchall())
    return found


class TestWhatIsFetched:
    def test_a_run_gets_the_commit_with_its_history_and_what_steers_agents(self, shop: Shop) -> None:
        row = shop.made()
        made = shop.fetched(row)
        assert (made.state, made.why_not) == ("ready", ""), made.log
        at = git(shop.server.folder, "rev-parse", "HEAD")
        assert (made.key, made.files > 2, f"Fetched {at}" in made.log, ": Begin" in made.log) == (at, True, True, True)
        run = shop.submit(row)
        copy = Path(copies.prepare(run))
        assert ((copy / "shop.py").read_text(), (copy / "AGENTS.md").read_text()) == ("first\n", "Be careful.\n")
        assert git(copy, "log", "--format=%s") == "Begin"
        assert git(copy, "status", "--porcelain") == ""
        run.refresh_from_db()
        assert run.copied_from == f"{shop.server.url}@{at}"
        assert sorted(path.name for path in copies.root().iterdir()) == sorted([str(run.pk), "setups"])

    @pytest.mark.parametrize("what", ["branch", "tag", "commit", "short commit", "older commit"])
    def test_a_branch_a_tag_or_a_commit(self, shop: Shop, what: str) -> None:
        first = git(shop.server.folder, "rev-parse", "HEAD")
        git(shop.server.folder, "tag", "-a", "v1.0", "-m", "One")
        second = shop.server.push({"shop.py": "on a branch\n"}, branch="feature/x")
        shop.server.push({"shop.py": "later\n"}, branch="main")
        git(shop.server.folder, "push", "-q", "--tags", "origin")
        ref, at = {
            "branch": ("feature/x", second),
            "tag": ("v1.0", first),
            "commit": (second, second),
            "short commit": (second[:9], second),
            "older commit": (first, first),
        }[what]
        made = shop.fetched(shop.made(ref))
        assert (made.state, made.key, made.why_not) == ("ready", at, ""), made.log

    def test_a_commit_of_a_server_that_gives_none_by_its_id(self, shop: Shop) -> None:
        """All of the repository is fetched then, as for the first letters of one."""
        first = git(shop.server.folder, "rev-parse", "HEAD")
        shop.server.push({"shop.py": "later\n"})
        made = shop.fetched(shop.made(first[:12]))
        assert (made.key, "all of the repository is fetched" in made.log) == (first, True)

    def test_nothing_of_the_repository_runs(self, shop: Shop, tmp_path: Path) -> None:
        """Neither hooks nor filters nor settings that it brings; to ordinary git they would be orders."""
        files = {
            "post-checkout": HOOK,
            ".gitattributes": "*.py filter=evil\n",
            ".gitconfig": "[core]\nhooksPath=/workspace\n",
        }
        shop.server.push(files)
        (shop.server.folder / "post-checkout").chmod(0o755)
        shop.server.push({})
        made = shop.fetched(shop.made())
        assert made.state == "ready", made.log
        assert not list(kept.folder(made).rglob("hook-fired"))
        git(tmp_path, "clone", "-q", str(shop.server.root / "shop.git"), "ordinary")
        git(tmp_path / "ordinary", "-c", f"core.hooksPath={tmp_path}/ordinary", "checkout", "-q", "--detach")
        assert (tmp_path / "ordinary/hook-fired").exists(), "the control: where somebody obeys, it fires"

    def test_what_is_not_fetched_is_said(self, shop: Shop) -> None:
        shop.server.push({".gitmodules": "", "data/.gitattributes": "*.bin filter=lfs diff=lfs\n", "data/x.bin": "v"})
        made = shop.fetched(shop.made())
        assert made.state == "ready"
        assert "Submodules are not fetched" in made.log
        assert "Files in Git LFS are not fetched" in made.log

    def test_a_link_that_leads_out_is_taken_away_and_said(self, shop: Shop) -> None:
        (shop.server.folder / "secrets").symlink_to("/root/.ssh")
        (shop.server.folder / "inside").symlink_to("shop.py")
        shop.server.push({})
        made = shop.fetched(shop.made())
        assert (made.state, "taken away: secrets: a link that leads out" in made.log) == ("ready", True)
        folder = kept.folder(made)
        assert ((folder / "inside").is_symlink(), (folder / "secrets").is_symlink()) == (True, False)

    def test_a_name_that_is_git_s_own_or_leads_out_is_not_written(self, shop: Shop, tmp_path: Path) -> None:
        """A tree that no git of a person writes: the names are put into it by hand."""
        bare = shop.server.root / "shop.git"
        blob = git(bare, "hash-object", "-w", "--stdin", data=b"[core]\n\tfsmonitor = touch /tmp/x\n")
        for name in (b".GIT", b"..", b"git~1"):
            tree = b"40000 " + name + b"\0" + bytes.fromhex(_tree(bare, b"100644 config\0" + bytes.fromhex(blob)))
            commit = git(bare, "commit-tree", "-m", "Odd", _tree(bare, tree))
            git(bare, "update-ref", "refs/heads/main", commit)
            row = Workspace.objects.first() or shop.made()
            made = shop.fetched(row)
            assert (made.state, "invalid path" in made.log) == ("failed", True), made.log
        assert not list(copies.root().rglob("config"))


def _tree(bare: Path, data: bytes) -> str:
    return git(bare, "hash-object", "-w", "-t", "tree", "--literally", "--stdin", data=data)


class TestWhatFails:
    @pytest.mark.parametrize(
        ("ref", "why"),
        [("gone", "It has no branch or tag gone."), ("abcdef1", "It has no commit abcdef1."), ("v1.0", "tag v1.0.")],
    )
    def test_what_is_not_there(self, shop: Shop, ref: str, why: str) -> None:
        made = shop.fetched(shop.made(ref))
        assert (made.state, why in made.why_not) == ("failed", True), made.why_not

    def test_a_repository_that_is_not_there(self, shop: Shop) -> None:
        made = shop.fetched(shop.made(git_url=shop.server.url.replace("shop", "none")))
        assert (made.state, "no such repository" in made.why_not) == ("failed", True), made.why_not

    def test_a_server_that_is_not_there(self, shop: Shop) -> None:
        made = shop.fetched(shop.made(git_url="http://127.0.0.1:9/shop.git"))
        assert (made.state, made.why_not.startswith("127.0.0.1:9 could not be reached")) == ("failed", True)

    @pytest.mark.parametrize("to", ["http://localhost:{port}", "http://169.254.169.254", "file://"])
    def test_a_server_that_leads_elsewhere(self, shop: Shop, to: str) -> None:
        row = shop.made()
        shop.server.redirect = to.format(port=shop.server.port)
        made = shop.fetched(row)
        assert made.state == "failed"
        expected = "file" if to == "file://" else "leads on to"
        assert expected in made.why_not, (made.why_not, made.log)

    def test_one_that_leads_on_within_itself_is_followed(self, shop: Shop) -> None:
        """The control: repositories are renamed."""
        row = shop.made(git_url=shop.server.url.replace("/shop.git", "/old/shop.git"))
        (shop.server.root / "old").symlink_to(".")
        assert shop.fetched(row).state == "ready"

    @pytest.mark.parametrize(
        ("limits", "why"),
        [
            ({"workspace_mib": 16}, "its quota is"),
            ({"workspace_files": 100}, "more than 100 files"),
            ({}, "time"),
        ],
    )
    def test_what_is_too_large_or_takes_too_long(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch, limits: dict[str, int], why: str
    ) -> None:
        shop.server.push({f"many/{number}": "x" * 100_000 for number in range(200)})
        row = shop.made(**limits)
        if not limits:
            shop.server.released.clear()
            monkeypatch.setattr(fetch_command, "LIMITS", replace(fetch_command.LIMITS, command_max_s=2.0))
        made = shop.fetched(row)
        assert (made.state, why in made.why_not) == ("failed", True), made.why_not
        assert ("An admin raises that on the page of the workspace" in made.why_not) is bool(limits)
        assert not kept.folder(made).exists()

    def test_what_comes_faster_than_it_is_measured_is_too_large_as_well(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """By the limits of its project, which an admin raises."""
        monkeypatch.setattr("loops.tools.sandbox.process._WATCH_S", 60.0)
        shop.server.push({f"many/{number}": "x" for number in range(100)})
        row, policies = shop.made(), Policy.objects.filter(project=shop.project)
        policies.update(workspace_files=100)
        made = shop.fetched(row)
        said = "It is too large: the workspace has more than 100 files."
        assert made.state == "failed"
        assert made.why_not == f"{said} An admin raises that in Admin > Policies: Files of a workspace."
        policies.update(workspace_files=1_000)
        assert shop.fetched(row).state == "ready"

    def test_the_run_ends_with_the_reason_and_the_next_one_has_it_tried_again(self, shop: Shop) -> None:
        row = shop.made("gone")
        run = shop.submit(row)
        assert drive(run.pk, "one") == "folder"
        shop.fetched(row)
        drive(run.pk, "two")
        run.refresh_from_db()
        assert (run.status, run.end_reason) == ("failed", "workspace_unusable")
        ended = facts_by_kind.read(journal.raw_connection(), run.pk, ("RunEnded",))[0]
        assert "The repository of workspace shop was not fetched: It has no branch or tag gone." in str(ended)
        shop.server.push({}, branch="gone")
        again = shop.submit(row)
        assert drive(again.pk, "three") == "folder"
        assert shop.fetched(row).state == "ready"

    def test_commands_without_namespaces_fetch_nothing(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        weaker = capability.SandboxLevel(capability.CONFINED, "as asked")
        monkeypatch.setattr(installation, "sandbox_level", lambda: weaker)
        made = shop.fetched(shop.made())
        assert (made.state, made.why_not.startswith("It reaches 127.0.0.1")) == ("failed", True)
        assert shop.server.asked == []


class TestToken:
    def test_it_reaches_the_server_and_stands_nowhere_else(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SHOP_TOKEN", TOKEN)
        shop.server.wants(fetch_command.USER, TOKEN)
        words: list[str] = []
        monkeypatch.setattr(shop.server, "released", _Looking(words))
        row = shop.made(token="SHOP_TOKEN")
        made = shop.fetched(row)
        assert (made.state, made.why_not) == ("ready", ""), made.log
        encoded = shop.server.authorization.removeprefix("Basic ")
        assert any("git" in one for one in words), "the control: the fetch was seen"
        assert not [one for one in words if TOKEN in one or encoded in one]
        assert (in_rows("SHOP_TOKEN") != [], in_rows(TOKEN), in_rows(encoded)) == (True, [], [])
        for file in kept.folder(made).rglob("*"):
            assert file.is_dir() or not {TOKEN.encode(), encoded.encode()} & set(file.read_bytes().split())
        assert b"xtraheader" not in (kept.folder(made) / ".git/config").read_bytes()

    @pytest.mark.parametrize(
        ("value", "name", "why"),
        [
            ("wrong-token-4711", "SHOP_TOKEN", "The server refuses the token in SHOP_TOKEN"),
            ("", "SHOP_TOKEN", "The variable SHOP_TOKEN of the worker holds no token"),
            ("", "", "The server wants to know who asks"),
        ],
    )
    def test_one_that_does_not_fit(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch, value: str, name: str, why: str
    ) -> None:
        monkeypatch.setenv("SHOP_TOKEN", value)
        shop.server.wants(fetch_command.USER, TOKEN)
        made = shop.fetched(shop.made(token=name))
        assert (made.state, why in made.why_not) == ("failed", True), made.why_not
        assert not value or in_rows(value) == []

    def test_a_name_and_a_password_in_one_variable(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SHOP_TOKEN", f"robot:{TOKEN}")
        shop.server.wants("robot", TOKEN)
        assert shop.fetched(shop.made(token="SHOP_TOKEN")).state == "ready"


class _Looking:
    """Where the server waits before each answer: what runs on the machine meanwhile, as anybody sees it."""

    def __init__(self, words: list[str]) -> None:
        self.words = words

    def wait(self, seconds: float) -> None:
        for place in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                self.words.append(place.read_bytes().replace(b"\0", b" ").decode(errors="replace"))

    def set(self) -> None:
        """Nothing waits."""


class TestWhen:
    def test_a_run_waits_for_it_and_goes_on(self, shop: Shop) -> None:
        row = shop.made()
        assert Setup.objects.get().kind == "fetch", "ordered as it was saved"
        run = shop.submit(row)
        assert drive(run.pk, "one") == "folder"
        run.refresh_from_db()
        assert run.waiting_on == "its workspace: The fetch of shop is under way"
        shop.fetched(row)
        run.refresh_from_db()
        assert run.wake_at <= timezone.now()
        drive(run.pk, "two")
        run.refresh_from_db()
        assert (run.status, run.total_steps) == ("waiting", 1)
        assert (Path(run.workspace_path) / "shop.py").exists()

    def test_after_a_push_a_run_gets_the_new_commit(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sources, "FRESH", timedelta(0))
        row = shop.made()
        shop.fetched(row)
        shop.server.push({"shop.py": "second\n"})
        run = shop.submit(row)
        with pytest.raises(copies.WorkspaceElsewhere, match="is being fetched"):
            copies.prepare(run)
        shop.fetched(row)
        assert (Path(copies.prepare(run)) / "shop.py").read_text() == "second\n"

    def test_what_was_fetched_just_now_and_a_whole_commit_are_not_fetched_again(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        row = shop.made()
        shop.fetched(row)
        copies.prepare(shop.submit(row))
        monkeypatch.setattr(sources, "FRESH", timedelta(0))
        at = git(shop.server.folder, "rev-parse", "HEAD")
        row = WORKSPACES.change(actor=shop.admin, row=row, given={"git_ref": at})
        shop.fetched(row)
        copies.prepare(shop.submit(row))
        assert Setup.objects.count() == 2

    def test_another_branch_is_another_fetch(self, shop: Shop) -> None:
        shop.server.push({"shop.py": "on it\n"}, branch="it")
        row = shop.made()
        shop.fetched(row)
        row = WORKSPACES.change(actor=shop.admin, row=row, given={"git_ref": "it"})
        run = shop.submit(row)
        with pytest.raises(copies.WorkspaceElsewhere, match="under way"):
            copies.prepare(run)
        shop.fetched(row)
        assert (Path(copies.prepare(run)) / "shop.py").read_text() == "on it\n"

    def test_one_at_a_time_and_a_lost_worker_is_no_obstacle(self, shop: Shop) -> None:
        row = shop.made()
        first = Setup.objects.get()
        with pytest.raises(NotPossible, match="under way already"):
            setups.fetch(actor=shop.operator, workspace=row)
        Setup.objects.filter(pk=first.pk).update(state="running", until=timezone.now() - timedelta(seconds=1))
        assert shop.fetched(row).state == "ready"
        first.refresh_from_db()
        assert (first.state, first.why_not, jobs.set_up(str(first.pk))) == ("lost", "Its worker was lost.", False)

    def test_a_worker_that_is_lost_at_it_is_no_fault_of_the_repository(self, shop: Shop) -> None:
        """Unless they always are: the run that waits for it is not kept waiting for ever."""
        row = shop.made()
        run = shop.submit(row)
        for _ in range(kept.MOST_LOST):
            with pytest.raises(copies.WorkspaceElsewhere):
                copies.prepare(run)
            Setup.objects.filter(state="waiting").update(state="running", until=timezone.now() - timedelta(seconds=1))
        with pytest.raises(WorkspaceUnusable, match="was not fetched: Its worker was lost"):
            copies.prepare(run)
        assert Setup.objects.filter(state="lost").count() == kept.MOST_LOST

    def test_only_the_latest_are_kept(self, shop: Shop) -> None:
        row = shop.made()
        made = [shop.fetched(row) for _ in range(3)]
        assert [kept.folder(one).exists() for one in made] == [False, True, True]

    def test_one_that_hangs_can_be_stopped(self, shop: Shop) -> None:
        shop.server.released.clear()
        row = shop.made()
        with fetching_aside(Setup.objects.get()):
            wait_until(lambda: shop.server.asked, "its request")
            assert setups.stop(actor=shop.operator, workspace=row)
        made = Setup.objects.get()
        assert (made.state, made.why_not, kept.folder(made).exists()) == ("stopped", "Stopped by olga.", False)

    def test_set_ups_and_commands_that_are_tried_have_it(self, shop: Shop) -> None:
        row = shop.made(setup_command="mkdir .venv && cp shop.py .venv/made")
        with pytest.raises(NotPossible, match="Fetch it first"):
            setups.run(actor=shop.operator, workspace=row)
        shop.fetched(row)
        made = setups.run(actor=shop.operator, workspace=row)
        jobs.set_up(str(made.pk))
        made.refresh_from_db()
        assert (made.state, made.why_not) == ("ready", "")
        assert (Path(copies.prepare(shop.submit(row))) / ".venv/made").read_text() == "first\n"
        asked = preflight.ask(
            actor=shop.operator,
            project=shop.project,
            agent=shop.agent,
            workspace=row,
            criteria=[{"text": "It is there", "command": "cmp shop.py .venv/made"}],
        )
        jobs.preflight(str(asked.pk))
        asked.refresh_from_db()
        assert [one["status"] for one in asked.results] == ["passed"], asked.results


@contextlib.contextmanager
def fetching_aside(setup: Setup) -> Iterator[None]:
    def work() -> None:
        try:
            jobs.set_up(str(setup.pk))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    yield
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


class TestWhoMay:
    def test_say_which_repository(self, shop: Shop) -> None:
        given = {"name": "shop", "git_url": shop.server.url}
        with pytest.raises(Unfit, match="for a superuser to say"):
            WORKSPACES.make(actor=shop.admin, project=shop.project, given=given)
        assert AuditEvent.objects.filter(kind="workspace.refused", actor=shop.admin).exists()
        row = shop.made()
        allowed = AuditEvent.objects.get(kind="workspace.source")
        assert (allowed.actor, allowed.detail["url"]) == (shop.boss, shop.server.url)
        for change in ({"git_url": "https://example.com/other.git"}, {"git_token_env": "OTHER_TOKEN"}):
            with pytest.raises(Unfit, match="for a superuser to say"):
                WORKSPACES.change(actor=shop.admin, row=row, given=change)
        row = WORKSPACES.change(actor=shop.admin, row=row, given={"git_ref": "other", "name": "Shop"})
        assert row.may_be_fetched, "which branch is for the project to say"

    @pytest.mark.parametrize("change", [{"git_token_env": "OTHER_TOKEN"}, {"git_url": "http://127.0.0.1:1/x.git"}])
    def test_it_ends_with_the_address_that_it_was_for(self, shop: Shop, change: dict[str, str]) -> None:
        """By whatever door it is changed."""
        row = shop.made()
        Workspace.objects.filter(pk=row.pk).update(**change)
        made = shop.fetched(row)
        assert (made.state, "was not allowed" in made.why_not, shop.server.asked) == ("failed", True, [])
        row.refresh_from_db()
        with pytest.raises(NotPossible, match="was not allowed"):
            setups.fetch(actor=shop.operator, workspace=row)

    def test_fetch_it(self, shop: Shop) -> None:
        row = shop.made()
        shop.fetched(row)
        with pytest.raises(NotAllowed):
            setups.fetch(actor=make.user("vera", viewer=shop.project), workspace=row)
        folder = Workspace.objects.create(project=shop.project, name="empty")
        with pytest.raises(NotPossible, match="Nothing to fetch"):
            setups.fetch(actor=shop.operator, workspace=folder)

    def test_a_grant_of_a_set_up_ends_with_the_repository(self, shop: Shop) -> None:
        row = shop.made(setup_command="make")
        setups.state(actor=shop.boss, workspace=row, stated=setups.Stated(command="make", hosts=["pypi.org"]))
        assert row.granted_hosts == ["pypi.org"]
        row.git_url = "https://example.com/other.git"
        assert row.granted_hosts == []

    def test_nothing_is_written_into_it(self, shop: Shop) -> None:
        row = shop.made()
        shop.fetched(row)
        run = shop.submit(row)
        copies.prepare(run)
        run.refresh_from_db()
        Run.objects.filter(pk=run.pk).update(status=Run.Status.COMPLETED)
        run.refresh_from_db()
        for kind in ("folder", "branch"):
            with pytest.raises(CannotBeWritten, match="take the patch"):
                delivery.apply_result(actor=shop.boss, run=run, digest="", kind=kind)


@pytest.mark.parametrize(
    "url",
    [
        *("ssh://example.com/x.git", "git@example.com:x.git", "file:///srv/x", "ext::sh -c id", "-upload-pack=id"),
        *("https://", "https://example.com", "https://example.com/", "https://example.com/x?y=1", "https://ex ample/x"),
        *("https://example.com/x#y", "https://example.com/x\ny", "https://example.com:99999/x", "git://example.com/x"),
        *("https://-x.example/x", "//example.com/x", "https://example.com/'x", "HTTPS:/x", "https://[::1/x"),
    ],
)
def test_what_is_no_address_of_a_repository(url: str) -> None:
    assert sources.faults(Workspace(git_url=url)) == {"git_url": sources.ADDRESS}


@pytest.mark.parametrize(
    "url", ["https://ana:word@example.com/x", "https://ana@example.com/x", "https://@example.com/x"]
)
def test_no_credentials_in_the_address(url: str) -> None:
    assert sources.faults(Workspace(git_url=url)) == {"git_url": sources.NO_CREDENTIALS}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"path": "/srv/shop"}, {"git_url": sources.NOT_BOTH}),
        ({"copy_for_each_run": False}, {"copy_for_each_run": sources.COPIES_ONLY}),
        ({"git_url": "http://example.com/x", "git_token_env": "SHOP_TOKEN"}, {"git_url": sources.IN_CLEAR}),
        ({"git_url": "", "git_ref": "main"}, {"git_ref": sources.NEEDS_REPOSITORY}),
        *(({"git_token_env": name}, {"git_token_env": sources.NO_VARIABLE}) for name in ("ghp_x", "DATABASE_URL")),
        ({"git_token_env": "ANTHROPIC_API_KEY"}, {"git_token_env": sources.NO_VARIABLE}),
        *(({"git_ref": ref}, {"git_ref": sources.NO_BRANCH}) for ref in ("-x", "a..b", "a b", "a:b", "x.lock", "@{u}")),
        *(({"git_ref": ref}, {}) for ref in ("main", "feature/ä-1", "v1.0", "release@2", "a" * 40)),
        ({"git_url": "http://127.0.0.1:80/x", "git_token_env": "SHOP_TOKEN"}, {}),
        ({"git_url": "http://example.com/x"}, {}),
        ({"git_url": "http://example.com/x", "git_push_token_env": "SHOP_TOKEN"}, {"git_url": sources.IN_CLEAR}),
        ({"git_push_token_env": "ANTHROPIC_API_KEY"}, {"git_push_token_env": sources.NO_VARIABLE}),
    ],
)
def test_what_else_is_no_source(fields: dict[str, Any], fault: dict[str, str]) -> None:
    assert sources.faults(Workspace(**{"git_url": "https://example.com/team/x.git", **fields})) == fault

"""A workspace whose source is a branch, tag or commit of the repository in a folder (SPEC I7, S4)."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group

from loops import jobs
from loops.models import AuditEvent, Run, Setup, Workspace
from loops.runs.drive import drive
from loops.services import setups
from loops.services.configuration import Unfit
from loops.services.people import NotPossible, ensure_groups
from loops.services.tasks import submit_task
from loops.storage import facts_by_kind, journal
from loops.tools.sandbox import capability
from loops.workspaces import copies, installation, local_repository, sources
from loops.workspaces import setups as kept
from loops.workspaces.configured import WORKSPACES
from loops.workspaces.folder_copy import Copy
from tests import factories as make
from tests.integration.rollback.world import look
from tests.integration.services.git_server import git
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("I7", "S4", "J4")]
SECRET = "what nobody committed"


class Shop:
    """A project with a root, in which the repository of a person lies."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "shop"
        self.folder.mkdir(parents=True)
        self.project = make.project()
        self.boss = make.superuser("ana")
        self.admin = make.user("adam", admin=self.project)
        ensure_groups()
        self.admin.groups.add(Group.objects.get(name="admin"))
        self.admin.is_staff = True
        self.admin.save()
        self.operator = make.user("olga", operator=self.project)
        self.agent = make.agent(self.project)
        git(self.folder, "init", "-q")
        self.first = self.commit({"shop.py": "first\n", ".gitignore": "*.log\n"})

    def commit(self, files: dict[str, str], *words: str) -> str:
        for name, text in files.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(text)
        git(self.folder, "add", "-A")
        git(self.folder, *words, "commit", "-q", "--allow-empty", "-m", "Change it")
        return git(self.folder, "rev-parse", "HEAD")

    def dirty(self) -> None:
        """As people leave their folders: nothing of it is committed."""
        (self.folder / "shop.py").write_text(f"{SECRET}, stashed\n")
        git(self.folder, "stash")
        (self.folder / "shop.py").write_text(f"{SECRET}, staged\n")
        git(self.folder, "add", "shop.py")
        (self.folder / "shop.py").write_text(f"{SECRET}, edited\n")
        (self.folder / "new.py").write_text(SECRET)
        (self.folder / "private.log").write_text(SECRET)
        git(self.folder, "config", "remote.origin.url", f"https://ana:{SECRET}@example.com/x")

    def made(self, ref: str = "main", actor: Any = None, **more: Any) -> Workspace:
        given = {"name": "shop", "path": str(self.folder), "git_ref": ref, **more}
        return WORKSPACES.make(actor=actor or self.admin, project=self.project, given=given)

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
    settings.WORKSPACE_ROOTS = [str(tmp_path / "roots")]
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    return Shop(tmp_path / "roots")


class TestWhatIsFetched:
    @pytest.mark.parametrize("packed", [False, True])
    @pytest.mark.parametrize(
        "what", ["branch", "tag", "annotated tag", "tag of a tag", "commit", "short commit", "remote branch"]
    )
    def test_a_branch_a_tag_or_a_commit(self, shop: Shop, what: str, packed: bool) -> None:
        git(shop.folder, "tag", "light")
        git(shop.folder, "tag", "-a", "v1", "-m", "One")
        git(shop.folder, "tag", "-a", "v1-again", "-m", "Again", "v1")
        git(shop.folder, "update-ref", "refs/remotes/origin/main", shop.first)
        git(shop.folder, "checkout", "-q", "-b", "feature/x")
        second = shop.commit({"shop.py": "on a branch\n"})
        git(shop.folder, "checkout", "-q", "main")
        shop.commit({"shop.py": "later\n"})
        if packed:
            git(shop.folder, "gc", "-q")
        ref, at = {
            "branch": ("feature/x", second),
            "tag": ("light", shop.first),
            "annotated tag": ("v1", shop.first),
            "tag of a tag": ("v1-again", shop.first),
            "commit": (second, second),
            "short commit": (second[:9], second),
            "remote branch": ("origin/main", shop.first),
        }[what]
        made = shop.fetched(shop.made(ref))
        assert (made.state, made.key, made.why_not) == ("ready", at, ""), made.log
        assert f"Fetched {at}" in made.log

    def test_a_run_gets_what_is_committed_and_nothing_else(self, shop: Shop) -> None:
        git(shop.folder, "checkout", "-q", "-b", "other")
        shop.commit({"other.py": SECRET})
        git(shop.folder, "checkout", "-q", "main")
        at = shop.commit({"run.sh": "#!/bin/sh\n", "deep/er.txt": "x"})
        shop.dirty()
        before = look(shop.folder)
        row = shop.made()
        made = shop.fetched(row)
        assert (made.state, made.why_not) == ("ready", ""), made.log
        run = shop.submit(row)
        copy = Path(copies.prepare(run))
        assert git(copy, "ls-files").split("\n") == [".gitignore", "deep/er.txt", "run.sh", "shop.py"]
        assert (git(copy, "status", "--porcelain"), git(copy, "rev-parse", "HEAD")) == ("", at)
        assert git(copy, "log", "--all", "--format=%H") == at, "no branch, no stash, no history"
        kinds = git(copy, "cat-file", "--batch-all-objects", "--batch-check=%(objecttype)").split("\n")
        assert kinds.count("commit") == 1
        assert git(copy, "fsck", "--full") == ""
        assert not [file for file in copy.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]
        assert {path.name for path in copy.iterdir()} == {".git", ".gitignore", "deep", "run.sh", "shop.py"}
        assert look(shop.folder) == before
        run.refresh_from_db()
        assert run.copied_from == f"{shop.folder}@{at}"
        assert copies.where(run) == copies.Where(str(copy), own=True, source=str(shop.folder), commit=at)

    def test_nothing_of_the_repository_runs(self, shop: Shop, tmp_path: Path) -> None:
        """Neither hooks nor filters nor programs of its settings; with the control of an ordinary git."""
        fired = tmp_path / "fired"
        hook = f"#!/bin/sh\ntouch {fired} hook-fired\n"
        shop.commit({".gitattributes": "*.py filter=evil\n", "post-checkout": hook, "x.py": "x\n"})
        for name in ("post-checkout", "post-index-change", "reference-transaction"):
            (shop.folder / ".git/hooks").mkdir(exist_ok=True)
            (shop.folder / ".git/hooks" / name).write_text(hook)
            (shop.folder / ".git/hooks" / name).chmod(0o755)
        for key in ("filter.evil.smudge", "filter.evil.clean", "core.fsmonitor", "uploadpack.packObjectsHook"):
            git(shop.folder, "config", key, f"touch {fired} hook-fired; cat")
        fired.unlink(missing_ok=True)
        made = shop.fetched(shop.made())
        assert made.state == "ready", made.log
        assert not fired.exists()
        assert not list(kept.folder(made).rglob("hook-fired"))
        config = (kept.folder(made) / ".git/config").read_text()
        assert ("evil" in config, "fsmonitor" in config, "uploadpack" in config) == (False, False, False)
        assert not (kept.folder(made) / ".git/hooks").exists()
        git(shop.folder, "checkout", "-q", "--detach")
        assert fired.exists(), "the control: where somebody obeys, it fires"

    def test_a_shallow_clone_has_its_commit(self, shop: Shop, tmp_path: Path) -> None:
        at = shop.commit({"shop.py": "second\n"})
        git(tmp_path, "clone", "-q", "--depth=1", f"file://{shop.folder}", "roots/clone")
        made = shop.fetched(shop.made(path=str(tmp_path / "roots/clone")))
        assert (made.state, made.key, made.why_not) == ("ready", at, ""), made.log

    def test_a_link_that_leads_out_is_taken_away_and_said(self, shop: Shop) -> None:
        (shop.folder / "secrets").symlink_to("/root/.ssh")
        (shop.folder / "inside").symlink_to("shop.py")
        shop.commit({})
        made = shop.fetched(shop.made())
        assert (made.state, "taken away: secrets: a link that leads out" in made.log) == ("ready", True)

    def test_without_namespaces_as_any_command(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        weaker = capability.SandboxLevel(capability.CONFINED, "as asked")
        monkeypatch.setattr(installation, "sandbox_level", lambda: weaker)
        made = shop.fetched(shop.made())
        assert (made.state, made.key, made.why_not) == ("ready", shop.first, ""), made.log

    def test_no_command_no_fetch(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        none = capability.SandboxLevel(capability.FILES_ONLY, "as asked")
        monkeypatch.setattr(installation, "sandbox_level", lambda: none)
        made = shop.fetched(shop.made())
        assert (made.state, made.why_not.startswith("Commands are refused here")) == ("failed", True)

    def test_a_repository_that_is_packed_meanwhile(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        """What was loose is in a pack by then."""
        packed: list[str] = []

        class Packing(Copy):
            def run(self) -> None:
                super().run()
                if not packed:
                    packed.append(git(shop.folder, "gc", "-q", "--prune=now"))
                    raise FileNotFoundError("as where a file goes while it is copied")

        monkeypatch.setattr(local_repository, "Copy", Packing)
        made = shop.fetched(shop.made())
        assert (made.state, made.key, len(packed)) == ("ready", shop.first, 1), made.why_not

    def test_set_ups_have_it(self, shop: Shop) -> None:
        row = shop.made(setup_command="mkdir .venv && cp shop.py .venv/made")
        shop.dirty()
        with pytest.raises(NotPossible, match="Fetch it first"):
            setups.run(actor=shop.operator, workspace=row)
        shop.fetched(row)
        made = setups.run(actor=shop.operator, workspace=row)
        jobs.set_up(str(made.pk))
        assert (Path(copies.prepare(shop.submit(row))) / ".venv/made").read_text() == "first\n"


class TestWhen:
    def test_a_run_waits_for_it_and_goes_on(self, shop: Shop) -> None:
        row = shop.made()
        assert Setup.objects.get().command == f"git fetch {shop.folder} main", "ordered as it was saved"
        run = shop.submit(row)
        assert drive(run.pk, "one") == "folder"
        run.refresh_from_db()
        assert run.waiting_on == "its workspace: The fetch of shop is under way"
        shop.fetched(row)
        assert Path(copies.prepare(run), "shop.py").read_text() == "first\n"

    def test_a_commit_made_a_moment_before_it_is_submitted_is_in_it(self, shop: Shop) -> None:
        row = shop.made()
        shop.fetched(row)
        copies.prepare(shop.submit(row))
        assert Setup.objects.count() == 1, "it did not move"
        shop.commit({"shop.py": "second\n"})
        run = shop.submit(row)
        with pytest.raises(copies.WorkspaceElsewhere, match="is being fetched"):
            copies.prepare(run)
        shop.fetched(row)
        shop.commit({"shop.py": "third\n"})
        assert Path(copies.prepare(run), "shop.py").read_text() == "second\n", "fetched since it was submitted"

    def test_a_whole_commit_is_fetched_once(self, shop: Shop) -> None:
        row = shop.made(shop.first)
        shop.fetched(row)
        shop.commit({"shop.py": "second\n"})
        assert Path(copies.prepare(shop.submit(row)), "shop.py").read_text() == "first\n"

    def test_a_run_ends_with_the_reason_and_the_next_one_has_it_tried_again(self, shop: Shop) -> None:
        git(shop.folder, "branch", "soon")
        row = shop.made("soon")
        git(shop.folder, "branch", "-D", "soon")
        run = shop.submit(row)
        assert drive(run.pk, "one") == "folder"
        made = shop.fetched(row)
        assert (made.state, made.why_not) == ("failed", "The repository has no branch, tag or commit soon.")
        drive(run.pk, "two")
        run.refresh_from_db()
        assert (run.status, run.end_reason) == ("failed", "workspace_unusable")
        ended = facts_by_kind.read(journal.raw_connection(), run.pk, ("RunEnded",))[0]
        assert "was not fetched: The repository has no branch, tag or commit soon." in str(ended)
        git(shop.folder, "branch", "soon")
        assert drive(shop.submit(row).pk, "three") == "folder"
        assert shop.fetched(row).state == "ready"

    def test_a_folder_that_is_on_another_machine(self, shop: Shop) -> None:
        row = shop.made()
        shop.folder.rename(shop.folder.with_name("elsewhere"))
        made = shop.fetched(row)
        assert (made.state, "is not on worker" in made.why_not) == ("failed", True), made.why_not

    def test_it_is_stopped_while_it_is_copied(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        row = shop.made()
        monkeypatch.setattr("loops.workspaces.folder_copy.EVERY_S", 0.0)

        class Stopping(Copy):
            def run(self) -> None:
                setups.stop(actor=shop.operator, workspace=row)
                super().run()

        monkeypatch.setattr(local_repository, "Copy", Stopping)
        made = shop.fetched(row)
        assert (made.state, made.why_not) == ("stopped", "Stopped by olga.")
        assert [path.name for path in copies.root().iterdir()] == []


def no_repository(shop: Shop) -> None:
    shutil.rmtree(shop.folder / ".git")


def bare(shop: Shop) -> None:
    git(shop.folder.parent, "clone", "-q", "--bare", "shop", "bare")
    shutil.rmtree(shop.folder)
    (shop.folder.parent / "bare").rename(shop.folder)


def linked_worktree(shop: Shop) -> None:
    shop.folder.rename(shop.folder.with_name("main"))
    git(shop.folder.with_name("main"), "worktree", "add", "-q", "-f", "-B", "beside", str(shop.folder))


def borrowing(shop: Shop) -> None:
    shop.folder.rename(shop.folder.with_name("lender"))
    git(shop.folder.parent, "clone", "-q", "--shared", "lender", "shop")


def sha256(shop: Shop) -> None:
    shutil.rmtree(shop.folder / ".git")
    git(shop.folder, "init", "-q", "--object-format=sha256")
    shop.commit({})


def git_is_a_link(shop: Shop) -> None:
    (shop.folder / ".git").rename(shop.folder.with_name("git"))
    (shop.folder / ".git").symlink_to("../git")


def objects_are_a_link(shop: Shop) -> None:
    (shop.folder / ".git/objects").rename(shop.folder.with_name("objects"))
    (shop.folder / ".git/objects").symlink_to(shop.folder.with_name("objects"))


def packs_are_a_link(shop: Shop) -> None:
    git(shop.folder, "gc", "-q")
    (shop.folder / ".git/objects/pack").rename(shop.folder.with_name("pack"))
    (shop.folder / ".git/objects/pack").symlink_to(shop.folder.with_name("pack"))


def a_branch_is_a_link(shop: Shop) -> None:
    (shop.folder / ".git/refs/heads/main").rename(shop.folder.with_name("ref"))
    (shop.folder / ".git/refs/heads/main").symlink_to(shop.folder.with_name("ref"))


def nothing_committed(shop: Shop) -> None:
    shutil.rmtree(shop.folder / ".git")
    git(shop.folder, "init", "-q")


def no_such_branch(shop: Shop) -> None:
    git(shop.folder, "branch", "-m", "main", "trunk")


def of_no_commit(shop: Shop) -> None:
    git(shop.folder, "checkout", "-q", "-b", "trunk")
    git(shop.folder, "branch", "-D", "main")
    git(shop.folder, "tag", "main", "HEAD^{tree}")


REFUSED: list[tuple[Callable[[Shop], None], str, str]] = [
    (no_repository, "path", "not the top of a git repository: name the folder"),
    (bare, "path", "a bare repository, which AgentOps does not read: clone it"),
    (linked_worktree, "path", "name the folder of that one"),
    (borrowing, "path", "`git repack -a -d` gives it its own"),
    (sha256, "path", "its objects by sha256"),
    (git_is_a_link, "path", "leads through a link"),
    (objects_are_a_link, "path", "through a link"),
    (packs_are_a_link, "path", "through a link"),
    (a_branch_is_a_link, "path", "through a link"),
    (nothing_committed, "git_ref", "has no commit yet: make the first one"),
    (no_such_branch, "git_ref", "no branch, tag or commit main"),
    (of_no_commit, "git_ref", "main is no commit"),
]


class TestWhatIsRefused:
    @pytest.mark.parametrize(("change", "field", "why"), REFUSED)
    def test_it_is_said_as_it_is_saved(self, shop: Shop, change: Any, field: str, why: str) -> None:
        change(shop)
        with pytest.raises(Unfit) as error:
            shop.made()
        assert list(error.value.errors) == [field]
        assert why in error.value.errors[field]

    @pytest.mark.parametrize(("change", "field", "why"), REFUSED)
    def test_and_where_it_became_so_by_the_fetch(self, shop: Shop, change: Any, field: str, why: str) -> None:
        row = shop.made()
        change(shop)
        made = shop.fetched(row)
        assert (made.state, why in made.why_not) == ("failed", True), made.why_not
        renamed = WORKSPACES.change(actor=shop.admin, row=row, given={"name": "Shop"})
        assert renamed.name == "Shop", "what is not stated anew is not asked about again"

    def test_a_link_among_the_objects_is_not_followed(self, shop: Shop, tmp_path: Path) -> None:
        outside = tmp_path / "outside"
        outside.write_text(SECRET)
        (shop.folder / ".git/objects/ab").mkdir(exist_ok=True)
        (shop.folder / ".git/objects/ab" / ("c" * 38)).symlink_to(outside)
        made = shop.fetched(shop.made())
        assert (made.state, "leads out of the workspace" in made.why_not) == ("failed", True), made.why_not

    def test_a_commit_of_which_a_part_is_elsewhere(self, shop: Shop, tmp_path: Path) -> None:
        git(shop.folder, "config", "uploadpack.allowFilter", "true")
        git(tmp_path, "clone", "-q", "--filter=blob:none", "--no-checkout", f"file://{shop.folder}", "roots/part")
        made = shop.fetched(shop.made(path=str(tmp_path / "roots/part")))
        assert (made.state, "as in a partial clone" in made.why_not) == ("failed", True), (made.why_not, made.log)

    def test_the_beginning_of_no_commit(self, shop: Shop) -> None:
        made = shop.fetched(shop.made("abcdef1"))
        assert (made.state, made.why_not) == ("failed", "It has no commit abcdef1.")

    def test_what_is_too_large(self, shop: Shop) -> None:
        shop.commit({f"many_{number}": "x" for number in range(100)})
        made = shop.fetched(shop.made(workspace_files=100))
        assert made.state == "failed"
        assert made.why_not.startswith(
            "It is too large: the workspace has more than 100 files. An admin raises that on"
        )

    @pytest.mark.parametrize(
        ("given", "fault"),
        [
            ({"copy_for_each_run": False}, {"copy_for_each_run": sources.NOT_IN_PLACE}),
            ({"git_token_env": "SHOP_TOKEN"}, {"git_token_env": sources.NEEDS_ADDRESS}),
            ({"path": ""}, {"git_ref": sources.NEEDS_REPOSITORY}),
            ({"path": f"/srv/{'x' * 450}"}, {"path": sources.TOO_LONG}),
            ({"git_ref": "--upload-pack=id"}, {"git_ref": sources.NO_BRANCH}),
            ({"git_ref": "../../config"}, {"git_ref": sources.NO_BRANCH}),
            ({"git_url": "https://example.com/x"}, {"git_url": sources.NOT_BOTH}),
        ],
    )
    def test_what_does_not_go_together(self, shop: Shop, given: dict[str, Any], fault: dict[str, str]) -> None:
        stated = {"path": str(shop.folder), "git_ref": "main", **given}
        assert sources.faults(Workspace(**stated)) == fault
        row = shop.made()
        Workspace.objects.filter(pk=row.pk).update(**stated)
        row.refresh_from_db()
        assert " ".join(fault.values()) in copies.why_refused(row) or "git_url" in given, "whatever door it came by"


class TestWhoMay:
    def test_the_folder_is_held_to_the_rule_of_folders(self, shop: Shop, tmp_path: Path) -> None:
        """And nobody learns of the repository in one that is not theirs."""
        outside = tmp_path / "outside"
        shop.folder.rename(outside)
        for ref in ("main", "gone"):
            with pytest.raises(Unfit, match="is not free") as error:
                shop.made(ref, path=str(outside))
            assert list(error.value.errors) == ["path"]
        assert AuditEvent.objects.filter(kind="workspace.refused", actor=shop.admin).count() == 2
        given = {"name": "shop", "path": str(outside), "git_ref": "main"}
        row = WORKSPACES.make(actor=shop.boss, project=shop.project, given=given, allow=True)
        assert shop.fetched(row).state == "ready"

    def test_it_is_asked_again_by_the_fetch(self, shop: Shop, settings: Any) -> None:
        row = shop.made()
        settings.WORKSPACE_ROOTS = []
        made = shop.fetched(row)
        assert (made.state, "outside the workspace roots" in made.why_not) == ("failed", True)
        assert AuditEvent.objects.filter(kind="workspace.fetch_ended").count() == 1

    def test_an_admin_chooses_the_branch(self, shop: Shop) -> None:
        git(shop.folder, "branch", "other")
        row = shop.made()
        shop.fetched(row)
        row = WORKSPACES.change(actor=shop.admin, row=row, given={"git_ref": "other"})
        assert shop.fetched(row).command == f"git fetch {shop.folder} other"
        row = WORKSPACES.change(actor=shop.admin, row=row, given={"git_ref": ""})
        assert (row.is_fetched, copies.existing(row)) == (False, shop.folder), "and without one, the files as they lie"

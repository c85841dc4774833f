"""What is old goes, with a tombstone; what anybody still needs stays, whatever the application's role tries."""

from __future__ import annotations

import threading
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import DatabaseError, connection, connections, transaction
from django.urls import reverse
from django.utils import timezone

from agentops import jobs, roles
from agentops.ops import pruning
from loops.engine import facts as f
from loops.engine.encoding import canonical
from loops.engine.state.lifecycle import Event, Phase
from loops.models import Artifact, AuditEvent, Blob, CondemnedBlob, Fact, Fork, Project, Run, Tombstone
from loops.services import retention
from loops.storage import blobs, chain, journal, reader, rebuild
from tests import factories as make
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("N1", "J6")]

LONG = "x" * 10_000
TRUNK = "of all runs " * 1000


def ended(project: Project, text: str, days: int = 40, **row: Any) -> Run:
    """A run that said something long of its own, and something that all runs say, and failed long ago."""
    mine = owned.begun(owned.new_run(project))
    mine.append(f.MessageReceived(text=text), f.MessageReceived(text=TRUNK))
    report = {"kind": "FailureReport", "explanation": "Went in circles.", "diagnosis": text + " at the end"}
    mine.append(
        f.PhaseEntered(phase=Phase.FAIL, event=Event.ERROR, came_from=Phase.PLAN),
        f.RunEnded(phase=Phase.FAIL, reason="max_steps", report=report, report_kind="FailureReport"),
    )
    mine.journal.release()
    old = {"completed_at": timezone.now() - timedelta(days=days), "end_reason": "max_steps"}
    Run.objects.filter(pk=mine.run.pk).update(**{**old, **row})
    mine.run.refresh_from_db()
    return mine.run


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was just marked may go at once."""
    monkeypatch.setattr(retention, "GRACE_S", 0)


@pytest.fixture
def project(state: Path) -> Project:
    return make.project(keep_days=30)


def stored(text: str) -> bool:
    return Blob.objects.filter(pk=canonical.sha256(text)).exists()


def folder_of(run: Run, state: Path) -> Path:
    folder = state / "workspaces" / str(run.pk)
    folder.mkdir(parents=True)
    (folder / "big.bin").write_bytes(b"1" * 1000)
    return folder


class TestPruning:
    def test_takes_the_long_texts_and_the_folder_of_what_is_old(self, project: Project, state: Path) -> None:
        old, young = ended(project, LONG), ended(project, LONG + "young", days=20)
        folder, kept = folder_of(old, state), folder_of(young, state)
        before = [bytes(fact.hash) for fact in Fact.objects.filter(run=old)]
        freed = pruning.prune().bytes
        assert (stored(LONG), stored(LONG + "young"), stored(TRUNK)) == (False, True, True)
        assert (folder.exists(), kept.exists()) == (False, True)
        assert [bytes(fact.hash) for fact in Fact.objects.filter(run=old)] == before
        stone = Tombstone.objects.get()
        assert (stone.run, stone.head_seq, bytes(stone.head_hash)) == (old, old.head_seq, bytes(old.head_hash))
        assert (stone.blobs, stone.folder_bytes, freed) == (1, 1000, stone.blob_bytes + 1000)
        assert AuditEvent.objects.get(kind="run.pruned").run == old
        assert pruning.prune() == retention.Pruned()

    def test_is_reported_as_pruned_and_not_as_broken(self, project: Project) -> None:
        old = ended(project, LONG)
        assert (chain.verify().problems, chain.verify().pruned) == ([], 0)
        pruning.prune()
        report = chain.verify()
        assert (report.problems, report.pruned) == ([], 2)  # its own text, and TRUNK, which nobody else needed
        out = StringIO()
        call_command("verify_chain", stdout=out)
        assert "2 bodies were pruned" in out.getvalue()
        assert rebuild.rebuild(old.pk).differences == []

    def test_a_body_that_is_gone_without_a_tombstone_is_missed(self, project: Project) -> None:
        """The negative control: the same bytes gone from a run that was not pruned."""
        run = ended(project, LONG, days=1)
        with owned.superuser() as thief:
            thief.execute("ALTER TABLE loops_blob DISABLE TRIGGER ALL")
            thief.execute("DELETE FROM loops_blob WHERE sha256 = %s", [canonical.sha256(LONG)])
            thief.execute("ALTER TABLE loops_blob ENABLE ALWAYS TRIGGER loops_blob_rows")
            thief.execute("ALTER TABLE loops_blob ENABLE ALWAYS TRIGGER loops_blob_whole")
        assert chain.verify().problems == [f"run {run.pk}: blob {canonical.sha256(LONG)} is missing"]

    def test_the_final_report_stays_and_must_be_there(self, project: Project) -> None:
        old = ended(project, LONG)
        pruning.prune()
        assert reader.report(old.pk)["diagnosis"].endswith("at the end")
        report = Artifact.objects.get(run=old, kind="FailureReport").sha256
        with owned.superuser() as thief:
            thief.execute("ALTER TABLE loops_blob DISABLE TRIGGER ALL")
            thief.execute("DELETE FROM loops_blob WHERE sha256 = %s", [report])
            thief.execute("ALTER TABLE loops_blob ENABLE ALWAYS TRIGGER loops_blob_rows")
            thief.execute("ALTER TABLE loops_blob ENABLE ALWAYS TRIGGER loops_blob_whole")
        assert f"run {old.pk}: blob {report} is missing" in chain.verify().problems

    def test_a_tombstone_of_another_journal_is_found(self, project: Project) -> None:
        run = ended(project, LONG, days=1)
        Tombstone.objects.create(run=run, head_seq=2, head_hash=b"x", blobs=0, blob_bytes=0, reason="forged")
        assert chain.verify().problems == [f"run {run.pk}: its tombstone is of another journal"]

    def test_off_by_default(self, state: Path) -> None:
        ended(make.project(), LONG, days=4000)
        assert retention.survey().old == []
        assert jobs.prune() == 0
        assert stored(LONG)


HELD = {
    "a gate that waits": lambda run: make.gate(run),
    "a fork": lambda run: Fork.objects.create(
        run=owned.new_run(run.project),
        parent=run,
        seq=1,
        step=0,
        head=b"",
        content_sha256="",
        created_by=run.task.created_by,
    ),
    "a stop that can be resumed": lambda run: Run.objects.filter(pk=run.pk).update(status="interrupted"),
    "a failure that can be tried again": lambda run: Run.objects.filter(pk=run.pk).update(end_reason="internal_error"),
    "mail": lambda run: run.mailbox.create(kind="message"),
    "an owner": lambda run: Run.objects.filter(pk=run.pk).update(owner="somebody"),
}


@pytest.mark.parametrize("why", HELD)
def test_a_run_that_is_needed_is_held(project: Project, why: str) -> None:
    run = ended(project, LONG)
    assert [old.run for old in retention.survey().old] == [run]
    HELD[why](run)
    found = retention.survey()
    assert (found.old, sum(found.held.values())) == ([], 1)
    pruning.prune()
    assert stored(LONG)
    assert not Tombstone.objects.exists()


def test_what_a_kept_run_needs_by_way_of_another_body_stays(project: Project) -> None:
    """A snapshot names files by hash: the file's bytes are needed although no fact names them."""
    data = b"def f(): ...\n" * 500
    file = blobs.save(data)
    snapshot = blobs.save(canonical.encode({"a.py": f"file:644:{file}"}))
    old = owned.begun(owned.new_run(project))
    for mine in (old, owned.begun(owned.new_run(project))):
        mine.append(f.MessageReceived(text=f"snapshot {snapshot}"))
    ended_at = timezone.now() - timedelta(days=400)
    Run.objects.filter(pk=old.run.pk).update(
        status="failed", end_reason="max_steps", owner="", lease_until=None, completed_at=ended_at
    )
    assert [one.blobs for one in retention.survey().old] == [{}]
    Run.objects.exclude(pk=old.run.pk).update(
        status="failed", end_reason="max_steps", owner="", lease_until=None, runnable=False,
        completed_at=ended_at + timedelta(days=1),
    )  # fmt: skip
    pruning.prune()
    assert not Blob.objects.filter(pk__in=[file, snapshot]).exists()
    assert Tombstone.objects.count() == 2


def test_a_run_that_begins_to_need_a_body_meanwhile_keeps_it(project: Project) -> None:
    """Between the survey and the deletion another run says the same words: its journal stays whole."""
    ended(project, LONG)
    with roles.as_owner():
        found = retention.survey()
        assert len(found.old[0].blobs) == 2
    living = owned.begun(owned.new_run(project))
    living.append(f.MessageReceived(text=LONG))
    living.journal.release()
    with roles.as_owner():
        retention.prune(found)
    assert stored(LONG)
    assert journal.load(living.run.pk) is not None
    assert chain.verify().problems == []


def test_a_body_goes_only_a_while_after_it_was_marked(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker may have found it stored a moment ago; one that asks from now on is not told of it."""
    monkeypatch.setattr(retention, "GRACE_S", 3600)
    ended(project, LONG)
    sha256 = canonical.sha256(LONG)
    told = lambda: blobs.Stored(journal.raw_connection()).among([sha256])  # noqa: E731
    assert told() == {sha256}
    done = pruning.prune()
    assert (done.runs, done.marked, stored(LONG), told()) == (0, 1, True, set())
    pruning.prune()
    assert stored(LONG)
    CondemnedBlob.objects.update(at=timezone.now() - timedelta(hours=2))
    assert pruning.prune().runs == 1
    assert not stored(LONG)


def test_a_mark_is_taken_back_when_the_project_keeps_its_runs_after_all(project: Project) -> None:
    ended(project, LONG)
    with roles.as_owner():
        retention._mark(connection.cursor(), retention.survey())
    assert CondemnedBlob.objects.count() == 2
    Project.objects.filter(pk=project.pk).update(keep_days=None)
    pruning.prune()
    assert not CondemnedBlob.objects.exists()


@pytest.mark.parametrize("stays", ["first", "second"])
def test_what_two_old_runs_share_goes_with_the_later_of_them(
    project: Project, monkeypatch: pytest.MonkeyPatch, stays: str
) -> None:
    """One of them is held after all, between the survey and its turn: what it needs stays."""
    runs = {"first": ended(project, LONG + "1", days=50), "second": ended(project, LONG + "2", days=40)}
    with roles.as_owner():
        found = retention.survey()
        make.gate(runs[stays])
        assert retention.prune(found).runs == 1
    assert (stored(LONG + "1"), stored(LONG + "2")) == (stays == "first", stays == "second")
    assert stored(TRUNK)
    assert chain.verify().problems == []


def test_appends_wait_for_a_deletion_and_store_the_body_again(project: Project) -> None:
    run = ended(project, LONG)
    living = owned.begun(owned.new_run(project))
    done = threading.Event()

    def say_the_same() -> None:
        try:
            living.journal.connection = journal.raw_connection()
            living.append(f.MessageReceived(text=LONG))
            done.set()
        finally:
            connections.close_all()

    with owned.superuser() as owner, owner.transaction():
        owner.execute("LOCK TABLE loops_blob IN SHARE ROW EXCLUSIVE MODE")
        owner.execute(
            "INSERT INTO loops_tombstone (run_id, at, head_seq, head_hash, blobs, blob_bytes, folder_bytes, reason) "
            "SELECT id, now(), head_seq, head_hash, 1, 1, 0, 'test' FROM agent_execution_history WHERE id = %s",
            [run.pk],
        )
        owner.execute("SELECT set_config('agentops.pruning', %s, true)", [str(run.pk)])
        owner.execute("DELETE FROM loops_blob WHERE sha256 = %s", [canonical.sha256(LONG)])
        speaker = threading.Thread(target=say_the_same)
        speaker.start()
        waits = "SELECT 1 FROM pg_locks WHERE NOT granted AND relation = 'loops_blob'::regclass"
        while not owner.execute(waits).fetchone():
            assert speaker.is_alive()
    speaker.join()
    assert done.is_set()
    assert stored(LONG)
    assert chain.verify(living.run.pk).problems == []


class TestOnlyTheOwner:
    DELETE = "DELETE FROM loops_blob"

    def test_the_application_may_not_even_when_it_says_so(self, project: Project) -> None:
        run = ended(project, LONG)
        found = retention.survey()
        with pytest.raises(retention.NotTheOwner):
            retention.prune(found)
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('agentops.pruning', %s, true)", [str(run.pk)])
            with pytest.raises(DatabaseError, match="permission denied"):
                cursor.execute(self.DELETE)
            transaction.set_rollback(True)
        assert stored(LONG)

    def test_the_owner_may_not_without_a_tombstone_of_this_moment(self, project: Project) -> None:
        run = ended(project, LONG)
        Tombstone.objects.create(
            run=run, head_seq=run.head_seq, head_hash=run.head_hash, blobs=1, blob_bytes=1, reason="earlier"
        )
        with owned.superuser() as owner:
            for said in ("", str(run.pk)):
                owner.execute("SELECT set_config('agentops.pruning', %s, false)", [said])
                with pytest.raises(psycopg.DatabaseError, match="append-only"):
                    owner.execute(self.DELETE)
        assert stored(LONG)

    def test_without_its_login_the_nightly_job_leaves_it(self, project: Project, settings: Any) -> None:
        from agentops.ops import checks

        ended(project, LONG)
        settings.DATABASE_OWNER = None
        assert jobs.prune() == 0
        told = {check.name: check for check in checks.standing()}["retention"]
        assert (told.status, "DATABASE_OWNER_URL" in told.todo) == (checks.WARNING, True)
        assert stored(LONG)

    def test_with_it_the_job_prunes(self, project: Project) -> None:
        ended(project, LONG)
        assert jobs.prune() > 10_000
        assert not stored(LONG)


def test_the_command_says_what_would_go_and_why_the_rest_stays(project: Project, state: Path) -> None:
    old, held = ended(project, LONG), ended(project, LONG + "held")
    folder_of(old, state)
    make.gate(held)
    out = StringIO()
    call_command("prune", "--dry-run", stdout=out)
    lines = out.getvalue().splitlines()
    assert "1 older runs stay: waits for a person" in lines
    assert any(line.startswith(f"would be pruned: {old.pk}") and "folder with 1,000 bytes" in line for line in lines)
    assert lines[-1].startswith("1 runs, 11,")
    assert stored(LONG)
    out = StringIO()
    call_command("prune", stdout=out)
    assert "Pruned 1 runs, 11," in out.getvalue()
    assert not stored(LONG)
    assert stored(LONG + "held")


@pytest.mark.spec("S1")
def test_admins_set_it_and_that_is_audited(project: Project, client: Any) -> None:
    root = make.superuser()
    client.force_login(root)
    address = reverse("admin:loops_project_change", args=[project.pk])
    assert 'name="keep_days"' in client.get(address).content.decode()
    members = {f"memberships-{name}": "0" for name in ("TOTAL_FORMS", "INITIAL_FORMS", "MIN_NUM_FORMS")}
    given = {"name": project.name, "slug": project.slug, **members}
    assert client.post(address, {**given, "keep_days": "0"}).status_code == 200  # refused: at least one day
    assert client.post(address, {**given, "keep_days": "7"}).status_code == 302
    project.refresh_from_db()
    assert project.keep_days == 7
    event = AuditEvent.objects.get(kind="retention.changed")
    assert (event.actor, event.detail) == (root, {"before": 30, "after": 7})


def test_pages_of_a_pruned_run_say_so(project: Project, client: Any) -> None:
    from loops.services.forks import fork_run
    from loops.services.tasks import InvalidTask

    run = ended(project, LONG)
    person = make.user(operator=project)
    client.force_login(person)
    pruning.prune()
    for name, said in (
        ("run", "Went in circles."),
        ("run-conversation", "The conversation was pruned"),
        ("run-raw", "(pruned)"),
        ("run-lifecycle", "Failed"),
    ):
        assert said in client.get(reverse(name, args=[run.pk])).content.decode(), name
    verified = client.post(reverse("run-verify", args=[run.pk]), headers={"HX-Request": "true"}).content.decode()
    assert "more were pruned" in verified
    with pytest.raises(InvalidTask, match="pruned"):
        fork_run(actor=person, run=run)


def test_the_clock_rings_once_a_night() -> None:
    from agentops.celery import app

    app.loader.import_default_modules()
    entry = app.conf.beat_schedule["prune"]
    assert (entry["task"], entry["schedule"].hour, entry["options"]) == ("agentops.prune", {3, 5}, {"expires": 3600})

"""A backup is whole or refused; what is restored is what was there, and nobody's old lease comes with it."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as configured
from django.db import connection

from agentops import roles
from agentops.evidence import anchors, rounds, verification
from agentops.ops import OpsError, archive
from agentops.ops.backup import back_up
from agentops.ops.restore import EPOCH_LEAP, restore
from loops.engine import facts as f
from loops.engine.ports import LeaseLost
from loops.models import AuditEvent, Fact, Run
from loops.services import audit
from loops.storage import chain, journal
from tests import factories as make
from tests.integration.ops.conftest import NEWCOMER
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4", "N1")]


def at_work(state: Path) -> owned.Owned:
    """A run that a living worker owns."""
    mine = owned.begun()
    mine.append(f.MessageReceived(text="x" * 10_000, by="ana"))
    Run.objects.filter(pk=mine.run.pk).update(workspace_path=str(state / "workspaces" / "a-run"))
    return mine


def facts(run: Run) -> list[Any]:
    return [(row.seq, bytes(row.body), bytes(row.hash)) for row in Fact.objects.filter(run=run).order_by("seq")]


def count_of_tables() -> int:
    with connection.cursor() as cursor:
        return len(connection.introspection.table_names(cursor))


class TestWhatIsRestored:
    def test_is_what_was_there(self, state: Path, elsewhere: Any, tmp_path: Path) -> None:
        done, mine = owned.committed(), at_work(state)
        before = facts(mine.run)
        manifest = back_up(tmp_path / "b.zip")
        assert manifest.runs[str(mine.run.pk)] == (len(before), before[-1][2].hex())
        assert (tmp_path / "b.zip").stat().st_mode & 0o777 == 0o600
        there = elsewhere()
        report = restore(tmp_path / "b.zip")
        assert (report.problems, report.runs, report.records) == ([], 2, 1)
        assert facts(mine.run) == before
        assert Run.objects.get(pk=done.run.pk).status == "completed"
        assert AuditEvent.objects.filter(kind="installation.restored").count() == 1
        assert (there / "workspaces/a-run/notes.txt").read_text() == "half done"
        assert (there / "workspaces/a-run/link").readlink() == Path("notes.txt")
        assert (there / "secret").read_text() == "the first secret"
        assert Run.objects.get(pk=mine.run.pk).workspace_path == str(there / "workspaces" / "a-run")
        assert not (there / "restore.draft").exists()

    def test_what_is_installed_fetched_or_tried_anew_is_not_in_it(self, state: Path, tmp_path: Path) -> None:
        """Packages of set-ups take gigabytes; a run that needs them has them made."""
        names = ("a-run", "setups", "setup-1-made", "preflight-1", ".draft")
        for name in names:
            (state / "workspaces" / name).mkdir(parents=True, exist_ok=True)
        back_up(tmp_path / "b.zip")
        with zipfile.ZipFile(tmp_path / "b.zip") as whole:
            (packed,) = [name for name in whole.namelist() if ".tar" in name]
            with tarfile.open(fileobj=io.BytesIO(whole.read(packed))) as files:
                found = {name.split("/")[1] for name in files.getnames() if name.startswith("workspaces/")}
        assert found == {"a-run"}

    def test_the_anchor_comes_with_it_and_vouches_for_it(self, state: Path, elsewhere: Any, tmp_path: Path) -> None:
        """It is as old as the snapshot: what is anchored while the backup is written is not in it."""
        owned.committed()
        assert rounds.keep()
        manifest = back_up(tmp_path / "b.zip")
        assert anchors.parsed(manifest.anchor).heads == anchors.newest().heads
        there = elsewhere()
        assert restore(tmp_path / "b.zip").problems == []
        assert anchors.parsed(manifest.anchor) == anchors.newest()
        assert (there / "anchors").stat().st_mode & 0o777 == 0o700
        assert rounds.keep()
        assert verification.verify().problems == []

    def test_a_backup_that_was_cut_before_it_was_made_is_not_as_it_was(
        self, state: Path, elsewhere: Any, tmp_path: Path
    ) -> None:
        owned.committed()
        audit.record("test.happened", actor=None)
        assert rounds.keep()
        with owned.superuser() as root:
            root.execute("ALTER TABLE loops_auditevent DISABLE TRIGGER ALL")
            root.execute("DELETE FROM loops_auditevent WHERE kind = 'test.happened'")
            root.execute("ALTER TABLE loops_auditevent ENABLE ALWAYS TRIGGER loops_auditevent_rows")
            root.execute("ALTER TABLE loops_auditevent ENABLE ALWAYS TRIGGER loops_auditevent_whole")
        back_up(tmp_path / "b.zip")
        elsewhere()
        with pytest.raises(OpsError, match=r"restored, but not as it was: loops_auditevent: .* was removed"):
            restore(tmp_path / "b.zip")

    def test_an_older_one_is_said_to_be_older_than_the_anchor(
        self, state: Path, elsewhere: Any, tmp_path: Path
    ) -> None:
        owned.committed()
        assert rounds.keep()
        back_up(tmp_path / "b.zip")
        elsewhere()
        restore(tmp_path / "b.zip")
        assert rounds.keep()
        said: list[str] = []
        restore(tmp_path / "b.zip", force=True, say=said.append)
        assert any("is newer than this backup: confirm with `manage.py anchor --anew" in line for line in said), said
        assert not rounds.keep()
        rounds.begin_anew("restored")
        assert rounds.keep()
        assert verification.verify().problems == []

    def test_history_is_protected_as_before(self, state: Path, elsewhere: Any, tmp_path: Path) -> None:
        at_work(state)
        back_up(tmp_path / "b.zip")
        elsewhere()
        restore(tmp_path / "b.zip")
        assert roles.database_promises()["append_only_protected"]
        with owned.superuser() as thief, pytest.raises(Exception, match="append-only"):
            thief.execute("DELETE FROM loops_fact")

    @pytest.mark.spec("J3")
    def test_fences_an_owner_who_still_lives(self, state: Path, elsewhere: Any, tmp_path: Path) -> None:
        mine = at_work(state)
        back_up(tmp_path / "b.zip")
        elsewhere()
        restore(tmp_path / "b.zip")
        run = Run.objects.get(pk=mine.run.pk)
        assert (run.owner, run.lease_until, run.runnable) == ("", None, True)
        assert run.epoch == mine.held.epoch + EPOCH_LEAP
        mine.journal.connection = journal.raw_connection()  # the old worker, led to the new database
        for write in (lambda: mine.append(f.RunPaused(by="stale")), mine.journal.renew):
            with pytest.raises(LeaseLost):
                write()
        after = owned.own(run, "next")
        after.append(f.RunPaused(by="ana"))
        assert chain.verify(run.pk).ok

    def test_the_applications_own_role_can_make_one(
        self, state: Path, elsewhere: Any, tmp_path: Path, settings: Any
    ) -> None:
        """Where only `migrate` knows the owner's login."""
        at_work(state)
        owner, settings.DATABASE_OWNER = settings.DATABASE_OWNER, None
        back_up(tmp_path / "b.zip")
        settings.DATABASE_OWNER = owner
        elsewhere()
        assert restore(tmp_path / "b.zip").problems == []

    def test_without_the_leap_the_old_owner_would_write(
        self, state: Path, elsewhere: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The negative control of the test above."""
        mine = at_work(state)
        back_up(tmp_path / "b.zip")
        elsewhere()
        monkeypatch.setattr("agentops.ops.restore.EPOCH_LEAP", 0)
        restore(tmp_path / "b.zip")
        mine.journal.connection = journal.raw_connection()
        mine.append(f.RunPaused(by="stale"))

    def test_on_a_server_that_knows_only_its_owner(
        self, state: Path, elsewhere: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at_work(state)
        back_up(tmp_path / "b.zip")
        monkeypatch.setitem(configured.DATABASES["default"], "USER", NEWCOMER)
        monkeypatch.setitem(configured.DATABASES["default"], "PASSWORD", "x")
        elsewhere(USER=NEWCOMER, PASSWORD="x")
        assert restore(tmp_path / "b.zip").problems == []
        promises = roles.database_promises()
        assert (promises["role"], promises["append_only_protected"]) == (NEWCOMER, True)

    def test_is_one_moment_of_a_database_that_moves(
        self, state: Path, elsewhere: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Facts are written between the manifest and the dump: the dump has none of them."""
        from agentops.ops import backup

        mine = at_work(state)
        real = backup._dump

        def later(*given: Any) -> None:
            mine.append(f.RunPaused(by="ana"))
            real(*given)

        monkeypatch.setattr(backup, "_dump", later)
        back_up(tmp_path / "b.zip")
        assert Fact.objects.filter(run=mine.run).count() == 3
        elsewhere()
        assert restore(tmp_path / "b.zip").problems == []
        assert Fact.objects.filter(run=mine.run).count() == 2


class TestRefusals:
    def test_a_database_with_rows_wants_force(self, state: Path, elsewhere: Any, tmp_path: Path) -> None:
        mine = at_work(state)
        back_up(tmp_path / "b.zip")
        there = elsewhere()
        restore(tmp_path / "b.zip")
        (there / "workspaces/a-run/notes.txt").write_text("later work")
        person = make.user("somebody-new")
        with pytest.raises(OpsError, match=r"not empty.*--force"):
            restore(tmp_path / "b.zip")
        person.refresh_from_db()
        assert restore(tmp_path / "b.zip", force=True).problems == []
        assert not type(person).objects.filter(pk=person.pk).exists()
        assert Run.objects.get(pk=mine.run.pk).head_seq == 2
        assert (there / "workspaces/a-run/notes.txt").read_text() == "half done"
        assert [path.read_text() for path in there.glob("before-restore-*/a-run/notes.txt")] == ["later work"]

    def test_others_at_work_in_the_database(self, state: Path, elsewhere: Any, tmp_path: Path) -> None:
        import psycopg

        at_work(state)
        back_up(tmp_path / "b.zip")
        elsewhere()
        who = connection.settings_dict
        with (
            psycopg.connect(host=who["HOST"], user=who["USER"], password=who["PASSWORD"], dbname=who["NAME"]),
            pytest.raises(OpsError, match=r"1 connections.*stop web, workers"),
        ):
            restore(tmp_path / "b.zip")
        assert count_of_tables() == 0

    @pytest.mark.parametrize("damage", ["flipped", "cut", "no zip", "manifest gone", "one row changed", "newer"])
    def test_a_damaged_archive_changes_nothing(self, state: Path, elsewhere: Any, tmp_path: Path, damage: str) -> None:
        at_work(state)
        back_up(tmp_path / "b.zip")
        DAMAGE[damage](tmp_path / "b.zip")
        there = elsewhere()
        with pytest.raises(OpsError, match=r"damaged|not what was written|manifest|newer"):
            restore(tmp_path / "b.zip")
        assert count_of_tables() == 0
        assert sorted(path.name for path in there.iterdir()) == ["secret"]
        assert (there / "secret").read_text() == "another secret"

    def test_without_the_check_a_changed_row_would_pass(
        self, state: Path, elsewhere: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The negative control of the test above."""
        at_work(state)
        back_up(tmp_path / "b.zip")
        one_row_changed(tmp_path / "b.zip")
        elsewhere()
        monkeypatch.setattr(archive, "check", lambda file, manifest: None)
        restore(tmp_path / "b.zip")
        assert count_of_tables() > 20
        assert Run.objects.filter(task__title__startswith="Forged").exists()

    def test_a_dump_that_fails_half_way_changes_nothing(
        self, state: Path, elsewhere: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        at_work(state)
        back_up(tmp_path / "b.zip")
        rewrite(tmp_path / "b.zip", lambda dump: dump.replace(b"CREATE TRIGGER", b"CREATE TROUBLE"))
        elsewhere()
        monkeypatch.setattr(archive, "check", lambda file, manifest: None)
        with pytest.raises(OpsError, match=r"is as it was: .*TROUBLE"):
            restore(tmp_path / "b.zip")
        assert count_of_tables() == 0

    def test_a_backup_that_fails_leaves_no_file(self, state: Path, tmp_path: Path, settings: Any) -> None:
        settings.DATABASE_OWNER = {**settings.DATABASE_OWNER, "PASSWORD": "wrong"}
        with pytest.raises(OpsError, match="cannot be read"):
            back_up(tmp_path / "b.zip")
        assert not list(tmp_path.glob("*b.zip*"))


def rewrite(file: Path, change: Any) -> None:
    """Change the dump inside, leaving the manifest as it is."""
    with zipfile.ZipFile(file) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members[archive.DATABASE] = gzip.compress(change(gzip.decompress(members[archive.DATABASE])))
    write(file, members)


def write(file: Path, members: dict[str, bytes]) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as new:
        for name, data in members.items():
            new.writestr(name, data)
    file.write_bytes(made.getvalue())


def one_row_changed(file: Path) -> None:
    rewrite(file, lambda dump: dump.replace(b"\tTask ", b"\tForged "))


def flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def without_manifest(file: Path) -> None:
    with zipfile.ZipFile(file) as old:
        write(file, {name: old.read(name) for name in old.namelist() if name != archive.MANIFEST})


def of_tomorrow(file: Path) -> None:
    with zipfile.ZipFile(file) as old:
        members = {name: old.read(name) for name in old.namelist()}
    manifest = json.loads(members[archive.MANIFEST])
    manifest["migrations"].append("loops.9999_tomorrow")
    write(file, {**members, archive.MANIFEST: json.dumps(manifest).encode()})


DAMAGE = {
    "flipped": flipped,
    "cut": lambda file: file.write_bytes(file.read_bytes()[:-1000]),
    "no zip": lambda file: file.write_bytes(b"not a backup"),
    "manifest gone": without_manifest,
    "one row changed": one_row_changed,
    "newer": of_tomorrow,
}

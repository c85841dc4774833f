"""An anchor that is missing, old, unsigned, on a full disk, or newer than the database: work goes on, loudly."""

from __future__ import annotations

import json
import logging
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from agentops import logs
from agentops.evidence import anchors
from agentops.evidence import rounds as evidence_rounds
from agentops.jobs import anchor as round_of_the_clock
from agentops.ops import checks
from loops.models import AuditEvent, Seal
from loops.services import audit
from tests.integration.evidence.conftest import thief, verdict
from tests.integration.storage import owned
from tests.stack import PATIENCE_S

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("N1", "T5")]


@pytest.fixture(autouse=True)
def some(transactional_db: None, state: Path) -> None:
    owned.committed(1)
    audit.record("test.happened", actor=None)


def told() -> checks.Check:
    """What `doctor` and the System page say."""
    return next(check for check in checks.standing() if check.name == "anchor")


def happen() -> None:
    audit.record("test.happened", actor=None)


def kinds() -> list[str]:
    return [*AuditEvent.objects.filter(kind__startswith="evidence.").order_by("id").values_list("kind", flat=True)]


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process grows past what the anchor is now, and a few bytes."""
    size = anchors.file().stat().st_size if anchors.file().exists() else 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_the_clock_anchors_and_says_when() -> None:
    assert round_of_the_clock()
    assert (told().status, "anchored" in told().said) == (checks.OK, True)
    file = anchors.file()
    assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert kinds() == [evidence_rounds.BEGUN]
    assert verdict() == ""


def test_a_full_disk_stops_nothing_and_is_tried_again() -> None:
    assert round_of_the_clock()
    happen()
    before, whole = Seal.objects.count(), anchors.file().read_bytes()
    with full_disk():
        assert not round_of_the_clock()
        assert not round_of_the_clock()
    assert anchors.newest() is not None, "half a line is in the way"
    assert Seal.objects.count() > before, "nothing was sealed"
    assert kinds() == [evidence_rounds.BEGUN, evidence_rounds.UNANCHORED], "told once an hour"
    assert "cannot be written (File too large)" in AuditEvent.objects.get(kind=evidence_rounds.UNANCHORED).detail["why"]
    assert round_of_the_clock()
    assert anchors.file().read_bytes().startswith(whole)
    assert verdict() == ""
    assert told().status == checks.OK


def test_an_old_anchor_is_told_with_its_cause(time_machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert round_of_the_clock()
    with full_disk():
        happen()
        assert not round_of_the_clock()
    monkeypatch.setattr("agentops.ops.anchors.OLD", timedelta(0))
    assert told().status == checks.WARNING
    assert "cannot be written" in told().said


def test_an_anchor_that_went_missing_is_not_made_again_by_itself() -> None:
    assert round_of_the_clock()
    anchors.file().unlink()
    assert not round_of_the_clock()
    assert not anchors.file().exists()
    assert (told().status, "is missing" in told().said, "anchor --anew" in told().todo) == (checks.ERROR, True, True)
    assert "is missing: cut ends cannot be found without it" in verdict()
    call_command("anchor", anew="the disk was replaced", stdout=StringIO())
    assert told().status == checks.OK
    assert verdict() == ""
    event = AuditEvent.objects.get(kind=evidence_rounds.ANEW)
    assert (event.detail["why"], event.detail["anchor"]) == ("the disk was replaced", "missing")


SPOILED = {
    "rewritten": lambda line: line.replace('"heads": {', '"heads": {"loops_fork": [0, ""], ', 1),
    "unsigned": lambda line: json.dumps({key: value for key, value in json.loads(line).items() if key != "mac"}),
    "no JSON": lambda line: "x" * 50,
    "not a table": lambda line: "[]",
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_an_anchor_that_cannot_be_believed_is_not_believed(spoil: Any) -> None:
    assert round_of_the_clock()
    anchors.file().write_text(spoil(anchors.file().read_text().strip()) + "\n")
    spoiled = anchors.file().read_text()
    assert not round_of_the_clock()
    assert anchors.file().read_text() == spoiled, "it was written over"
    assert told().status == checks.ERROR
    assert "the anchor: " in verdict()
    with pytest.raises(CommandError, match="Not anchored"):
        call_command("anchor", stdout=StringIO())
    call_command("anchor", anew="somebody edited it", stdout=StringIO())
    assert (told().status, verdict()) == (checks.OK, "")
    assert any(spoiled == path.read_text() for path in anchors.file().parent.iterdir()), "it was thrown away"


def test_an_anchor_of_another_key_is_refused(state: Path) -> None:
    assert round_of_the_clock()
    (state / "secret").write_text("the thief's secret")
    assert "is not signed with this installation's key" in told().said


def test_a_copy_kept_elsewhere_judges_as_well(tmp_path: Path) -> None:
    assert round_of_the_clock()
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(anchors.file().read_bytes())
    with thief() as cursor:
        cursor.execute("DELETE FROM loops_auditevent")
        cursor.execute("DELETE FROM loops_seal")
        anchors.file().unlink()
        assert "loops_auditevent: the newest" in verdict("--anchor", str(copy))
    assert verdict("--anchor", str(copy)) == ""


@contextmanager
def logging_to(path: Path, form: logging.Formatter) -> Iterator[None]:
    """What the clock logs goes to ``path``, as an operator's own log would keep it."""
    handler = logging.FileHandler(path)
    handler.setFormatter(form)
    logging.root.addHandler(handler)
    level = anchors.log.level
    anchors.log.setLevel(logging.INFO)
    try:
        yield
    finally:
        logging.root.removeHandler(handler)
        anchors.log.setLevel(level)
        handler.close()


@pytest.mark.parametrize("form", [logs.Line(), logs.Json()], ids=["text", "json"])
def test_a_log_kept_elsewhere_judges_too(tmp_path: Path, settings: Any, form: logging.Formatter) -> None:
    kept = tmp_path / "clock.log"
    with logging_to(kept, form):
        assert round_of_the_clock()
        assert "mac" not in kept.read_text(), "nobody asked for it"
        settings.LOG_ANCHORS = True
        assert round_of_the_clock()
        logging.root.warning("something else, with a brace: {}, and 5 rows anchored by hand")
        kept.write_text(kept.read_text() + '{"message": null}\n{"message": 5}\n')
    assert verdict("--anchor", str(kept)) == ""
    with thief() as cursor:
        cursor.execute("DELETE FROM loops_auditevent")
        cursor.execute("DELETE FROM loops_seal")
        anchors.file().unlink()
        assert "loops_auditevent: the newest" in verdict("--anchor", str(kept))
        kept.write_text(kept.read_text().replace("heads", "tails"))
        assert "the anchor: a line of" in verdict("--anchor", str(kept))
    kept.write_text("nothing of it here\n")
    assert "is missing" in verdict("--anchor", str(kept))


def test_a_database_older_than_its_anchor_says_as_of_when_and_begins_anew_with_a_reason() -> None:
    """As after an older backup was restored."""
    assert round_of_the_clock()
    then = anchors.newest()
    happen()
    assert round_of_the_clock()
    with owned.superuser() as root:
        root.execute("SET session_replication_role = replica")
        for table in ("loops_seal", "loops_auditevent"):
            root.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        try:
            for table, (number, _) in then.heads.items():
                root.execute('DELETE FROM loops_seal WHERE "table" = %s AND number > %s', [table, number])
            root.execute(
                "DELETE FROM loops_auditevent t WHERE NOT EXISTS (SELECT 1 FROM loops_seal WHERE key = t.id::text) "
                "AND kind <> %s",
                [evidence_rounds.BEGUN],
            )
        finally:
            for table in ("loops_seal", "loops_auditevent"):
                root.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_rows")
                root.execute(f"ALTER TABLE {table} ENABLE ALWAYS TRIGGER {table}_whole")
    said = verdict()
    assert f"it goes on from the one of {then.at:%Y-%m-%d %H:%M:%S} UTC: was an older backup restored?" in said
    assert "loops_auditevent: ends at entry 1, the anchor says 3: 2 are gone" in told().said
    assert not round_of_the_clock()
    assert "2 are gone" in AuditEvent.objects.get(kind=evidence_rounds.BROKEN).detail["why"]
    assert told().status == checks.ERROR
    assert not round_of_the_clock(), "what came later was anchored over the break"
    with pytest.raises(CommandError, match="Say why"):
        call_command("anchor", anew="  ", stdout=StringIO())
    call_command("anchor", anew="restored the backup of Monday", stdout=StringIO())
    assert (told().status, verdict()) == (checks.OK, "")
    assert (
        "loops_auditevent: entry 3 is not the one"
        in AuditEvent.objects.get(kind=evidence_rounds.ANEW).detail["broken"][0]
    )
    assert round_of_the_clock()


def test_the_file_stays_small_and_keeps_its_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(anchors, "MOST_LINES", 30)
    monkeypatch.setattr(anchors, "NEWEST_LINES", 10)
    monkeypatch.setattr(anchors, "DAILY_LINES", 5)
    evidence_rounds.begin_anew("a reason")
    first = anchors.newest()
    for day in range(100):
        anchors.append(anchors.Anchor(first.at + timedelta(days=day), first.heads))
    lines = anchors.file().read_text().splitlines()
    assert 10 <= len(lines) <= 31
    assert anchors.read()[0].began
    assert anchors.newest().at == first.at + timedelta(days=99)


def test_nobody_waits_for_a_seal_and_no_seal_for_anybody() -> None:
    """Two open transactions with audit events of two projects, a round of the clock between: none waits."""
    assert round_of_the_clock()
    entered, go_on, errors = threading.Barrier(3, timeout=PATIENCE_S), threading.Event(), []

    def write() -> None:
        try:
            with transaction.atomic():
                happen()
                entered.wait()
                assert go_on.wait(PATIENCE_S)
        except BaseException as error:
            errors.append(error)
        finally:
            connection.close()

    writers = [threading.Thread(target=write) for _ in range(2)]
    for writer in writers:
        writer.start()
    entered.wait()
    assert round_of_the_clock()
    sealed = Seal.objects.filter(table="loops_auditevent").count()
    go_on.set()
    for writer in writers:
        writer.join(PATIENCE_S)
    assert errors == []
    assert round_of_the_clock()
    assert Seal.objects.filter(table="loops_auditevent").count() == sealed + 2, "what commits later is sealed later"
    assert verdict() == ""


def test_two_rounds_at_once_seal_nothing_twice() -> None:
    assert round_of_the_clock()
    happen()
    done: list[Any] = []

    def round_() -> None:
        try:
            done.append(round_of_the_clock())
        finally:
            connection.close()

    rounds = [threading.Thread(target=round_) for _ in range(4)]
    for one in rounds:
        one.start()
    for one in rounds:
        one.join(PATIENCE_S)
    assert len(done) == 4
    assert round_of_the_clock()
    assert verdict() == ""


def test_a_round_costs_the_same_however_long_history_is() -> None:
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            assert round_of_the_clock()
        return len(captured)

    assert round_of_the_clock()
    assert round_of_the_clock()  # which seals that it began
    before = queries()
    for _ in range(30):
        happen()
    owned.committed(1)
    assert round_of_the_clock()
    assert queries() == before


def test_an_audit_event_is_one_insert_as_before() -> None:
    with CaptureQueriesContext(connection) as captured:
        happen()
    assert [query["sql"].split()[0] for query in captured] == ["INSERT"]


def test_the_signing_key_lies_nowhere_in_the_database() -> None:
    assert round_of_the_clock()
    with owned.superuser() as root:
        names = root.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        for (table,) in names:
            rows = root.execute(f'SELECT t::text FROM "{table}" t').fetchall()
            assert not any(anchors.key().decode() in row for (row,) in rows), table
    assert anchors.file().stat().st_mode & 0o077 == 0

"""Whoever can do anything to the database can change history, but not unnoticed (SPEC N1, promise 14)."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connection, transaction

from agentops import roles
from loops.engine import facts as f
from loops.engine.values import ArtifactRef, ToolResult
from loops.models import Run
from loops.storage import chain
from tests import fakes
from tests.integration.services.world import closing_connections
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("N1")]


def test_a_run_that_is_at_work_meanwhile_is_intact(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it writes between two looks of the verification is no forgery: whoever cries wolf is not believed."""
    mine, look = owned.begun(), chain._artifacts
    mine.journal.release(runnable=True)

    @closing_connections
    def work() -> None:
        owned.own(mine.run, "another").append(
            f.MessageReceived(text="more", by="ana"), f.MessageReceived(text="and more", by="ana")
        )

    def looked(run: Run) -> Any:
        with ThreadPoolExecutor(1) as threads:
            threads.submit(work).result()
        return look(run)

    monkeypatch.setattr(chain, "_artifacts", looked)
    before = Run.objects.get(pk=mine.run.pk).head_seq
    assert chain.verify().problems == []
    assert Run.objects.get(pk=mine.run.pk).head_seq == before + 2


CHANGED = "convert_to(replace(convert_from({0}, 'UTF8'), '\"at\":', '\"at\":1'), 'UTF8')"
ONE_FACT = {
    "body": f"UPDATE loops_fact SET body = {CHANGED.format('body')} WHERE run_id = %(run)s AND seq = %(seq)s",
    "hash": (
        "UPDATE loops_fact SET hash = set_byte(hash, 0, (get_byte(hash, 0) + 1) %% 256) "
        "WHERE run_id = %(run)s AND seq = %(seq)s"
    ),
    "body with its hash made to fit": (
        f"UPDATE loops_fact SET body = {CHANGED.format('body')}, hash = sha256(prev || {CHANGED.format('body')}) "
        "WHERE run_id = %(run)s AND seq = %(seq)s"
    ),
    "label": "UPDATE loops_fact SET kind = 'Forged' WHERE run_id = %(run)s AND seq = %(seq)s",
    "deleted": "DELETE FROM loops_fact WHERE run_id = %(run)s AND seq = %(seq)s",
    "two changed places": (
        "UPDATE loops_fact SET seq = 1000000 - seq WHERE run_id = %(run)s AND seq IN (%(seq)s, %(seq)s + 1)"
    ),
}
WHOLE = {
    "tail deleted": "DELETE FROM loops_fact WHERE run_id = %(run)s AND seq > %(last)s - 3",
    "tail deleted and the run made to fit": """
        DELETE FROM loops_fact WHERE run_id = %(run)s AND seq > %(last)s - 3;
        UPDATE agent_execution_history r SET head_seq = f.seq, head_hash = f.hash
        FROM loops_fact f WHERE r.id = %(run)s AND f.run_id = r.id AND f.seq = %(last)s - 3
    """,
    "a fact made up": """
        INSERT INTO loops_fact (run_id, seq, kind, step, at, body, prev, hash, epoch)
        SELECT run_id, seq + 1, kind, step, at, body, hash, sha256(hash || body), epoch
        FROM loops_fact WHERE run_id = %(run)s AND seq = %(last)s
    """,
    "everything deleted": "DELETE FROM loops_fact WHERE run_id = %(run)s",
    "blob of a fact changed": "UPDATE loops_blob SET body = body || 'x' WHERE size > 10000",
    "blob of a fact deleted": "DELETE FROM loops_blob WHERE size > 10000",
    "whole output changed": "UPDATE loops_blob SET body = 'another' WHERE body = 'the whole output'",
    "report changed": """
        UPDATE loops_blob SET body = body || 'x' WHERE sha256 IN (
            SELECT sha256 FROM loops_artifact WHERE run_id = %(run)s AND kind = 'AgentResult')
    """,
    "provenance body changed": "UPDATE loops_provenancerecord SET body = replace_approver(body) WHERE run_id = %(run)s",
    "provenance made to fit itself": """
        UPDATE loops_provenancerecord SET body = replace_journal(body), hash = sha256(prev || replace_journal(body))
        WHERE run_id = %(run)s
    """,
    "provenance hash changed": "UPDATE loops_provenancerecord SET hash = sha256(hash) WHERE run_id = %(run)s",
    "provenance deleted": "DELETE FROM loops_provenancerecord WHERE run_id = %(run)s",
}
HELPERS = {
    "replace_approver": ('"approver":""', '"approver":"eve"'),
    "replace_journal": ('"seq":', '"seq":1'),
}


@pytest.fixture
def run() -> Run:
    """A committed run with blobs, between two others."""
    owned.committed(1)
    mine = owned.begun()
    mine.append(f.MessageReceived(text="long " * 3000, by="ana"))
    mine.journal.release(runnable=True)
    mine = owned.own(mine.run)
    turns = [fakes.says(f"step {number}", ("look", {"at": number})) for number in range(3)]
    whole = ArtifactRef("output", "text/plain", mine.journal.stage(b"the whole output"), 16)
    tools = fakes.Tools({"look": lambda arguments: ToolResult(ok=True, content="cut", output=whole)})
    assert mine.drive([*turns, fakes.done("all seen")], tools) == "ended"
    owned.committed(1)
    mine.run.refresh_from_db()
    return mine.run


@contextmanager
def tampered(statement: str, **values: Any) -> Iterator[None]:
    """As the superuser with the guards switched off; put back afterwards."""
    with roles.as_owner(), transaction.atomic(), connection.cursor() as cursor:
        for table in roles.append_only_tables():
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        for name, (old, new) in HELPERS.items():
            cursor.execute(
                f"CREATE FUNCTION pg_temp.{name}(b bytea) RETURNS bytea LANGUAGE sql AS "
                f"$$ SELECT convert_to(replace(convert_from(b, 'UTF8'), '{old}', '{new}'), 'UTF8') $$"
            )
            statement = statement.replace(f"{name}(", f"pg_temp.{name}(")
        for part in statement.split(";"):
            cursor.execute(part, values)
            assert cursor.rowcount > 0, "nothing was tampered with"
        yield
        transaction.set_rollback(True)


def test_an_untouched_record_is_intact(run: Run) -> None:
    report = chain.verify()
    assert report.ok, report.problems
    assert (report.runs, report.records) == (3, 3)
    assert report.blobs >= 2
    assert chain.verify(run.pk).facts == run.head_seq


@pytest.mark.parametrize("statement", ONE_FACT.values(), ids=ONE_FACT)
def test_a_change_of_any_fact_is_found(run: Run, statement: str) -> None:
    """Of every single one, one after the other."""
    missed = []
    for seq in range(1, run.head_seq + 1):
        with tampered(statement, run=run.pk, seq=seq):
            if chain.verify(run.pk).ok or chain.verify().ok:
                missed.append(seq)
    assert not missed
    assert chain.verify().ok, "the test itself left something behind"


@pytest.mark.parametrize("statement", WHOLE.values(), ids=WHOLE)
def test_other_tampering_is_found(run: Run, statement: str) -> None:
    with tampered(statement, run=run.pk, last=run.head_seq):
        assert not chain.verify(run.pk).ok
        assert not chain.verify().ok
    assert chain.verify().ok, "the test itself left something behind"


def test_a_history_written_anew_is_found_by_its_provenance(run: Run) -> None:
    """Every hash made to fit from the second fact on, and the run's head too: only the provenance still knows."""
    with tampered("UPDATE loops_fact SET step = step WHERE run_id = %(run)s", run=run.pk):
        with connection.cursor() as cursor:
            rewrite(cursor, run)
        problems = chain.verify(run.pk).problems
    assert len(problems) == 1
    assert "is not the one it names" in problems[0]


def rewrite(cursor: Any, run: Run) -> None:
    cursor.execute("SELECT seq, prev, body FROM loops_fact WHERE run_id = %s ORDER BY seq", [run.pk])
    head = b""
    for seq, _, body in cursor.fetchall():
        changed = bytes(body).replace(b'"Do it"', b'"Do that"').replace(b'"Be good."', b'"Be bad."')
        prev, head = head, hashlib.sha256(head + changed).digest()
        cursor.execute(
            "UPDATE loops_fact SET prev = %s, body = %s, hash = %s WHERE run_id = %s AND seq = %s",
            [prev, changed, head, run.pk, seq],
        )
    cursor.execute("UPDATE agent_execution_history SET head_hash = %s WHERE id = %s", [head, run.pk])

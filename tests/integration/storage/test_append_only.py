"""History cannot be rewritten: not by the application, and not by accident by anybody else (SPEC N1, promise 14)."""

from __future__ import annotations

import itertools

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction
from django.utils import timezone

from agentops import roles
from agentops.evidence import seals
from loops.models import AuditEvent, BreakerEvent, Fact, Fork, PolicyVersion, Run, Tombstone
from tests.decisions import decide
from tests.integration.gates import builders as gates
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("N1")]

MUTATIONS = {
    "update": "UPDATE loops_fact SET body = 'x'",
    "update one column": "UPDATE loops_fact SET epoch = 99 WHERE seq = 1",
    "delete": "DELETE FROM loops_fact",
    "truncate": "TRUNCATE loops_fact",
    "upsert": (
        "INSERT INTO loops_fact SELECT * FROM loops_fact ON CONFLICT (run_id, seq) DO UPDATE SET body = EXCLUDED.body"
    ),
    "merge": (
        "MERGE INTO loops_fact t USING loops_fact s ON t.run_id = s.run_id AND t.seq = s.seq "
        "WHEN MATCHED THEN UPDATE SET body = 'x'"
    ),
    "delete in a query": "WITH gone AS (DELETE FROM loops_fact RETURNING *) SELECT count(*) FROM gone",
    "lock rows": "SELECT 1 FROM loops_fact FOR UPDATE",
    "disable triggers": "ALTER TABLE loops_fact DISABLE TRIGGER ALL",
    "pretend to replicate": "SET session_replication_role = replica",
    "drop": "DROP TABLE loops_fact",
    "replace the guard": (
        "CREATE OR REPLACE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS.values(), ids=MUTATIONS)
def test_the_application_is_refused(mutation: str) -> None:
    mine = owned.begun()
    before = owned.rows(mine.run)
    with pytest.raises(DatabaseError, match=r"permission denied|must be owner"):
        execute(mutation)
    assert owned.rows(mine.run) == before


def test_the_application_cannot_give_itself_rights() -> None:
    mine = owned.begun()
    execute("GRANT UPDATE ON loops_fact TO CURRENT_USER")  # only warned about: what counts is that it gave nothing
    with pytest.raises(DatabaseError, match="permission denied"):
        execute("UPDATE loops_fact SET epoch = 99")
    assert owned.rows(mine.run)["loops_fact"][0]["epoch"] == 1


def execute(statement: str) -> None:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)


def test_nothing_is_written_over_a_fact_that_is_there() -> None:
    mine = owned.begun()
    again = Fact.objects.get(run=mine.run, seq=1)
    again.body = b"{}"
    with pytest.raises(DatabaseError, match="duplicate key"):
        again.save(force_insert=True)


REWRITINGS = ('UPDATE {0} SET "{1}" = "{1}"', "DELETE FROM {0}", "TRUNCATE {0} CASCADE")


@pytest.mark.parametrize("replicating", [False, True], ids=["as itself", "pretending to replicate"])
def test_even_the_owner_is_stopped_by_triggers(replicating: bool) -> None:
    fill()
    with owned.superuser() as database:
        if replicating:
            database.execute("SET session_replication_role = replica")
        for model, rewriting in itertools.product(roles.append_only_models(), REWRITINGS):
            column = next(field.column for field in model._meta.concrete_fields if field.column)
            with pytest.raises(psycopg.DatabaseError, match="is append-only"):
                database.execute(rewriting.format(model._meta.db_table, column))


def fill() -> None:
    """At least one row in every append-only table: a row trigger says nothing of none."""
    mine = owned.committed(1)
    AuditEvent.objects.create(kind="test")
    BreakerEvent.objects.create(kind="tool", name="look", what="opened", at=timezone.now())
    of = {"run": owned.new_run(), "parent": mine.run, "created_by": mine.run.task.created_by}
    Fork.objects.create(seq=1, step=0, head=b"", content_sha256="", **of)
    Tombstone.objects.create(run=mine.run, head_seq=1, head_hash=b"", blobs=0, blob_bytes=0, reason="test")
    PolicyVersion.objects.create(project=mine.run.project, number=1, sha256="", snapshot={})
    world = gates.make_world()
    gate = gates.open_gate(world)
    decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    seals.seal({})
    for model in roles.append_only_models():
        assert model._default_manager.exists(), model


def test_a_run_with_history_cannot_be_deleted() -> None:
    mine = owned.begun()
    with pytest.raises(Exception, match="protected"):
        Run.objects.get(pk=mine.run.pk).delete()

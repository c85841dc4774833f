"""Whoever owns the database changes, removes, inserts or swaps rows of any table that only grows, and is found out.

Judged by the anchor, which the database cannot write (SPEC N1). A table with the triggers of one that only grows and
without a row in `TABLES` fails here.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection

from agentops import roles
from agentops.evidence import rounds, seals, tables
from agentops.ops import checks
from tests.integration.evidence.conftest import thief, verdict

pytestmark = [pytest.mark.spec("N1")]
NEW = "gen_random_uuid()"


@dataclass(frozen=True)
class Table:
    """How a row is told from others, in which order rows came, and what a copy of one needs to be let in."""

    key: str
    order: str
    copy: dict[str, str]
    swapped: str = ""
    """The column that two rows exchange; empty: their key."""
    unsaid: frozenset[str] = field(default=frozenset())
    """Columns that verification does not speak for."""
    anchored: str = "true"
    """Which rows the anchor knows, where others of the suite may add some at any time."""


AGO = "(SELECT min(at) FROM loops_seal) - interval '1 day'"
"""Before all that is anchored, whatever day it is by now."""
TABLES = {
    "gates_decision": Table("id", "created_at", {"id": NEW, "gate_id": NEW, "created_at": AGO}),
    # The suite's web server writes down within a minute what it refused, in whatever test that is.
    "loops_auditevent": Table("id", "at", {"id": NEW, "at": AGO}, anchored="kind <> 'request.refused'"),
    "loops_breakerevent": Table("id", "at", {"id": NEW, "at": AGO}),
    "loops_policyversion": Table("id", "created_at", {"id": NEW, "number": "1000", "created_at": AGO}),
    "loops_tombstone": Table("run_id", "at", {"run_id": NEW, "at": AGO}),
    "loops_fork": Table("run_id", "created_at", {"run_id": NEW, "created_at": AGO}),
    "loops_checkpoint": Table("key", "created_at, key", {"key": "'forged'", "created_at": AGO}),
    "loops_provenancerecord": Table(
        "number", "number", {"number": "1000", "run_id": NEW, "hash": "'\\x00'::bytea", "created_at": AGO}
    ),
    "loops_fact": Table(
        "ctid", "run_id, seq", {"seq": "1000"}, swapped="body", unsaid=frozenset({"step", "epoch", "at"})
    ),
    "loops_blob": Table("sha256", "sha256", {"sha256": "repeat('0', 64)"}, swapped="body"),
    "loops_seal": Table("ctid", '"table", number', {"number": "1000", "key": "'forged'"}, swapped="digest"),
}
OTHER = {
    "uuid": NEW,
    "jsonb": """'{"forged": 1}'::jsonb""",
    "timestamp with time zone": "coalesce({0}, now()) - interval '1 day'",
    "bytea": "coalesce({0}, ''::bytea) || 'x'::bytea",
    "boolean": "NOT coalesce({0}, false)",
}
ENDS = {"bigint", "integer", "numeric", "double precision"}
ROW = "(SELECT ctid FROM {table} WHERE {anchored} ORDER BY {order} {way} OFFSET {place} LIMIT 1)"


def anchor() -> None:
    assert rounds.keep()
    assert rounds.keep()  # seals that it began, too
    assert verdict() == ""


@pytest.fixture
def anchored(filled: None) -> None:
    anchor()


@pytest.fixture(scope="class")
def anchored_once(filled_once: None, django_db_blocker: Any) -> Iterator[None]:
    """For a class of tests that put back what they do."""
    anchor()
    yield
    with django_db_blocker.unblock():
        assert verdict() == ""


def columns(cursor: Any, table: str) -> dict[str, str]:
    cursor.execute(
        "SELECT column_name, data_type FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name = %s",
        [table],
    )
    return dict(cursor.fetchall())


def changing(cursor: Any, table: str) -> dict[str, str]:
    """Column -> statement that changes it in one row of the middle."""
    found = {}
    for column, kind in columns(cursor, table).items():
        name = f'"{column}"'
        longer = f"left('x' || coalesce({name}, ''), greatest(1, length({name})))"
        other = f"coalesce({name}, 0) + 100000" if kind in ENDS else OTHER.get(kind, longer).replace("{0}", name)
        row = row_of(table, TABLES[table].order, "", 1)
        found[column] = f"UPDATE {table} SET {name} = {other} WHERE ctid = {row}"
    return found


def removing(table: str, place: int, way: str) -> str:
    row = row_of(table, TABLES[table].order.replace(",", f" {way},"), way, place)
    return f"DELETE FROM {table} WHERE ctid = {row}"


def row_of(table: str, order: str, way: str, place: int) -> str:
    return ROW.format(table=table, anchored=TABLES[table].anchored, order=order, way=way, place=place)


def inserting(cursor: Any, table: str) -> str:
    names = columns(cursor, table)
    listed = ", ".join(f'"{name}"' for name in names)
    values = ", ".join(TABLES[table].copy.get(name, f'"{name}"') for name in names)
    return f"INSERT INTO {table} ({listed}) SELECT {values} FROM {table} ORDER BY {TABLES[table].order} LIMIT 1"


def swap(cursor: Any, table: str) -> None:
    """Two rows exchange their keys, or the column that matters."""
    one = TABLES[table]
    column = one.swapped or one.key
    cursor.execute(f'SELECT ctid::text, "{column}" FROM {table} ORDER BY {one.order} LIMIT 2')
    (first, mine), (second, other) = cursor.fetchall()
    assert mine != other
    if one.swapped:
        for place, value in ((first, other), (second, mine)):
            cursor.execute(f'UPDATE {table} SET "{column}" = %s WHERE ctid = %s::tid', [value, place])
        return
    spare = {"number": 999, "key": "spare"}.get(column, "00000000-0000-7000-8000-000000000000")
    for was, becomes in ((mine, spare), (other, mine), (spare, other)):
        cursor.execute(f'UPDATE {table} SET "{column}" = %s WHERE "{column}" = %s', [becomes, was])
        assert cursor.rowcount == 1


@pytest.mark.django_db
def test_every_table_that_only_grows_is_walked() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT DISTINCT tgrelid::regclass::text FROM pg_trigger JOIN pg_proc ON pg_proc.oid = tgfoid "
            "WHERE proname LIKE 'refuse_rewriting%'"
        )
        guarded = {table for (table,) in cursor.fetchall()}
    assert guarded == set(roles.append_only_tables()) == set(TABLES)
    others = {model._meta.db_table for model in tables.OTHERWISE}
    assert {one.table for one in tables.sealed()} == set(TABLES) - others


@pytest.mark.usefixtures("anchored_once")
@pytest.mark.parametrize("table", TABLES)
class TestWhoOwnsTheDatabase:
    def test_changes_no_column(self, table: str) -> None:
        with connection.cursor() as cursor:
            statements = changing(cursor, table)
        missed = []
        for column, statement in statements.items():
            with thief() as cursor:
                cursor.execute(statement)
                assert cursor.rowcount == 1, column
                said = verdict()
            if not said:
                missed.append(column)
        assert set(missed) <= TABLES[table].unsaid, missed

    @pytest.mark.parametrize("where", ["in the middle", "at the end", "everything"])
    def test_removes_nothing(self, table: str, where: str) -> None:
        statement = {
            "in the middle": removing(table, 1, ""),
            "at the end": removing(table, 0, "DESC"),
            "everything": f"DELETE FROM {table}",
        }[where]
        with thief() as cursor:
            cursor.execute(statement)
            assert cursor.rowcount >= 1
            said = verdict()
        assert said, f"{where}: not found"
        if table in {one.table for one in tables.sealed()}:
            assert f"{table}: " in said
            assert ("was removed at the end" in said) == (where != "in the middle"), said

    def test_inserts_nothing(self, table: str) -> None:
        with thief() as cursor:
            cursor.execute(inserting(cursor, table))
            assert cursor.rowcount == 1
            said = verdict()
        assert said
        if table in {one.table for one in tables.sealed()}:
            assert f"{table}: " in said
            assert "was inserted afterwards" in said

    def test_swaps_nothing(self, table: str) -> None:
        with thief() as cursor:
            swap(cursor, table)
            said = verdict()
        assert said

    @pytest.mark.parametrize("how", ["changed", "removed at the end", "swapped", "inserted"])
    def test_cannot_make_the_seals_fit(self, table: str, how: str) -> None:
        """All seals of the table are made anew, in the way that we make them: only the anchor still knows."""
        with thief() as cursor:
            if how == "changed":
                mine = [text for name, text in changing(cursor, table).items() if name not in TABLES[table].unsaid]
                cursor.execute(mine[-1])
            elif how == "swapped":
                swap(cursor, table)
            else:
                cursor.execute(inserting(cursor, table) if how == "inserted" else removing(table, 0, "DESC"))
            cursor.execute("DELETE FROM loops_seal")
            seals.seal({})
            assert verdict()
            assert not rounds.keep(), "it was anchored"
            assert verdict(), "waiting made it good"


@pytest.mark.usefixtures("anchored")
def test_the_newest_facts_are_not_cut_with_the_head_set_back() -> None:
    """The finding itself: nothing in the journal or the run says that there was more, and the seals are cut too."""
    with thief() as cursor:
        cursor.execute("SELECT id, head_seq FROM agent_execution_history WHERE head_seq > 5 ORDER BY id LIMIT 1")
        run, last = cursor.fetchone()
        cursor.execute("DELETE FROM loops_provenancerecord WHERE run_id = %s", [run])
        cursor.execute("DELETE FROM loops_artifact WHERE run_id = %s", [run])
        cursor.execute("DELETE FROM loops_tombstone WHERE run_id = %s", [run])
        cursor.execute("DELETE FROM loops_fact WHERE run_id = %s AND seq > %s", [run, last - 3])
        cursor.execute(
            "UPDATE agent_execution_history r SET head_seq = f.seq, head_hash = f.hash FROM loops_fact f "
            "WHERE r.id = %s AND f.run_id = r.id AND f.seq = %s",
            [run, last - 3],
        )
        said = verdict()
        alone = verdict(str(run))
        cursor.execute("DELETE FROM loops_seal")
        seals.seal({})
        sealed_anew = verdict(str(run))
    assert f"the journal of run {run} was cut or rewritten: fact {last} " in said
    assert "was cut or rewritten" in alone
    assert "loops_fact: history up to entry" in sealed_anew, "only the anchor still knows"
    assert verdict() == verdict(str(run)) == ""


@pytest.mark.usefixtures("anchored")
def test_doctor_finds_a_cut_end_by_the_anchor_and_says_what_it_compares_without() -> None:
    """Of the newest result, so that its record is missed by no other: all hashes fit."""

    def found(all_chains: bool) -> tuple[str, str]:
        (one,) = (check for check in checks.everything(all_chains=all_chains) if check.name == "chains")
        return one.status, one.said

    whole = found(all_chains=True)
    with thief() as cursor:
        cursor.execute("SELECT run_id FROM loops_provenancerecord ORDER BY number DESC LIMIT 1")
        run = cursor.fetchone()
        for table in ("loops_provenancerecord", "loops_artifact", "loops_tombstone"):
            cursor.execute(f"DELETE FROM {table} WHERE run_id = %s", run)
        cursor.execute("DELETE FROM loops_fact WHERE run_id = %s AND seq > 3", run)
        cursor.execute(
            "UPDATE agent_execution_history r SET head_seq = 3, head_hash = f.hash FROM loops_fact f "
            "WHERE r.id = %s AND f.run_id = r.id AND f.seq = 3",
            run,
        )
        latest, every = found(all_chains=False), found(all_chains=True)
    assert whole[0] == checks.OK
    assert "match their hashes, seals and anchors" in whole[1]
    assert latest[0] == checks.OK
    assert "match their own hashes (the latest; --chains: all, and with the anchor)" in latest[1]
    assert every[0] == checks.ERROR


@pytest.mark.usefixtures("anchored")
def test_a_run_that_was_removed_whole_is_missed() -> None:
    with thief() as cursor:
        cursor.execute("SELECT id FROM agent_execution_history WHERE head_seq > 5 ORDER BY id LIMIT 1")
        (run,) = cursor.fetchone()
        cursor.execute("DELETE FROM loops_fact WHERE run_id = %s", [run])
        cursor.execute("DELETE FROM agent_execution_history WHERE id = %s", [run])
        said = verdict()
    assert f"the journal of run {run} was cut or rewritten" in said


@pytest.mark.usefixtures("anchored")
def test_facts_that_were_added_to_an_old_journal_are_found() -> None:
    """Every hash fits, the head too, and the run's time of last activity is as it was."""
    with thief() as cursor:
        cursor.execute("SELECT id, head_seq FROM agent_execution_history WHERE head_seq > 5 ORDER BY id LIMIT 1")
        run, last = cursor.fetchone()
        cursor.execute(
            "INSERT INTO loops_fact (run_id, seq, kind, step, at, body, prev, hash, epoch) "
            "SELECT run_id, seq + 1, kind, step, at, body, hash, sha256(hash || body), epoch "
            "FROM loops_fact WHERE run_id = %s AND seq = %s",
            [run, last],
        )
        cursor.execute(
            "UPDATE agent_execution_history r SET head_seq = f.seq, head_hash = f.hash, "
            "last_activity_at = now() - interval '1 day' FROM loops_fact f "
            "WHERE r.id = %s AND f.run_id = r.id AND f.seq = %s",
            [run, last + 1],
        )
        said, alone = verdict(), verdict(str(run))
    assert said.strip() == f"loops_fact: {last + 1} facts of run {run}: the last ones were inserted afterwards"
    assert alone == said

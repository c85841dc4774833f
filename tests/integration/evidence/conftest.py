"""Several rows in every table that only grows, a state folder of the test's own, and the thief of the database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.test import TransactionTestCase, override_settings
from django.utils import timezone

from agentops import roles
from agentops.embedded.paths import Paths
from loops.engine import facts as f
from loops.models import BreakerEvent, Fork, PolicyVersion, ProvenanceRecord, Tombstone
from loops.services import audit
from tests import fakes
from tests.decisions import decide
from tests.integration.gates import builders as gates
from tests.integration.storage import owned


@pytest.fixture
def state(settings: Any, tmp_path: Path) -> Path:
    """A state folder with a secret."""
    settings.PATHS = Paths(tmp_path / "state")
    settings.PATHS.state.mkdir(mode=0o700)
    (settings.PATHS.state / "secret").write_text("the first secret")
    return settings.PATHS.state


@pytest.fixture
def filled(transactional_db: None, state: Path) -> None:
    """At least four rows in every append-only table."""
    fill()


@pytest.fixture(scope="class")
def filled_once(
    django_db_setup: None, django_db_blocker: Any, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """The same for a class of tests that leave all of it as it was."""
    paths = Paths(tmp_path_factory.mktemp("evidence") / "state")
    paths.state.mkdir(mode=0o700)
    (paths.state / "secret").write_text("the first secret")
    with django_db_blocker.unblock(), override_settings(PATHS=paths):
        fill()
        yield
        TransactionTestCase._fixture_teardown(TransactionTestCase())


def fill() -> None:
    """Four runs that ended, with what people and the application write beside them."""
    for number in range(4):
        mine = owned.begun()
        mine.append(f.MessageReceived(text=f"long {number} " * 3000, by="ana"))
        mine.journal.release(runnable=True)
        mine = owned.own(mine.run)
        turns = [fakes.says(f"step {step}", ("look", {"at": step})) for step in range(2)]
        assert mine.drive([*turns, fakes.done("all seen")]) == "ended"
        run = mine.run
        run.refresh_from_db()
        audit.record("test.happened", actor=None, run=run, detail={"number": number})
        BreakerEvent.objects.create(kind="tool", name="look", what="opened", at=timezone.now())
        of = {"run": owned.new_run(), "parent": run, "created_by": run.task.created_by}
        Fork.objects.create(seq=1, step=0, head=b"", content_sha256="", **of)
        head = {"head_seq": run.head_seq, "head_hash": bytes(run.head_hash)}
        Tombstone.objects.create(run=run, blobs=0, blob_bytes=0, reason="test", **head)
        PolicyVersion.objects.create(project=run.project, number=99, sha256="", snapshot={"a": 1})
        world = gates.make_world()
        gate = gates.open_gate(world)
        decide(actor=world.reviewer, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    assert ProvenanceRecord.objects.count() == 4
    for model in roles.append_only_models():
        assert model.__name__ == "Seal" or model._default_manager.count() >= 4, model


@contextmanager
def thief() -> Iterator[Any]:
    """A cursor of the owner with the triggers switched off; everything is put back afterwards."""
    with roles.as_owner(), transaction.atomic(), connection.cursor() as cursor:
        for table in roles.append_only_tables():
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        cursor.execute("ALTER TABLE agent_execution_history DISABLE TRIGGER ALL")
        yield cursor
        transaction.set_rollback(True)


def verdict(*arguments: str, **options: Any) -> str:
    """What `verify_chain` says is wrong; empty when it says that all is intact."""
    out, err = StringIO(), StringIO()
    try:
        call_command("verify_chain", *arguments, stdout=out, stderr=err, **options)
    except CommandError as error:
        return err.getvalue() or str(error)
    assert out.getvalue().startswith("Intact"), out.getvalue()
    return ""

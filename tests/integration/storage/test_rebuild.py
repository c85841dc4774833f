"""Rows can be made again from the facts, and are the same (SPEC J2, promise 21)."""

from __future__ import annotations

from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from loops.engine import facts as f
from loops.engine.values import ArtifactRef, FailureKind, ToolResult
from loops.models import Artifact, Run, Step, ToolCallRecord
from loops.storage.rebuild import rebuild
from tests import fakes
from tests.integration.storage import owned

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J2")]


@pytest.fixture
def run() -> Run:
    """A run with something of everything: several calls, refusals, failures, retries, checks, repairs, an end."""
    mine = owned.begun(criteria=[("there is a file", "test -s a")])
    whole = ArtifactRef("output", "text/plain", mine.journal.stage(b"whole" * 1000), 5000)
    outcomes = iter([False, True])
    functions = {
        "look": lambda arguments: ToolResult(ok=True, content="x" * 9000, output=whole, data={"n": [1, None, "\0"]}),
        "fall": lambda arguments: ToolResult(ok=False, content="no", error="it broke", exit_code=3, duration_ms=12),
        "run_command": lambda arguments: ToolResult(ok=next(outcomes), content="", exit_code=0),
        "secret": lambda arguments: "never",
    }
    overloaded = fakes.p.ModelError("busy", kind=FailureKind.TRANSIENT, code="overloaded_error", retry_after_s=0.01)
    answers = [
        fakes.says("first", ("look", {"at": 1}), ("fall", {"at": 2}), thinking="hm"),
        overloaded,
        fakes.says("", ("unknown", {}), ("secret", {})),
        fakes.says("just words"),
        fakes.says("NUL \0", ("look", {"deep": [[[{"a": "\ud800"}]]]})),
        fakes.done("not yet"),
        fakes.says("repairing", ("look", {})),
        fakes.done("now"),
    ]
    tools = fakes.Tools(functions, {"secret": fakes.Access.DENY})
    assert mine.drive(answers, tools) == "ended"
    mine.run.refresh_from_db()
    return mine.run


def test_rebuilt_rows_equal_the_stored_ones(run: Run) -> None:
    rebuilt = rebuild(run.pk)
    assert rebuilt.differences == []
    assert rebuilt.rows > 20
    assert run.status == "completed"


def test_rows_of_a_run_under_way_equal_too() -> None:
    mine = owned.begun()
    mine.append(f.MessageReceived(text="hello", by="ana"))
    assert rebuild(mine.run.pk).differences == []


def test_what_was_changed_lost_or_added_is_named_and_put_right(run: Run) -> None:
    before = owned.rows(run)
    call = ToolCallRecord.objects.filter(run=run).order_by("id").first()
    assert call is not None
    ToolCallRecord.objects.filter(pk=call.pk).update(output="something else", ok=None)
    Artifact.objects.filter(run=run).delete()
    Step.objects.create(execution=run, step_number=99, timestamp=run.started_at)
    Run.objects.filter(pk=run.pk).update(total_tokens=7)

    named = "\n".join(rebuild(run.pk).differences)
    assert f"loops_toolcallrecord {call.pk}: ok, output" in named or f"{call.pk}: output, ok" in named
    assert "is missing" in named
    assert "is not in the facts" in named
    assert "total_tokens" in named
    assert Step.objects.filter(execution=run, step_number=99).exists(), "comparing alone changes nothing"

    rebuild(run.pk, write=True)
    assert owned.rows(run) == before


def test_the_command_compares_and_writes(run: Run) -> None:
    told = StringIO()
    call_command("rebuild_projections", stdout=told)
    assert "as the facts say" in told.getvalue()
    Step.objects.filter(execution=run).update(said="edited")
    with pytest.raises(CommandError, match="--write"):
        call_command("rebuild_projections", str(run.pk), stdout=told)
    call_command("rebuild_projections", str(run.pk), "--write", stdout=told)
    assert "put right" in told.getvalue()
    assert rebuild(run.pk).differences == []
    with pytest.raises(CommandError, match="no run"):
        call_command("rebuild_projections", fakes.RUN_ID)

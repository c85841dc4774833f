"""What was written is what comes back: states, conversations, blobs, whatever a model or a tool said."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any
from unittest import TestCase

import pytest
from django.db import connection
from django.utils import timezone

from loops.engine import facts as f
from loops.engine.apply import replay
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import to_plain
from loops.engine.values import ArtifactRef, ToolCall, ToolResult
from loops.models import Artifact, Blob, Checkpoint, Fact, Run, ToolCallRecord
from loops.storage import blobs, chain, journal, reader
from tests import fakes
from tests.integration.storage import owned

pytestmark = pytest.mark.django_db(transaction=True)


def worked(steps: int) -> owned.Owned:
    """A run of ``steps`` steps that waits for its next answer when the worker dies."""
    mine = owned.begun()
    turns = iter([fakes.says(f"step {number}", ("look", {"at": number})) for number in range(steps)])

    class Died(BaseException):
        pass

    def answer(request: Any) -> Any:
        turn = next(turns, None)
        if turn is None:
            raise Died
        return turn

    with pytest.raises(Died):
        mine.drive(answer)
    return mine


@pytest.mark.spec("J2")
class TestResume:
    @pytest.mark.parametrize("steps", [0, 3, 10, 25])
    def test_gives_the_state_and_the_conversation_of_the_whole_history(self, steps: int) -> None:
        mine = worked(steps)
        facts = reader.history(mine.run.pk)
        loaded = journal.load(mine.run.pk)
        assert loaded is not None
        assert loaded.state == replay(facts)
        assert loaded.transcript.messages == owned.transcript_of(facts).messages
        assert loaded.state.step == steps + 1

    def test_begins_at_the_latest_checkpoint(self) -> None:
        mine = worked(25)
        latest = Checkpoint.objects.filter(run=mine.run).latest("k")
        assert latest.seq > Fact.objects.get(run=mine.run, kind="StepCompleted", step=20).seq - 1
        plain = canonical.decode(latest.state)
        plain["recoveries"] = 77  # a mark that no fact makes
        add_checkpoint(mine.run, latest.seq + 1, canonical.encode(plain), at=latest.seq)
        loaded = journal.load(mine.run.pk)
        assert loaded is not None
        assert loaded.state.recoveries == 77

    @pytest.mark.parametrize(
        "state",
        [b"", b"not JSON", b"{}", b"[]", b'{"limits":7}', b'{"seq":3,"phase":"NOWHERE"}', b"\xff\xfe"],
        ids=["empty", "not JSON", "nothing in it", "a list", "wrong types", "unknown phase", "not UTF-8"],
    )
    def test_a_corrupt_checkpoint_falls_back_and_says_so(self, state: bytes) -> None:
        mine = worked(3)
        last = Run.objects.get(pk=mine.run.pk).head_seq
        add_checkpoint(mine.run, last, state)
        falls_back(mine)

    @pytest.mark.parametrize("shift", [-5, -1, 1, 1000])
    def test_a_checkpoint_of_another_place_falls_back_and_says_so(self, shift: int) -> None:
        mine = worked(12)
        good = Checkpoint.objects.filter(run=mine.run).latest("k")
        add_checkpoint(mine.run, 10**6, bytes(good.state), at=good.seq + shift)
        falls_back(mine)

    def test_nothing_is_loaded_before_the_first_fact(self) -> None:
        assert journal.load(owned.new_run().pk) is None


def add_checkpoint(run: Run, k: int, state: bytes, at: int = 0) -> None:
    row = {"key": f"{k:064d}", "k": k, "seq": at or k, "phase": "ACT", "state": state}
    Checkpoint.objects.create(run=run, created_at=timezone.now(), **row)


def falls_back(mine: owned.Owned) -> None:
    with TestCase().assertLogs("loops.storage.journal", "WARNING") as logged:
        loaded = journal.load(mine.run.pk)
    assert loaded is not None
    assert f"run {mine.run.pk}: checkpoint" in logged.output[0]
    assert loaded.state == replay(reader.history(mine.run.pk))


def deep(levels: int, bottom: Any) -> Any:
    value = bottom
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


POISON: dict[str, Any] = {
    "NUL": "a\0b",
    "half a pair": "a \ud800 b",
    "half a pair as a key": {"\ud800": 1, "\0": 2},
    "not a number": [math.nan, math.inf, -math.inf],
    "large integers": [2**53, -(2**53), 2**60, 10**40],
    "our own marks": {"$float": "nan", "#blob": "0" * 64, "#size": 1, "fact": "RunEnded", "v": 9},
    "a reference": {"#blob": "0" * 64, "#size": 1},
    "nested": deep(500, "bottom"),
    "nested, with what JSON cannot say": deep(300, math.nan),
    "five megabytes": "0123456789abcdef" * (5 * 65536),
    "a megabyte of NUL": "\0" * 1_000_000,
}


@pytest.mark.spec("J2", "N1")
class TestPoison:
    @pytest.mark.parametrize("poison", POISON.values(), ids=POISON)
    def test_of_model_and_tool_survives_storage_reload_and_verification(self, poison: Any) -> None:
        mine = owned.begun()
        text = poison if isinstance(poison, str) else "plain"
        data = {"poison": poison}
        result = ToolResult(ok=True, content=text, data=data)
        thinking = text[:100_000]
        said = [
            fakes.says(f"thought {text}", ("look", data), thinking=thinking),
            fakes.says("", (f"no such tool {text[:200]}", data)),
            fakes.done(thinking),
        ]
        assert mine.drive(said, fakes.Tools({"look": lambda arguments: result})) == "ended"

        facts = reader.history(mine.run.pk)
        answered = next(fact for fact in facts if isinstance(fact, f.ModelAnswered))
        completed = next(fact for fact in facts if isinstance(fact, f.ToolCompleted))
        assert same(answered.calls[0].arguments, data)
        assert answered.thinking == thinking
        assert answered.text == f"thought {text}"
        assert completed.result.content == text
        assert same(completed.result.data, data)
        report = chain.verify(mine.run.pk)
        assert report.ok, report.problems
        assert journal.load(mine.run.pk).state.phase.value == "COMMIT"  # type: ignore[union-attr]
        readable(mine.run)

    def test_of_a_person_survives_too(self) -> None:
        mine = owned.begun()
        texts = [value for value in POISON.values() if isinstance(value, str)]
        for text in texts:
            mine.append(f.MessageReceived(text=text, by="ana"))
        mine.append(f.GateOpened(gate="01900000-0000-7000-8000-000000000009", kind="limit_reached", title="?"))
        loaded = journal.load(mine.run.pk)
        assert loaded is not None
        assert [fact.text for fact in reader.history(mine.run.pk) if isinstance(fact, f.MessageReceived)] == texts
        assert chain.verify(mine.run.pk).ok


def same(one: Any, other: Any) -> bool:
    """Equal, with NaN equal to NaN."""
    return canonical.encode(to_plain(one)) == canonical.encode(other)


def readable(run: Run) -> None:
    """People can look at all of it: rows are clean and not endless."""
    record = ToolCallRecord.objects.filter(run=run).order_by("step_number").first()
    assert record is not None
    assert len(record.output) < 20_000
    assert "\0" not in record.output
    reader.raw(run.pk)[0]
    assert reader.conversation(run.pk)


@pytest.mark.spec("A4", "J1", "J7")
class TestBlobs:
    """Long bytes are stored with the facts that name them, or not at all."""

    def test_are_not_there_when_the_facts_are_not(self) -> None:
        mine = owned.begun()
        before = Blob.objects.count()
        long = f.MessageReceived(text="x" * 100_000)
        mine.journal.stage(b"the whole output")

        def fail(cursor: Any) -> None:
            cursor.execute("SELECT count(*) FROM loops_blob")
            assert cursor.fetchone()[0] == before + 2
            raise RuntimeError

        with pytest.raises(RuntimeError):
            mine.append(long, within=[fail])
        assert Blob.objects.count() == before
        mine.append(long)
        assert Blob.objects.count() == before + 2
        assert chain.verify(mine.run.pk).ok

    def test_of_a_stale_owner_are_not_stored(self) -> None:
        mine = owned.begun()
        mine.journal.stage(b"the whole output")
        owned.lapse(mine.run)
        owned.own(mine.run, "next")
        before = Blob.objects.count()
        with pytest.raises(Exception, match="another owner"):
            mine.append(f.MessageReceived(text="x" * 100_000))
        assert Blob.objects.count() == before

    def test_that_are_many_are_sent_ahead_and_do_not_stay_in_memory(self) -> None:
        mine = owned.begun()
        names = [mine.journal.stage(bytes([number]) * 1_000_000) for number in range(40)]
        assert Blob.objects.filter(pk__in=names).count() >= 24
        assert sum(map(len, mine.journal._staged.bodies.values())) <= 16_000_000
        mine.append(f.MessageReceived(text="x"))
        assert Blob.objects.filter(pk__in=names).count() == 40
        mine.append(f.MessageReceived(text="y"))
        assert chain.verify(mine.run.pk).ok

    def test_that_were_pruned_before_a_fact_named_them_are_missed(self) -> None:
        mine = owned.begun()
        mine.journal._staged.sent.add("0" * 64)
        with pytest.raises(blobs.Gone):
            mine.append(f.MessageReceived(text="x"))

    def test_of_a_tool_are_stored_with_its_outcome(self) -> None:
        mine = owned.begun()

        async def look(arguments: Any) -> ToolResult:
            sha256 = await asyncio.to_thread(mine.journal.stage, b"whole" * 1000)
            found = mine.journal.connection.execute("SELECT 1 FROM loops_blob WHERE sha256 = %s", [sha256]).fetchone()
            assert found is None
            return ToolResult(ok=True, content="cut", output=ArtifactRef("output", "text/plain", sha256, 5000))

        assert mine.drive([fakes.says("", ("look", {})), fakes.done()], fakes.Tools({"look": look})) == "ended"
        artifact = Artifact.objects.get(run=mine.run, kind="output")
        assert b"".join(reader.blob(artifact.sha256)) == b"whole" * 1000

    def test_the_same_bytes_are_stored_once(self) -> None:
        mine = owned.begun()
        before = Blob.objects.count()
        for _ in range(3):
            mine.append(f.MessageReceived(text="y" * 100_000))
        assert Blob.objects.count() == before + 1

    @pytest.mark.spec("J3", "J4")
    def test_who_has_much_to_send_is_not_taken_for_frozen(self) -> None:
        """A transaction that waits for its worker is ended, so that a frozen one keeps nobody out; a body of megabytes
        is therefore sent before it begins."""
        mine = owned.begun()
        text = "z" * 40_000_000
        mine.append(f.MessageReceived(text=text))
        (said,) = [fact for fact in reader.history(mine.run.pk) if isinstance(fact, f.MessageReceived)]
        assert said.text == text
        kept = mine.journal.connection
        body = kept.execute("SELECT xmin::text FROM loops_blob WHERE size >= 40000000").fetchone()
        newest = "SELECT xmin::text FROM loops_fact WHERE run_id = %s ORDER BY seq DESC"
        fact = kept.execute(newest, [mine.run.pk]).fetchone()
        assert None not in (body, fact)
        assert body != fact, "each in a transaction of its own"

    def test_a_step_costs_the_same_late_as_early(self) -> None:
        """Bytes of facts and checkpoints for each step; time is for the benchmark. The state knows sixteen steps."""
        mine = worked(60)
        early, late = (stored(mine.run, first, first + 9) for first in (21, 51))
        assert late / early < 1.05


def stored(run: Run, first: int, last: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT (SELECT sum(length(body)) FROM loops_fact WHERE run_id = %(run)s AND step BETWEEN %(a)s AND %(b)s) "
            "+ (SELECT coalesce(sum(length(c.state)), 0) FROM loops_checkpoint c JOIN loops_fact f "
            "ON f.run_id = c.run_id AND f.seq = c.seq WHERE c.run_id = %(run)s AND f.step BETWEEN %(a)s AND %(b)s)",
            {"run": run.pk, "a": first, "b": last},
        )
        return int(cursor.fetchone()[0])


def test_a_call_that_could_not_be_read_is_kept_as_it_was() -> None:
    mine = owned.begun()
    broken = replace(fakes.says("", ("look", {})), calls=(ToolCall("p", "look", {}, "not JSON: {"),))
    assert mine.drive([broken, fakes.done()]) == "ended"
    answered = next(fact for fact in reader.history(mine.run.pk) if isinstance(fact, f.ModelAnswered))
    assert answered.calls[0].error == "not JSON: {"

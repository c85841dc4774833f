"""What a real run was asked with: its requests made again from the journal, its prompts by their hashes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from loops.engine import prompts as engine_prompts
from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain
from loops.engine.state.spec import RunSpec
from loops.llm import prompts
from loops.models import Fact, ModelConfig, ProvenanceRecord, Run
from loops.runs.drive import drive
from loops.services.models import windows
from loops.services.prompts import prompt_versions
from loops.services.tasks import run_spec
from loops.storage import chain, conversations, reader
from loops.workspaces.copies import prepare
from tests.integration.runs.test_scripted_run import submit
from tests.integration.storage.owned import own
from tests.integration.storage.owned import started as owned_started

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


@pytest.fixture
def run(boss: Any) -> Run:
    made = submit(
        boss, "writes_a_file", criteria=[{"text": "there is a file", "command": "test -s hello.txt"}], commands="allow",
        final_review="never",
    )  # fmt: skip
    assert drive(made.pk, "test") == "ended"
    made.refresh_from_db()
    return made


@pytest.mark.spec("R4", "N1", "U1")
def test_every_request_of_a_real_run_is_made_again_with_its_hash(run: Run) -> None:
    asked = conversations.requests(run.pk)
    assert len(asked) >= 2
    for seq, step in asked:
        told = conversations.told(run.pk, seq)
        assert told.matches is True
        assert told.asked is not None
        assert told.step == step
        assert {tool["name"] for tool in told.tools} >= {"read_file", "task_completion"}
        assert told.asked.window == windows()["demo-writes-a-file"]
        assert set(told.asked.tokens) == {"system", "tools", "messages"}


@pytest.mark.spec("U3", "N1")
def test_texts_that_another_version_changed_are_on_record_from_where_it_goes_on(client: Any, boss: Any) -> None:
    """The conversation keeps the words it began with; what is said from here on is named."""
    run = submit(
        boss, "writes_a_file", criteria=[{"text": "there is a file", "command": "test -s hello.txt"}], commands="allow",
        final_review="never",
    )  # fmt: skip
    prepare(run)
    older = engine_prompts.of_journal({"goal": "# Older words\n{{goal}}\n"})
    today = prompt_versions()
    before = today | older.versions() | {"react": "0" * 64, "no_tool_call": "1" * 64}
    owned = own(run, "older version")
    spec = from_plain(RunSpec, run_spec(run))
    owned.append(replace(owned_started(run), spec=spec, prompts=before, wording=older.contents()))
    owned.journal.release(runnable=True)
    assert drive(run.pk, "newer version") == "ended"
    changed = {name: today[name] for name in ("react", "no_tool_call")}
    row = Fact.objects.get(run=run, kind="TextsChanged")
    assert (row.seq, canonical.decode(bytes(row.body))["prompts"]) == (2, changed)
    record = canonical.decode(bytes(ProvenanceRecord.objects.get(run=run).body))
    assert (record["prompts"], record["prompts_changed"]) == (before, [{"seq": 2, "prompts": changed}])
    assert reader.conversation(run.pk)[1]["content"][0]["text"].startswith("# Older words\nDo it")
    assert chain.verify(run.pk).ok
    client.force_login(boss)
    page = client.get(reverse("run-provenance", args=[run.pk])).content.decode()
    assert "From fact 2 on" in page
    assert "changed since" in page


@pytest.mark.spec("U3", "N1")
def test_the_prompts_of_a_run_are_part_of_its_provenance(run: Run, client: Any, boss: Any) -> None:
    expected = prompts.PROMPTS.versions() | engine_prompts.TODAY.versions()
    first = canonical.decode(bytes(Fact.objects.get(run=run, seq=1).body))
    record = canonical.decode(bytes(ProvenanceRecord.objects.get(run=run).body))
    assert first["prompts"] == record["prompts"] == dict(expected)
    assert first["prompt_version"] == f"react:{expected['react']}"
    client.force_login(boss)
    page = client.get(reverse("run-provenance", args=[run.pk])).content.decode()
    for name, sha256 in expected.items():
        assert name in page
        assert sha256 in page
    assert "changed since" not in page
    assert record["prompts_changed"] == []
    assert first["wording"].keys() == {"#blob", "#size"}, "all journals share one blob of it"


@pytest.mark.spec("U1", "S1")
def test_an_admin_says_how_large_a_window_is(run: Run, boss: Any) -> None:
    row = ModelConfig.objects.get(name="demo-writes-a-file")
    assert windows()[row.name] == 200_000
    row.context_window = 12_345
    row.save()
    assert windows()[row.name] == 12_345
    ModelConfig.objects.create(name="local", provider="openai", model_id="my-own-model")
    assert windows()["local"] == 32_768

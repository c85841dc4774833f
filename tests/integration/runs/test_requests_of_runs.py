"""What a real run was asked with: its requests made again from the journal, its prompts by their hashes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.urls import reverse

from loops.engine import canonical, texts
from loops.llm import prompts
from loops.models import Fact, ModelConfig, ProvenanceRecord, Run
from loops.services.driving import drive
from loops.services.models import windows
from loops.storage import conversations
from tests.integration.runs.test_scripted_run import submit

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def boss() -> Any:
    return get_user_model().objects.create_superuser("ana", password="x")


@pytest.fixture
def run(boss: Any) -> Run:
    made = submit(boss, "writes_a_file", criteria=[{"text": "there is a file", "command": "test -s hello.txt"}])
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
def test_the_prompts_of_a_run_are_part_of_its_provenance(run: Run, client: Any, boss: Any) -> None:
    expected = prompts.PROMPTS.versions() | texts.TODAY.versions()
    first = canonical.decode(bytes(Fact.objects.get(run=run, seq=1).body))
    record = canonical.decode(bytes(ProvenanceRecord.objects.get(run=run).body))
    assert first["prompts"] == record["prompts"] == dict(expected)
    assert first["prompt_version"] == f"react:{expected['react']}"
    client.force_login(boss)
    page = client.get(reverse("run-provenance", args=[run.pk])).content.decode()
    for name, sha256 in expected.items():
        assert name in page
        assert sha256 in page


@pytest.mark.spec("U1", "S1")
def test_an_admin_says_how_large_a_window_is(run: Run, boss: Any) -> None:
    row = ModelConfig.objects.get(name="demo-writes-a-file")
    assert windows()[row.name] == 200_000
    row.context_window = 12_345
    row.save()
    assert windows()[row.name] == 12_345
    ModelConfig.objects.create(name="local", provider="openai", model_id="my-own-model")
    assert windows()["local"] == 32_768

"""One call with a tool says what a model can do, in plain words, in admin and on the command line (SPEC S3)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from loops.models import ModelConfig
from loops.services import model_tests, models
from tests.integration.turns.test_line import end_lease, park, worker
from tests.llama.server import Server, serving
from tests.stack import wait_until
from tests.wire.say import Raw, Say
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S3")]
CALL = '{"name": "report", "arguments": {"text": "ready"}}'
SAYS = (("<tool_call>\n", CALL[:19], CALL[19:40], CALL[40:], "\n</tool_call>"),)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("llama"), says=SAYS, window=2048) as running:
        yield running


def model(url: str, **fields: Any) -> ModelConfig:
    return ModelConfig.objects.create(name="own", provider="openai", model_id="tiny", base_url=url, **fields)


def told(tried: model_tests.Tried, beginning: str) -> str:
    return next(line for line in tried.lines if line.startswith(beginning))


def test_a_real_server_is_described(server: Server) -> None:
    tried = model_tests.try_model(model(server.url))
    assert tried.works
    assert "yes, it called the tool" in told(tried, "Tool use")
    assert "2,048 tokens, said by its server" in told(tried, "Window")
    assert "short form" in told(tried, "Window")
    assert "to the first word" in told(tried, "Speed")
    assert told(tried, "Streaming")


def test_a_model_that_answers_in_words_cannot_be_worked_with() -> None:
    with WireServer(lambda seen: Say(text="ready")) as wire:
        tried = model_tests.try_model(model(wire.openai_url))
    assert not tried.works
    assert "no, it answered in words" in told(tried, "Tool use")


def test_streaming_is_told_from_one_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_tests, "IN_ONE_PIECE_S", 1.0)  # a busy machine is slow to take an answer apart
    piece = {"index": 0, "id": "a", "function": {"name": "report", "arguments": '{"text": "ready"}'}}
    message = {"role": "assistant", "content": "So", "tool_calls": [piece]}
    body = {"model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    with WireServer(lambda seen: Raw(200, {"content-type": "application/json"}, json.dumps(body))) as wire:
        whole = model_tests.try_model(model(wire.openai_url))
    with WireServer(lambda seen: Say(calls=[("report", {"text": "ready"})]), pace=1.5) as wire:
        ModelConfig.objects.update(base_url=wire.openai_url)
        pieces = model_tests.try_model(ModelConfig.objects.get())
    assert (told(whole, "Streaming"), told(pieces, "Streaming")) == (
        "Streaming: not seen, its answer came in one piece.",
        "Streaming: yes.",
    )
    assert whole.works
    assert pieces.works


def test_a_failure_is_told_in_the_words_of_the_provider() -> None:
    with WireServer(lambda seen: Raw.error(404, "", "model 'tiny' not found, try pulling it first")) as wire:
        tried = model_tests.try_model(model(wire.openai_url))
    assert not tried.works
    assert "model 'tiny' not found, try pulling it first" in tried.lines[0]


def test_a_server_that_answers_runs_is_tried_all_the_same_and_its_line_is_told() -> None:
    """A line for each run: one that is answered, one that waits, and a turn that a killed worker left."""
    with WireServer(lambda seen: Say(calls=[("report", {"text": "ready"})])) as wire:
        row = model(wire.openai_url)
        config = models.config_of(row)
        assert config.at_once == 1
        assert not any(line.startswith("Its server is busy") for line in model_tests.try_model(row).lines)
        answered, waits, killed = (worker(1, config.seat) for _ in range(3))
        killed.turns.take("own")
        end_lease(killed)
        assert (answered.turns.take("own"), waits.turns.take("own")) == (0, 1)
        park(waits)
        tried = model_tests.try_model(row)
        model_tests.begin_test(row)
    assert tried.works
    said = (
        "Its server is busy: it takes 1 at a time and is answering 1 call of runs, and 1 more waits for a turn. "
        "The test goes beside them, so both take longer than usual."
    )
    assert said in tried.lines
    row.refresh_from_db()
    assert row.test_result == f"Under way: reload this page in a moment.\n{said}"
    assert waits.turns.take("own") == 1, "the test took nobody's place"


def test_what_an_error_taught_is_asked_again(server: Server) -> None:
    row = model(server.url, window_found=512, window_source="learnt")
    model_tests.try_model(row)
    row.refresh_from_db()
    assert (row.window_found, row.window_source) == (2048, "asked")


@pytest.mark.spec("T3")
def test_the_command_line_says_it(server: Server) -> None:
    model(server.url)
    out = StringIO()
    call_command("agentops", "test-model", "own", stdout=out)
    assert "Tool use: yes" in out.getvalue()
    with pytest.raises(CommandError, match="There is no model other"):
        call_command("agentops", "test-model", "other")


@pytest.mark.spec("T3")
def test_init_sets_a_model_up_and_tests_it(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    out = StringIO()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    call_command("agentops", "init", stdout=out)
    assert server.url in out.getvalue()
    assert "Tool use: yes" in out.getvalue()


def test_the_button_has_a_worker_do_it(live_worker: Any, server: Server) -> None:
    row = model(server.url)
    root = Client()
    root.force_login(get_user_model().objects.create_superuser("root", password="x"))
    page = reverse("admin:loops_modelconfig_change", args=[row.pk])
    shown = root.get(page).content.decode()
    assert "Never tested" in shown
    assert "Save and test this model" in shown
    form = {"name": "own", "provider": "openai", "model_id": "tiny", "base_url": server.url, "max_tokens": 1000}
    form |= {"thinking": "off", "pace": 0, "reason": "r", "loops_modelconfig_save_and_test": "1"}
    answer = root.post(page, form)
    assert (answer.status_code, answer["Location"]) == (302, page)
    wait_until(lambda: "Tool use: yes" in root.get(page).content.decode(), "the worker's answer")
    assert "2,048 tokens, said by its server" in root.get(page).content.decode()

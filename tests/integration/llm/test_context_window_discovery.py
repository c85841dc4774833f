"""Each kind of server says its window elsewhere (SPEC U1)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from loops.llm.config import ModelConfig
from loops.llm.endpoints.addresses import is_private, origin
from loops.llm.endpoints.context_window_discovery import ask_window
from loops.models import ModelConfig as ModelConfigRow
from loops.services import model_tests, models
from tests import factories as make

pytestmark = pytest.mark.spec("U1")
NOBODY = "http://127.0.0.1:9/v1"


@contextmanager
def serving(answers: Mapping[str, Any], otherwise: int = 404) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("content-length") or 0))
            found = answers.get(self.path)
            body = json.dumps(found).encode() if found is not None else b"no"
            self.send_response(200 if found is not None else otherwise)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


def listed(**entry: Any) -> dict[str, Any]:
    return {"/v1/models": {"data": [{"id": "other", "max_model_len": 7000}, {"id": "m", **entry}]}}


SHOWN = {"model_info": {"general.architecture": "llama", "llama.context_length": 131072}, "parameters": "stop x"}
LOADED = {"models": [{"name": "m", "context_length": 8192}]}
SERVERS: dict[str, tuple[dict[str, Any], int]] = {
    "llama.cpp": ({"/props": {"default_generation_settings": {"n_ctx": 4096}}, **listed(meta={"n_ctx": 8192})}, 4096),
    "vLLM": (listed(max_model_len=32768), 32768),
    "OpenRouter": (listed(context_length=163840), 163840),
    "Groq": (listed(context_window=131072), 131072),
    "Mistral": (listed(max_context_length=40000), 40000),
    "llama.cpp behind a router": (listed(meta={"n_ctx": 2048, "n_ctx_train": 32768}), 2048),
    "Ollama, stated": ({**listed(), "/api/show": {**SHOWN, "parameters": "temperature 1\nnum_ctx     16384"}}, 16384),
    "Ollama, loaded": ({**listed(), "/api/show": SHOWN, "/api/ps": LOADED}, 8192),
    "Ollama, neither": ({**listed(), "/api/show": SHOWN, "/api/ps": {"models": []}}, 4096),
    "Ollama, made for less": ({"/api/show": {"model_info": {"gpt2.context_length": 1024}}}, 1024),
    "LM Studio": ({**listed(), "/api/v0/models/m": {"max_context_length": 32768, "loaded_context_length": 6000}}, 6000),
    "TGI": ({**listed(), "/info": {"max_total_tokens": 2048}}, 2048),
    "one that only knows what it was trained for": (listed(meta={"n_ctx_train": 32768}), 0),
    "nonsense": ({"/v1/models": [1], "/props": "x", "/api/show": 7, "/info": {"max_total_tokens": 1}}, 0),
}  # fmt: skip


@pytest.mark.parametrize("kind", SERVERS)
def test_the_window_is_found_where_each_server_says_it(kind: str) -> None:
    answers, window = SERVERS[kind]
    with serving(answers) as url:
        assert ask_window(ModelConfig(name="m", provider="openai", model_id="m", base_url=url), within_s=60) == window


def test_a_server_that_does_not_answer_says_nothing() -> None:
    gone = ModelConfig(name="m", provider="openai", model_id="m", base_url=NOBODY)
    assert ask_window(gone, within_s=60) is None


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
def test_a_server_that_loads_or_refuses_may_say_it_later(status: int) -> None:
    """llama.cpp answers 503 everywhere until its model is there."""
    with serving({}, status) as url:
        assert ask_window(ModelConfig(name="m", provider="openai", model_id="m", base_url=url), within_s=60) is None
    with serving(listed(max_model_len=4096), status) as url:
        assert ask_window(ModelConfig(name="m", provider="openai", model_id="m", base_url=url), within_s=60) == 4096


@pytest.mark.parametrize("change", [{"refused": "nobody allowed it"}, {"base_url": ""}, {"provider": "anthropic"}])
def test_who_is_not_asked_says_nothing(change: dict[str, Any]) -> None:
    with serving(listed(max_model_len=4096)) as url:
        told = ModelConfig(name="m", provider="openai", model_id="m", base_url=url)
        assert ask_window(told, within_s=60) == 4096
        assert ask_window(replace(told, **change), within_s=60) is None


@pytest.mark.django_db
@pytest.mark.parametrize("refused", [True, False])
def test_a_test_that_reached_nobody_leaves_the_window_to_be_asked_for(*, refused: bool) -> None:
    """Else a run of the next minutes assumes a window that its server does not have."""
    with serving(listed(max_model_len=4096)) as url:
        row = make.model(
            name="m", provider="openai", model_id="m", base_url=url if refused else NOBODY, vetted=not refused
        )
        assert not model_tests.try_model(row, {}).works
        ModelConfigRow.objects.filter(pk=row.pk).update(base_url=url, vetted=True)
        models.ask_windows(["m"], {})
    row.refresh_from_db()
    assert (row.window_found, models.window_of(row)) == (4096, 4096)


@pytest.mark.django_db
def test_a_server_that_answered_without_saying_is_left_alone_for_a_while() -> None:
    row = make.model(name="m", provider="openai", model_id="m")
    with serving(listed()) as url:
        ModelConfigRow.objects.filter(pk=row.pk).update(base_url=url)
        models.ask_windows(["m"], {})
    row.refresh_from_db()
    assert (row.window_found, row.window_at is not None) == (None, True)


@pytest.mark.parametrize(
    ("url", "private"),
    [
        ("http://127.0.0.1:8080/v1", True),
        ("http://[::1]:8080", True),
        ("http://192.168.1.7/v1", True),
        ("http://10.1.2.3:11434/v1", True),
        ("http://localhost:1234/v1", True),
        ("http://ollama:11434/v1", True),
        ("http://gpu.lan/v1", True),
        ("http://host.docker.internal:11434/v1", True),
        ("https://api.openai.com/v1", False),
        ("https://8.8.8.8/v1", False),
        ("https://localhost.example.com", False),
        ("", False),
        ("http://[broken", False),
    ],
)
def test_which_addresses_are_ours(url: str, private: bool) -> None:
    assert is_private(url) is private


def test_models_of_one_server_have_one_origin() -> None:
    assert origin("http://GPU.lan:8080/v1") == origin("http://key@gpu.lan:8080/v2/") == "http://gpu.lan:8080"

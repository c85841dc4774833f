"""The guide's own provider: its models are asked by a real worker, and its faults are failures of a call (SPEC S3)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agentops.ops import checks
from loops.engine import facts as f
from loops.models import ModelCall, ModelConfig, Run
from loops.storage import reader
from tests import acme
from tests.integration.guides.conftest import House

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S3", "X9")]
DONE = {"stop": "end", "text": "That is it.", "calls": [{"tool": "task_completion", "arguments": {"result": "42"}}]}


@contextmanager
def server(*answers: tuple[int, dict[str, Any]]) -> Iterator[tuple[str, list[tuple[dict[str, Any], str]]]]:
    """Answers in turn, the last again; yields its address and what came: (body, key)."""
    seen: list[tuple[dict[str, Any], str]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status, said = answers[min(len(seen), len(answers) - 1)]
            seen.append((json.loads(body), self.headers["x-acme-key"]))
            data = json.dumps({"tokens": [10, 5], **said}).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        threading.Thread(target=listening.serve_forever, args=[0.05], daemon=True).start()
        yield f"http://127.0.0.1:{listening.server_port}", seen
        listening.shutdown()


def failures(run: Run) -> list[f.Fact]:
    return [fact for fact in reader.history(run.pk) if isinstance(fact, f.ModelFailed)]


def test_a_run_is_answered_by_a_provider_of_a_package(packages: None, worker_with_packages: Any) -> None:
    sleeping, busy = (200, {"stop": "sleeping"}), (503, {"error": "busy"})
    with server(sleeping, busy, (200, DONE)) as (url, seen):
        house = House(None, provider="acme", model_id="large", base_url=url)
        run = house.ended(house.submit())
        assert run.status == "completed", failures(run)
    assert [body["model"] for body, _ in seen] == ["large"] * 3
    assert {tool["name"] for tool in seen[0][0]["tools"]} >= {"read_file", "task_completion"}
    call = ModelCall.objects.filter(run=run).last()
    assert call is not None
    assert (call.provider, call.input_tokens, call.output_tokens) == ("acme", 10, 5)


def test_a_fault_of_a_provider_ends_its_run_with_its_words(packages: None, worker_with_packages: Any) -> None:
    with server((200, {"stop": "end", "tokens": ["ten", "five"]})) as (url, seen):
        house = House(None, provider="acme", base_url=url)
        run = house.ended(house.submit())
    assert run.status == "failed"
    assert len(seen) == 1, "asked again, it would fail again"
    assert "the provider 'acme' failed: ValueError" in str(failures(run))


def test_an_admin_chooses_it_and_its_address_is_allowed_first(packages: None) -> None:
    house = House(None, provider="acme")
    page = Client()
    page.force_login(house.boss)
    form = {"name": "theirs", "provider": "acme", "model_id": "m", "max_tokens": "100", "thinking": "off", "pace": "0"}
    asked = {**form, "base_url": "http://127.0.0.1:9", "api_key_env": "ACME_KEY"}
    refused = page.post(reverse("admin:loops_modelconfig_add"), asked).content.decode()
    assert "The value of ACME_KEY would be sent to http://127.0.0.1:9" in refused
    unknown = page.post(reverse("admin:loops_modelconfig_add"), {**asked, "provider": "emca", "send_there": "on"})
    assert "emca is not one of the available choices" in unknown.content.decode()
    assert page.post(reverse("admin:loops_modelconfig_add"), {**asked, "send_there": "on"}).status_code == 302
    assert ModelConfig.objects.get(name="theirs").provider == "acme"


def test_a_broken_provider_is_named_and_stops_nobody(
    packages: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = acme.write(tmp_path / "site", "providers", "half", "import not_there", entry="half")
    acme.write(broken, "providers", "clash", "found = print", entry="openai")
    monkeypatch.syspath_prepend(broken)
    (found,) = [check for check in checks.standing() if check.name == "packages"]
    assert all(said in found.said for said in ("acme-half 1.0", "'not_there'", "acme-clash 1.0", "'openai' is taken"))
    house = House(None, provider="half")
    page = Client()
    page.force_login(house.boss)
    assert "acme-half 1.0" in page.get(reverse("tools")).content.decode()
    assert "acme" in page.get(reverse("admin:loops_modelconfig_add")).content.decode()

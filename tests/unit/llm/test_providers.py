"""Providers of other packages: broken ones stop nobody, and what goes wrong in one is a failed call (SPEC S3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from loops import models
from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelReply, ModelRequest, ModelRole, StopReason, Usage
from loops.llm import providers, without_sdk
from loops.llm.config import ModelConfig
from loops.llm.endpoints import keys
from loops.llm.registry import ModelService
from loops.llm.reply_builder import Ending
from tests import acme

pytestmark = pytest.mark.spec("S3")
REQUEST = ModelRequest(role=ModelRole.ACTOR, model="m", system="", messages=())
CODE = """
import builtins
class found:
    def __init__(self, config):
        self.answers = builtins.acme_answers
    async def call(self, request, on_event):
        return self.answers(request)
    async def close(self):
        raise OSError("never mind")
"""


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[Any], Any]], ModelReply]]:
    """Asks a model of an installed provider that answers with what a function says."""
    monkeypatch.syspath_prepend(acme.write(tmp_path, "providers", "odd", CODE))
    monkeypatch.delitem(__import__("sys").modules, "acme_odd", raising=False)
    providers.forget()

    def asked(answers: Callable[[Any], Any]) -> ModelReply:
        monkeypatch.setattr("builtins.acme_answers", answers, raising=False)

        async def once() -> ModelReply:
            configured = ModelConfig(name="m", provider="odd", model_id="x", api_key="key-123456", xml_tools=True)
            service = ModelService({"m": configured})
            try:
                return await service.call(REQUEST, lambda event: None)
            finally:
                await service.close()

        return asyncio.run(once())

    yield asked
    monkeypatch.undo()
    providers.forget()


def raising(error: Exception) -> Callable[[Any], Any]:
    def answer(request: Any) -> Any:
        raise error

    return answer


def response(status: int) -> httpx2.HTTPStatusError:
    request = httpx2.Request("POST", "http://there")
    body = {"error": {"message": "no"}}
    return httpx2.HTTPStatusError("no", request=request, response=httpx2.Response(status, json=body, request=request))


def test_each_of_ours_has_its_label_in_the_database_and_its_address_among_those_of_keys() -> None:
    assert {each.name: each.label for each in providers.OURS.values()} == dict(models.ModelConfig.Provider.choices)
    assert {each.address for each in providers.OURS.values() if each.address} <= set(keys.OF_PROVIDERS.values())


def test_an_answer_in_one_piece_names_its_provider(ask: Any) -> None:
    end = Ending(stop=StopReason.END_TURN, usage=Usage(input_tokens=1), provider="somebody else", model_id="x")
    calls = [("look", {"at": "it"}), ("look", {})]
    reply = ask(lambda request: without_sdk.answer(request, print, end, text="Hi \ud800", calls=calls))
    assert (reply.provider, reply.text, reply.stop) == ("odd", "Hi \ufffd", StopReason.TOOL_USE)
    assert [call.arguments for call in reply.calls] == [{"at": "it"}, {}]
    assert len({call.id for call in reply.calls}) == 2


def test_calls_are_read_from_the_text_of_a_model_that_was_set_up_so(ask: Any) -> None:
    end = Ending(stop=StopReason.END_TURN, usage=Usage(), provider="odd", model_id="x")
    reply = ask(lambda request: without_sdk.answer(request, print, end, text='<tool_call name="look"></tool_call>'))
    assert [call.name for call in reply.calls] == ["look"]


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (ConnectionResetError("gone"), FailureKind.TRANSIENT, "connection_failed"),
        (TimeoutError(), FailureKind.TRANSIENT, "timeout"),
        (httpx2.ReadTimeout("slow"), FailureKind.TRANSIENT, "timeout"),
        (response(503), FailureKind.TRANSIENT, "http_503"),
        (response(401), FailureKind.UNRECOVERABLE, "http_401"),
        (KeyError("tokens"), FailureKind.UNRECOVERABLE, "provider_failed"),
        (SystemExit(3), FailureKind.UNRECOVERABLE, "provider_failed"),
        (ModelError("later", kind=FailureKind.TRANSIENT, code="own"), FailureKind.TRANSIENT, "own"),
    ],
    ids=str,
)
def test_whatever_is_raised_is_a_failed_call(ask: Any, error: BaseException, kind: FailureKind, code: str) -> None:
    with pytest.raises(ModelError) as failed:
        ask(raising(error))
    assert (failed.value.kind, failed.value.code) == (kind, code)


def test_what_is_no_reply_is_a_failed_call_and_no_key_is_told(ask: Any) -> None:
    with pytest.raises(ModelError, match="'odd' failed: TypeError: it answered with a str"):
        ask(lambda request: "hello")
    with pytest.raises(ModelError) as failed:
        ask(raising(ValueError("refused key-123456")))
    assert "key-123456" not in failed.value.message


@pytest.mark.parametrize(
    ("name", "code", "reason"),
    [
        ("openai", "found = print", "'openai' is taken"),
        ("Acme", "found = print", "its name takes"),
        ("odd2", "found = 3", "names a int"),
        ("odd3", "import not_there", "No module named"),
    ],
)
def test_a_broken_one_is_named_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: str, reason: str
) -> None:
    monkeypatch.syspath_prepend(acme.write(tmp_path, "providers", f"broken_{name.lower()}", code, entry=name))
    providers.forget()
    (broken,) = providers.broken()
    assert reason in broken.reason
    assert set(dict(providers.choices())) == set(providers.OURS)
    if name not in providers.OURS:
        with pytest.raises(providers.UnknownProvider, match="cannot be used"):
            providers.get(name)
    monkeypatch.undo()
    providers.forget()

"""Anthropic's Messages API through its SDK (SPEC C2, C3, E6). The only module that imports ``anthropic``.

Import this module in worker processes only: the SDK costs seconds of start-up. One instance belongs to one event loop.
The SDK makes the request and names the failures; the stream is read as raw events (see ``anthropic_stream``), because
errors after the first byte reach the caller unwrapped anyway and an early end is silent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic, AsyncStream

from loops.engine.ports import ModelError
from loops.engine.values import ModelEvent, ModelReply, ModelRequest, ModelRole
from loops.llm.anthropic.request import Made, memo, request_body, seals
from loops.llm.anthropic.stream import MessageDecoder, events_of
from loops.llm.config import ModelConfig
from loops.llm.endpoints import timeouts
from loops.llm.endpoints.connections import AddressRefused, RedirectRefused, guard, stay, trusted
from loops.llm.memo import Memo
from loops.llm.transport_errors import configuration_failure, http_failure, page_failure, wire_failure

OnEvent = Callable[[ModelEvent], None]
_STALE_THINKING = re.compile(r"HTTP 400: .*`thinking` block.* bound to a different conversation", re.DOTALL)


class AnthropicModel:
    """One configured model of the Messages API."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._memos: dict[tuple[ModelRole, bool], Memo[Made]] = {}
        self._stale: set[str] = set()
        base_url = config.base_url or "https://api.anthropic.com"
        timeout = httpx2.Timeout(max(config.silence_s), connect=config.connect_timeout)
        hooks = timeouts.hooks(*config.silence_s, first=stay)
        client = anthropic.DefaultAsyncHttpxClient(
            base_url=base_url, timeout=timeout, event_hooks=hooks, verify=trusted()
        )
        guard(client, inward=config.inward)
        self._client = AsyncAnthropic(
            api_key=config.api_key or "none",  # an empty key would make the SDK look into the environment
            base_url=base_url,
            max_retries=0,
            timeout=timeout,
            http_client=client,
        )

    async def call(self, request: ModelRequest, on_event: OnEvent) -> ModelReply:
        """One answer, streamed. Raises ModelError for every failure.

        A newer model takes its thinking back only behind the very words it came after. Where those were pruned, or
        changed by a fork or an update, it is asked once more without, and that thinking stays out from then on.
        """
        try:
            return await self._ask(request, on_event)
        except ModelError as error:
            if not _STALE_THINKING.search(str(error)):
                raise
        self._stale |= seals(request)
        return await self._ask(request, on_event)

    async def _ask(self, request: ModelRequest, on_event: OnEvent) -> ModelReply:
        xml = request.xml_tools
        decoder = MessageDecoder(request, self._config.model_id, xml=xml)
        made = self._memos.setdefault((request.role, xml), memo(self._config.name, xml=xml))
        body = request_body(request, self._config, xml=xml, made=made, without=self._stale)
        try:
            create = cast(Any, self._client.messages.with_streaming_response.create)
            async with create(stream=True, **body) as response:
                decoder.request_id = response.headers.get("request-id", "")
                await self._read(response, decoder, on_event)
        except (anthropic.AnthropicError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise self._failure(error) from error
        except UnicodeDecodeError as error:
            raise wire_failure("bad_stream", f"the stream is no UTF-8: {error}") from None
        if not decoder.started:
            raise wire_failure("empty_stream", "the answer held no message", self._config.api_key)
        return decoder.reply()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _read(self, response: Any, decoder: MessageDecoder, on_event: OnEvent) -> None:
        kind = response.headers.get("content-type", "")
        if "application/json" in kind:
            for event in events_of(_decoded(await response.read())):
                _feed(decoder, event, on_event)
            return
        if "text/html" in kind:
            raise page_failure(await response.read())
        async for sse in AsyncStream.raw_events(response.http_response):
            if sse.event == "ping" or not sse.data:
                continue
            if sse.event == "error":
                raise http_failure(200, sse.data, {}, self._config.api_key)
            event = _decoded(sse.data)
            if event.get("type") == "error":
                raise http_failure(200, event, {}, self._config.api_key)
            _feed(decoder, event, on_event)

    def _failure(self, error: Exception) -> ModelError:
        secret = self._config.api_key
        match error:
            case anthropic.APIStatusError():
                return http_failure(error.status_code, error.body or "", error.response.headers, secret)
            case anthropic.APITimeoutError() | httpx2.TimeoutException():
                return wire_failure("timeout", timeouts.words_of(error, max(self._config.silence_s)), secret)
            case anthropic.APIConnectionError():
                return self._connection_failure(error.__cause__ or error)
            case httpx2.RemoteProtocolError():
                return wire_failure("connection_cut", f"the stream broke off: {error}", secret)
            case httpx2.TransportError():
                return self._connection_failure(error)
            case httpx2.InvalidURL():
                return configuration_failure("bad_base_url", str(error), secret)
        return wire_failure("sdk_error", f"{type(error).__name__}: {error}", secret)

    def _connection_failure(self, error: BaseException) -> ModelError:
        text, secret = f"{type(error).__name__}: {error}", self._config.api_key
        if isinstance(error, AddressRefused | RedirectRefused):
            return configuration_failure("address_not_allowed", str(error), secret)
        if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return configuration_failure("bad_base_url", text, secret)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return configuration_failure("bad_certificate", text, secret)
        before = isinstance(error, httpx2.ConnectError)
        return wire_failure("connection_failed" if before else "connection_reset", text, secret)


def _decoded(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise wire_failure("bad_stream", f"an event is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise wire_failure("bad_stream", "an event is no JSON object")
    return value


def _feed(decoder: MessageDecoder, event: dict[str, Any], on_event: OnEvent) -> None:
    try:
        happened = decoder.feed(event)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise wire_failure("bad_stream", f"a senseless {event.get('type')} event: {error!r}") from None
    for item in happened:
        on_event(item)

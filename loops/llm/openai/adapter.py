"""Any OpenAI-compatible endpoint through the openai SDK (SPEC C3, E6). The only module that imports ``openai``.

Import this module in worker processes only: the SDK costs seconds of start-up. One instance belongs to one event loop.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import httpx2
import openai
from openai import AsyncOpenAI

from loops.engine.ports import ModelError
from loops.engine.values import ModelEvent, ModelReply, ModelRequest, ModelRole
from loops.llm.config import ModelConfig
from loops.llm.endpoints import timeouts
from loops.llm.endpoints.connections import AddressRefused, RedirectRefused, guard, stay, trusted
from loops.llm.memo import Memo
from loops.llm.openai.request import Made, memo, request_body
from loops.llm.openai.stream import ChunkDecoder
from loops.llm.transport_errors import configuration_failure, http_failure, page_failure, wire_failure

OnEvent = Callable[[ModelEvent], None]


class OpenAIModel:
    """One configured model behind a Chat Completions endpoint."""

    def __init__(self, config: ModelConfig) -> None:
        self._config = config
        self._memos: dict[tuple[ModelRole, bool], Memo[Made]] = {}
        base_url = config.base_url or "https://api.openai.com/v1"
        timeout = httpx2.Timeout(max(config.silence_s), connect=config.connect_timeout)
        hooks = timeouts.hooks(*config.silence_s, first=stay)
        client = openai.DefaultAsyncHttpxClient(base_url=base_url, timeout=timeout, event_hooks=hooks, verify=trusted())
        guard(client, inward=config.inward)
        self._client = AsyncOpenAI(
            api_key=config.api_key or "none",  # an empty key would make the SDK look into the environment
            base_url=base_url,
            max_retries=0,
            timeout=timeout,
            http_client=client,
        )

    async def call(self, request: ModelRequest, on_event: OnEvent) -> ModelReply:
        """One answer, streamed. Raises ModelError for every failure."""
        xml = request.xml_tools
        decoder = ChunkDecoder(request, self._config.model_id, xml=xml)
        made = self._memos.setdefault((request.role, xml), memo(self._config, xml=xml))
        body = request_body(request, self._config, xml=xml, made=made)
        try:
            create = cast(Any, self._client.chat.completions.create)
            stream = await create(stream=True, **body)
            decoder.request_id = stream.response.headers.get("x-request-id", "")
            async with stream:
                await self._read(stream, decoder, on_event)
            decoder.is_whole = timeouts.is_marked_whole(stream.response)
        except (openai.OpenAIError, httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            if not decoder.told_of_call(getattr(error, "body", None)):
                raise self._failure(error) from error
        if not decoder.started:
            raise wire_failure("empty_stream", "the answer held no message", self._config.api_key)
        return decoder.reply()

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def _read(self, stream: Any, decoder: ChunkDecoder, on_event: OnEvent) -> None:
        kind = stream.response.headers.get("content-type", "")
        if "text/html" in kind:
            raise page_failure(await stream.response.aread())
        if "application/json" in kind:
            self._feed(decoder, _decoded(await stream.response.aread()), on_event)
            return
        chunks = aiter(stream)
        while (chunk := await self._next(chunks)) is not None:
            self._feed(decoder, chunk, on_event)

    async def _next(self, chunks: Any) -> Any:
        try:
            return await anext(chunks, None)
        except (ValueError, RecursionError) as error:
            raise wire_failure("bad_stream", f"a chunk is no JSON: {error}") from None

    def _feed(self, decoder: ChunkDecoder, chunk: Any, on_event: OnEvent) -> None:
        try:
            plain = chunk if isinstance(chunk, Mapping) else chunk.to_dict(warnings=False)
            if plain.get("error") and not decoder.told_of_call(plain["error"]):
                raise http_failure(200, plain, {}, self._config.api_key)
            happened = decoder.feed(plain)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise wire_failure("bad_stream", f"a senseless chunk: {error!r}") from None
        for item in happened:
            on_event(item)

    def _failure(self, error: Exception) -> ModelError:
        secret = self._config.api_key
        match error:
            case openai.APIStatusError():
                return http_failure(error.status_code, error.body or "", error.response.headers, secret)
            case openai.APITimeoutError() | httpx2.TimeoutException():
                return wire_failure("timeout", timeouts.words_of(error, max(self._config.silence_s)), secret)
            case openai.APIConnectionError():
                return self._connection_failure(error.__cause__ or error)
            case httpx2.TransportError():
                return self._connection_failure(error)
            case httpx2.InvalidURL():
                return configuration_failure("bad_base_url", str(error), secret)
            case openai.APIError():  # an error in the middle of the stream
                return http_failure(200, error.body or {"message": error.message}, {}, secret)
        return wire_failure("sdk_error", f"{type(error).__name__}: {error}", secret)

    def _connection_failure(self, error: BaseException) -> ModelError:
        text, secret = f"{type(error).__name__}: {error}", self._config.api_key
        if isinstance(error, AddressRefused | RedirectRefused):
            return configuration_failure("address_not_allowed", str(error), secret)
        if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
            return configuration_failure("bad_base_url", text, secret)
        if "CERTIFICATE_VERIFY_FAILED" in text:
            return configuration_failure("bad_certificate", text, secret)
        if isinstance(error, httpx2.RemoteProtocolError):
            return wire_failure("connection_cut", f"the stream broke off: {error}", secret)
        return wire_failure(
            "connection_failed" if isinstance(error, httpx2.ConnectError) else "connection_reset", text, secret
        )


def _decoded(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise wire_failure("bad_stream", f"the answer is no JSON: {error}") from None

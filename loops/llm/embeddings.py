"""Vectors of texts from any OpenAI-compatible ``/embeddings``: OpenAI, Ollama, vLLM, TEI, llama.cpp (SPEC F2).

For the monitor's process only. What comes back is not trusted: vectors that are not as many, as long and as finite as
they should be are refused, as is an answer that is too large or too late.
"""

from __future__ import annotations

import asyncio
import json
import math
from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import httpx2

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind
from loops.llm.config import ModelConfig
from loops.llm.endpoints.connections import AddressRefused, guard, trusted
from loops.llm.transport_errors import configuration_failure, http_failure, wire_failure

DEFAULT_URL = "https://api.openai.com/v1"
WITHIN_S = 5.0
"""For all texts of one question: the monitor has runs to watch meanwhile."""
BATCH = 32
"""Texts a request: what every server takes."""
MOST_BYTES = 16_000_000
MOST_DIMENSIONS = 8192


class Embeddings:
    """One configured model. Every answer has vectors of the length that its first one had."""

    def __init__(self, config: ModelConfig, within_s: float = WITHIN_S) -> None:
        self.model = config.model_id
        self._url = f"{(config.base_url or DEFAULT_URL).rstrip('/')}/embeddings"
        self._key = config.api_key.strip()
        self._inward = config.inward
        self._within_s = min(within_s, config.timeout)
        self._dimensions = 0

    def __call__(self, texts: Sequence[str]) -> list[array[float]]:
        """A vector of length 1 for each text, in their order. Raises ModelError for every failure."""
        try:
            return asyncio.run(self._all(texts))
        except TimeoutError:
            raise wire_failure("timeout", f"no answer within {self._within_s:g} s") from None
        except AddressRefused as error:
            raise configuration_failure("address_not_allowed", str(error), self._key) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError, UnicodeError, OSError) as error:
            raise wire_failure("connection_failed", f"{type(error).__name__}: {error}", self._key) from None

    async def _all(self, texts: Sequence[str]) -> list[array[float]]:
        found: list[array[float]] = []
        made = httpx2.AsyncClient(timeout=self._within_s, verify=trusted())
        async with asyncio.timeout(self._within_s), made as client:
            guard(client, inward=self._inward)
            for start in range(0, len(texts), BATCH):
                batch = list(texts[start : start + BATCH])
                found += self._vectors(await self._answer(client, batch), len(batch))
        return found

    async def _answer(self, client: httpx2.AsyncClient, batch: list[str]) -> bytes:
        asked = {"model": self.model, "input": batch, "encoding_format": "float"}
        headers = {"authorization": f"Bearer {self._key}"} if self._key else {}
        body = bytearray()
        async with client.stream("POST", self._url, json=asked, headers=headers) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > MOST_BYTES:
                    raise _refused("the answer is too large")
        if response.status_code != 200:
            raise http_failure(response.status_code, bytes(body), response.headers, self._key)
        return bytes(body)

    def _vectors(self, body: bytes, count: int) -> list[array[float]]:
        try:
            rows = sorted(json.loads(body)["data"], key=lambda row: row["index"])
            indices, raw = [row["index"] for row in rows], [row["embedding"] for row in rows]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise _refused("the answer holds no vectors") from None
        if indices != list(range(count)):
            raise _refused(f"there are {len(indices)} vectors for {count} texts")
        return [self._of_length_1(vector) for vector in raw]

    def _of_length_1(self, vector: Any) -> array[float]:
        if not isinstance(vector, list) or not all(type(number) in (int, float) for number in vector):
            raise _refused("a vector holds something else than numbers")
        self._dimensions = self._dimensions or len(vector)
        if len(vector) != self._dimensions or not 0 < len(vector) <= MOST_DIMENSIONS:
            raise _refused(f"a vector has {len(vector)} dimensions, where {self._dimensions or 'some'} are right")
        try:
            length = math.hypot(*vector)
        except OverflowError:
            length = math.inf
        if not 0 < length < math.inf:
            raise _refused("a vector has no finite length")
        return array("f", (number / length for number in vector))


def _refused(why: str) -> ModelError:
    return ModelError(f"embeddings refused: {why}", kind=FailureKind.SYSTEMATIC, code="bad_vectors")


def connected(configs: Mapping[str, ModelConfig], name: str) -> Embeddings:
    """The configured model of that name. Raises ModelError where there is none that could answer."""
    config = configs.get(name)
    if config is None or config.provider != "openai":
        raise configuration_failure("unknown_model", f"no OpenAI-compatible model named {name!r} is configured")
    if config.refused:
        raise configuration_failure("address_not_allowed", f"model {name!r} is not asked: {config.refused}")
    return Embeddings(config)

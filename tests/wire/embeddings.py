"""Embeddings over the wire that know a few synonyms: texts that say the same in other words get the same vector."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from loops.llm.config import ModelConfig
from tests.wire.say import Raw, Seen
from tests.wire.server import WireServer

DIMENSIONS = 64
MODEL = "small-embedder"
SYNONYMS = (
    {"find", "seek", "locate", "hunt", "search", "discover"},
    {"port", "socket", "endpoint", "listener", "address"},
    {"nothing", "none", "empty", "missing", "absent", "naught"},
)
_CONCEPT = {word: f"concept{number}" for number, words in enumerate(SYNONYMS) for word in words}
Vectors = Callable[[Sequence[str]], list[Any]]


def vector(text: str) -> list[float]:
    """Counts of what a text speaks of, each in a place of its own."""
    counts = [0.0] * DIMENSIONS
    for word in re.findall(r"[a-z]+", text.lower()):
        concept = _CONCEPT.get(word, word)
        counts[int(hashlib.sha256(concept.encode()).hexdigest(), 16) % DIMENSIONS] += 1.0
    return counts


def honest(texts: Sequence[str]) -> list[Any]:
    return [vector(text) for text in texts]


def serving(vectors: Vectors = honest) -> Callable[[Seen], Raw]:
    """A handler that answers as OpenAI does, in an order of its own: the index says which is which."""

    def answer(seen: Seen) -> Raw:
        made = vectors(seen.body["input"])
        rows = [{"object": "embedding", "index": at, "embedding": each} for at, each in enumerate(made)]
        body = {"object": "list", "model": seen.body["model"], "data": rows[::-1], "usage": {"total_tokens": 1}}
        return Raw(headers={"content-type": "application/json"}, body=json.dumps(body))

    return answer


def config(server: WireServer, **more: Any) -> ModelConfig:
    given: dict[str, Any] = {"api_key": "secret-key-1", "timeout": 60.0, "base_url": server.openai_url, **more}
    return ModelConfig(name="meanings", provider="openai", model_id=MODEL, **given)

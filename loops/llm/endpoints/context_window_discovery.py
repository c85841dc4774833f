"""Ask an endpoint for the window of a model (SPEC U1): OpenAI-compatible lists, llama.cpp, Ollama, LM Studio, TGI.

Every kind of server says it elsewhere, and most lists of models say nothing. What a model was trained for is no answer:
servers cut far shorter windows out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

import httpx2

from loops.llm.config import ModelConfig
from loops.llm.endpoints.connections import guard

WITHIN_S = 3.0
SMALLEST, LARGEST = 256, 100_000_000
OLLAMA_CUTS_AT = 4096
"""Tokens that Ollama takes of a prompt where nobody set more; the rest it cuts off without a word."""
_LISTED = ("max_model_len", "context_length", "context_window", "max_context_length", "max_context_window")
_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)", re.MULTILINE)

Get = Callable[..., Any]
"""(path from the root of the server, JSON to post) -> the JSON of the answer, None without one."""


def ask_window(config: ModelConfig, within_s: float = WITHIN_S) -> int | None:
    """Return the tokens that the endpoint says the model takes; 0 where it answers and does not say, None where it was
    not asked, did not answer or may say it later. Never raises."""
    found: int | None = _asked(
        config, lambda get: next(filter(None, (ask(get, config.model_id) for ask in _WAYS)), 0), within_s
    )
    return found


def ask_models(config: ModelConfig, within_s: float = WITHIN_S) -> list[str]:
    """Return the ids of the models that the endpoint lists, in its order; none where it does not say. Never raises."""
    entries = _asked(config, _entries, within_s) or []
    return [entry["id"] for entry in entries if isinstance(entry.get("id"), str)]


def _asked(config: ModelConfig, question: Callable[[Get], Any], within_s: float) -> Any:
    if config.provider != "openai" or not config.base_url or config.refused:
        return None
    headers = {"Authorization": f"Bearer {config.api_key}"} if config.api_key else {}
    statuses = set[int]()
    base = config.base_url.rstrip("/")
    root = re.sub(r"/v\d+(?:beta)?$", "", base)
    try:
        with httpx2.Client(headers=headers, timeout=within_s) as client:
            guard(client, inward=config.inward)

            def get(path: str, post: Mapping[str, Any] | None = None) -> Any:
                url = f"{base}{path[3:]}" if path.startswith("/v1/") else f"{root}{path}"
                answer = client.post(url, json=post) if post is not None else client.get(url)
                statuses.add(answer.status_code)
                return _json(answer)

            return question(get) or (None if any(map(_says_later, statuses)) else 0)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError):
        return None


def _says_later(status: int) -> bool:
    """It loads its model, has too much to do, or wants another key: what it says then is not its last word."""
    return status in (401, 403, 408, 425, 429) or status >= 500


def _json(answer: httpx2.Response) -> Any:
    if answer.status_code != 200:
        return None
    try:
        return answer.json()
    except (ValueError, RecursionError):
        return None


def _props(get: Get, model_id: str) -> int:
    """llama.cpp: of one slot."""
    found = _of(get("/props"), "default_generation_settings")
    return _sound(_of(found, "n_ctx"))


def _listed(get: Get, model_id: str) -> int:
    """vLLM, OpenRouter, Groq, Mistral and others say it in their lists of models."""
    entries = _entries(get)
    named = [entry for entry in entries if entry.get("id") == model_id] or (entries if len(entries) == 1 else [])
    for entry in named:
        for key in _LISTED:
            if size := _sound(entry.get(key)):
                return size
        if size := _sound(_of(entry.get("meta"), "n_ctx")):
            return size
    return 0


def _entries(get: Get) -> list[Mapping[str, Any]]:
    listed = _of(get("/v1/models"), "data")
    return [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []


def _ollama(get: Get, model_id: str) -> int:
    """What the model is loaded with, else what its file says, else where Ollama cuts by itself."""
    shown = get("/api/show", {"model": model_id})
    if not isinstance(shown, Mapping) or not ("model_info" in shown or "modelfile" in shown or "parameters" in shown):
        return 0
    trained = next((_sound(v) for k, v in (shown.get("model_info") or {}).items() if k.endswith(".context_length")), 0)
    if stated := _NUM_CTX.search(str(shown.get("parameters") or "")):
        return _sound(int(stated[1]))
    loaded = _of(get("/api/ps"), "models")
    for entry in loaded if isinstance(loaded, list) else ():
        if model_id in (_of(entry, "name"), _of(entry, "model")) and (size := _sound(_of(entry, "context_length"))):
            return size
    return min(trained or OLLAMA_CUTS_AT, OLLAMA_CUTS_AT)


def _lm_studio(get: Get, model_id: str) -> int:
    found = get(f"/api/v0/models/{quote(model_id, safe='')}")
    return _sound(_of(found, "loaded_context_length")) or _sound(_of(found, "max_context_length"))


def _tgi(get: Get, model_id: str) -> int:
    found = get("/info")
    return _sound(_of(found, "max_total_tokens")) or _sound(_of(found, "max_input_tokens"))


_WAYS = (_props, _listed, _ollama, _lm_studio, _tgi)


def _of(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None


def _sound(value: Any) -> int:
    ok = isinstance(value, int) and not isinstance(value, bool) and SMALLEST <= value <= LARGEST
    return value if ok else 0

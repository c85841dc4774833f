"""What a provider says of sizes when it refuses a request as too long: the window, and how long the request was.

Wordings of llama.cpp, Ollama, vLLM, OpenAI, Azure, Anthropic, Mistral, LM Studio, TGI and routers before them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

SMALLEST, LARGEST = 256, 100_000_000
"""Tokens: a window outside of these was read wrongly."""
_TOO_LONG = re.compile(
    r"prompt is too long|input is too long|context_length_exceeded|exceed_context_size"
    r"|max(?:imum)? (?:model )?context (?:length|window|size)|max_model_len|model_context_window_exceeded"
    r"|exceed(?:s|ed|ing)?\b[^.\n]{0,60}\bcontext\b|context (?:length|window|size)[^.\n]{0,40}\bexceed"
    r"|(?:longer|larger|greater) than (?:the )?(?:maximum )?context|greater than the context length"
    r"|exceed_?context|prompt[^.\n]{0,60}exceeds? (?:limit|the (?:max|limit))"
    r"|maximum model length|context length of only|context the overflows|input token count[^.\n]{0,40}exceeds"
    r"|too large for model with \d+ maximum|must be <= \d+\. Given|exceeds? the max_(?:total|input)_tokens",
    re.IGNORECASE,
)
_N = r"([\d][\d,_ ]*\d|\d+)"
_WINDOW = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"(?:context (?:length|window|size)|max_model_len|max_total_tokens)(?: limit)?(?: is| of|:|=| ?\()? ?{_N}",
        rf"context length (?:is|of) only {_N}",
        rf"maximum model length of {_N}",
        rf"exceed context limit: [\d ,_+]+> {_N}",
        rf"too large for model with {_N} maximum context",
        rf"> ?{_N} maximum",
        rf"must be <= ?{_N}\. Given",
        rf"exceed[^.\n]{{0,40}}?(?:limit|maximum|max)[^.\d\n]{{0,50}}{_N}",
    )
)
_COUNTED = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"exceed context limit: {_N}",
        rf"prompt \(length {_N}\)",
        rf"keep the first {_N} tokens",
        rf"requested tokens \({_N}\)",
        rf"input token count \({_N}\)",
        rf"requested about {_N} tokens",
        rf"{_N} (?:tokens? )?in the (?:messages|prompt|input)",
        rf"(?:request|prompt|input) ?\({_N} tokens?\)",
        rf"(?:request|prompt|input|messages?)\b[^.\d\n]{{0,60}}\b(?:has|have|contains?(?: at least)?|resulted in|of|is)"
        rf" {_N} (?:input |prompt )?tokens?",
        rf"too long: {_N} tokens?",
        rf"{_N} (?:input|prompt) tokens?",
        rf"prompt \(?{_N}\)? tokens",
        rf"Given: {_N} `?inputs",
        rf"prompt contains {_N} tokens",
        rf"(?:requested|keep from the initial prompt:?) {_N} tokens?",
        rf"initial prompt is {_N}",
    )
)


def is_too_long(text: str) -> bool:
    """Does an error speak of a request that is longer than the model takes?"""
    return bool(_TOO_LONG.search(text))


def sizes(body: object, message: str) -> tuple[int, int]:
    """(tokens of the window, tokens of the request) as an error names them in fields or in words; 0 unnamed."""
    fields = _fields(body)
    window = _sound(fields.get("n_ctx")) or _first(_WINDOW, message)
    counted = _sound(fields.get("n_prompt_tokens")) or _first(_COUNTED, message)
    return window, counted


def _fields(body: object) -> Mapping[str, Any]:
    if isinstance(body, bytes | str):
        try:
            body = json.loads(body)
        except (ValueError, RecursionError):
            return {}
    if not isinstance(body, Mapping):
        return {}
    inner = body.get("error")
    return inner if isinstance(inner, Mapping) else body


def _first(patterns: tuple[re.Pattern[str], ...], text: str) -> int:
    for pattern in patterns:
        if (found := pattern.search(text)) and (size := _sound(re.sub(r"[,_ ]", "", found[1]))):
            return size
    return 0


def _sound(value: object) -> int:
    size = int(value) if isinstance(value, int | str) and str(value).isdecimal() else 0
    return size if SMALLEST <= size <= LARGEST else 0

"""How many tokens a model takes, question and answer together, where an admin has not said it (SPEC U1).

Cautious: pruning a little early costs little, a request that is refused costs a round trip. What providers sell as an
option or in preview is not counted.
"""

from __future__ import annotations

UNKNOWN = 32_768
"""Of a model that no rule knows: what a small server of one's own is usually started with."""
KNOWN = (
    # beginning of the provider's name of the model, without the maker's; the first that fits decides
    ("claude-2", 100_000),
    ("claude-instant", 100_000),
    ("claude-opus-4-6", 1_000_000),
    ("claude-opus-4-7", 1_000_000),
    ("claude-opus-4-8", 1_000_000),
    ("claude-sonnet-4-6", 1_000_000),
    ("claude-fable-5", 1_000_000),
    ("claude-mythos-5", 1_000_000),
    ("claude-opus-5", 1_000_000),
    ("claude-sonnet-5", 1_000_000),
    ("claude-haiku-5", 1_000_000),
    ("claude", 200_000),
    ("gpt-3.5", 16_385),
    ("gpt-4.1", 1_000_000),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4", 8_192),
    ("gpt-5", 272_000),
    ("o1", 128_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("gemini", 1_000_000),
    ("mistral-large", 128_000),
    ("deepseek", 64_000),
)
NO_MODEL = 200_000
"""Of scripts and recordings: as large as that of the models they stand for."""


def default_window(provider: str, model_id: str) -> int:
    """Tokens of the window of a model nobody has configured it for."""
    if provider in ("scripted", "replay"):
        return NO_MODEL
    return _listed(model_id) or UNKNOWN


def is_known(provider: str, model_id: str) -> bool:
    """Does a rule know the model?"""
    return provider in ("scripted", "replay") or _listed(model_id) > 0


def _listed(model_id: str) -> int:
    name = model_id.lower().rpartition("/")[2]
    return next((size for beginning, size in KNOWN if name.startswith(beginning)), 0)

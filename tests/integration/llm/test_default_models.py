"""The models that a new installation begins with: alive, priced, and of the size that they have."""

from __future__ import annotations

from typing import get_args

import pytest
from anthropic.resources.messages.messages import DEPRECATED_MODELS
from anthropic.types import Model

from loops.engine.measures import limits as guards
from loops.engine.values import Usage
from loops.llm.prices import cost_microusd
from loops.models import ModelConfig
from loops.services import models
from tests.integration.llm.test_context_window_discovery import serving

REPLACED = "claude-sonnet-4-5"
KEYS = {"ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "k"}
MILLIONS = Usage(10**6, 10**6, 10**6, 10**6)
"""A million tokens each of input, output, cache reads and cache writes."""


@pytest.mark.spec("S3")
def test_no_default_model_is_about_to_end(db) -> None:
    chosen = {row.model_id for row in models.ensure_default_models(KEYS) if row.provider == "anthropic"}
    known = {name for literal in get_args(Model) for name in get_args(literal)}
    assert chosen
    assert not chosen & DEPRECATED_MODELS.keys()
    assert chosen <= known
    assert REPLACED in DEPRECATED_MODELS, "the table of the SDK is read at all"


@pytest.mark.spec("S3", "U1", "U2", "C2")
def test_the_default_claude_has_its_own_price_size_and_thinking(db) -> None:
    models.ensure_default_models(KEYS)
    config = models.model_configs(KEYS)["claude"]
    assert config.thinking == "adaptive", "nobody sees what it thinks otherwise"
    assert models.windows()["claude"] == 1_000_000
    assert config.max_tokens == guards.LARGEST_ANSWER, "what it thinks is a part of its answer"
    # 2 of input, 10 of output, 0.10 of cache reads and 2.50 of cache writes
    assert cost_microusd(MILLIONS, config.model_id, config) == 14_600_000


@pytest.mark.spec("S3", "U1")
def test_the_model_before_stays_usable(db) -> None:
    models.ensure_default_models({**KEYS, "AGENTOPS_ANTHROPIC_MODEL": REPLACED})
    config = models.model_configs(KEYS)["claude"]
    assert (config.model_id, config.thinking) == (REPLACED, "off"), "it does not know adaptive thinking"
    assert models.windows()["claude"] == 200_000
    assert cost_microusd(Usage(1000, 1000, 1000, 1000), REPLACED, config) == 22_050
    models.ensure_default_models(KEYS)
    assert ModelConfig.objects.get(name="claude").model_id == REPLACED, "a row that exists is an admin's"


@pytest.mark.spec("S3", "X1")
@pytest.mark.parametrize(
    ("listed", "named", "chosen"),
    [
        (["nomic-embed-text", "qwen3:8b", "llama3.2"], "", "qwen3:8b"),
        (["qwen3:8b"], "llama3.2", "llama3.2"),
        (["qwen3:8b", models.DEFAULT_OPENAI], "", models.DEFAULT_OPENAI),
        ([], "", models.DEFAULT_OPENAI),
    ],
)
def test_a_server_of_ones_own_is_asked_which_model_it_has(db, listed: list[str], named: str, chosen: str) -> None:
    with serving({"/v1/models": {"data": [{"id": name} for name in listed]}}) as url:
        models.ensure_default_models({"OPENAI_BASE_URL": url, "AGENTOPS_OPENAI_MODEL": named})
    assert ModelConfig.objects.get(name=models.OPENAI).model_id == chosen
    models.ensure_default_models({"OPENAI_BASE_URL": url})
    assert ModelConfig.objects.get(name=models.OPENAI).model_id == chosen, "a row that exists is not asked about again"

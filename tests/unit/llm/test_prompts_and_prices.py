"""Prompts known by their content, and what a call costs."""

import hashlib
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

import loops.llm.prompts as prompts
from loops.engine.values import Usage
from loops.llm.config import ModelConfig, Provider
from loops.llm.prices import cost_microusd

USAGE = Usage(input_tokens=500, output_tokens=10, cache_read_tokens=400, cache_write_tokens=100, cost_microusd=None)


@pytest.mark.spec("U3")
@pytest.mark.parametrize("name", prompts.PROMPTS.templates)
def test_a_prompt_is_known_by_the_hash_of_its_file(name: str) -> None:
    prompt = prompts.load(name)
    file = Path(prompts.__file__).parent / f"{name}.md"
    assert prompt.sha256 == hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["nothing", "../secrets", "React", ""])
def test_an_unknown_prompt_is_told(name: str) -> None:
    with pytest.raises(KeyError, match="react"):
        prompts.load(name)


@pytest.mark.spec("S3")
def test_listed_prices_count_the_cache() -> None:
    config = ModelConfig("m", "anthropic", "claude-sonnet-4-5")
    # 500 at 3, 400 at 0.30, 100 at 3.75 and 10 at 15 dollars a million
    assert cost_microusd(USAGE, "claude-sonnet-4-5-20250929", config) == 1500 + 120 + 375 + 150


@pytest.mark.spec("S3")
def test_configured_prices_win() -> None:
    config = ModelConfig("m", "openai", "x", input_price=Decimal(2), output_price=Decimal("0.25"))
    assert cost_microusd(USAGE, "gpt-5", config) == 2003


@pytest.mark.spec("S3", "U2")
def test_configured_prices_of_the_cache_are_its_own() -> None:
    config = ModelConfig("m", "openai", "x", input_price=Decimal(2), output_price=Decimal("0.25"))
    read = replace(config, cache_read_price=Decimal("0.2"))
    write = replace(config, cache_write_price=Decimal("2.5"))
    # 500 at 2 and 10 at 0.25; 400 read from the cache; 100 written to it
    assert cost_microusd(USAGE, "x", read) == 1000 + 3 + 80 + 200
    assert cost_microusd(USAGE, "x", write) == 1000 + 3 + 800 + 250
    free = replace(config, cache_read_price=Decimal(0), cache_write_price=Decimal(0))
    assert cost_microusd(USAGE, "x", free) == 1000 + 3, "0 is a price, not a gap"


@pytest.mark.spec("S3")
@pytest.mark.parametrize(
    ("provider", "model", "url"),
    [("anthropic", "claude-next", ""), ("openai", "qwen", "http://127.0.0.1:1/v1"), ("openai", "no-such-model", "")],
)
def test_an_unknown_price_is_none_and_not_zero(provider: Provider, model: str, url: str) -> None:
    assert cost_microusd(USAGE, model, ModelConfig("m", provider, model, base_url=url)) is None

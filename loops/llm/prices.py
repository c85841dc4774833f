"""What a model call costs, in millionths of a US dollar, from the configured prices or the public price list.

The list comes with the ``genai-prices`` package and is never updated over the network. A model that is in neither has
no price: None, which is not zero.
"""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal

from loops.engine.values import Usage
from loops.llm.config import ModelConfig


def cost_microusd(usage: Usage, model_id: str, config: ModelConfig) -> int | None:
    """The cost of one call, None when no price is known."""
    if config.input_price is not None and config.output_price is not None:
        return _whole(_configured(usage, config, config.input_price, config.output_price))
    if config.provider in ("scripted", "replay"):
        return usage.cost_microusd
    found = _listed(usage, model_id, config)
    if found is None and model_id != config.model_id:
        found = _listed(usage, config.model_id, config)
    return None if found is None else _whole(found * 1_000_000)


def is_known(config: ModelConfig) -> bool:
    """Would a call cost something that can be told? What scripts and recordings say of their cost is theirs."""
    if config.provider in ("scripted", "replay"):
        return True
    return cost_microusd(Usage(input_tokens=1, output_tokens=1), config.model_id, config) is not None


def _configured(usage: Usage, config: ModelConfig, input_price: Decimal, output_price: Decimal) -> Decimal:
    """Dollars for a million tokens are millionths of a dollar for one."""
    read = input_price if config.cache_read_price is None else config.cache_read_price
    write = input_price if config.cache_write_price is None else config.cache_write_price
    cached = usage.cache_read_tokens * read + usage.cache_write_tokens * write
    return usage.input_tokens * input_price + usage.output_tokens * output_price + cached


def _listed(usage: Usage, model_id: str, config: ModelConfig) -> Decimal | None:
    import genai_prices  # slow to import, and needed by workers only

    tokens = genai_prices.Usage(
        input_tokens=usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        if config.provider == "openai" and config.base_url:
            found = genai_prices.calc_price(tokens, model_id, provider_api_url=config.base_url)
        else:
            found = genai_prices.calc_price(tokens, model_id, provider_id=config.provider)
    except (LookupError, ValueError):
        return None
    return found.total_price


def _whole(amount: Decimal) -> int:
    return int(amount.quantize(Decimal(1), rounding=ROUND_HALF_UP))

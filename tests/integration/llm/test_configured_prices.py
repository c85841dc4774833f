"""What admins say that a model costs, on usage that a provider really reported."""

from __future__ import annotations

import asyncio
import json
from decimal import Decimal
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError

from loops.llm.registry import ModelService
from loops.models import ModelConfig
from loops.models.agents import PRICES
from loops.services.models import model_configs
from tests.wire.client import config, request
from tests.wire.say import Raw
from tests.wire.server import WireServer

RECORDED = Path(__file__).parents[2] / "data" / "wire" / "anthropic-recorded.jsonl"


def said_twice() -> list[dict]:
    """The same long question asked twice: the first answer wrote 1,165 tokens to the cache, the second read them."""
    lines = map(json.loads, RECORDED.read_text().splitlines())
    return [exchange for exchange in lines if "prompt_caching" in exchange["cassette"]]


def costs(**prices: str) -> list[int | None]:
    """Of each answer, in millionths of a dollar."""
    given = {name: Decimal(price) for name, price in prices.items()}
    found = []
    for exchange in said_twice():
        raw = Raw(exchange["status"], exchange["headers"], exchange["body"], stream=False)
        with WireServer(lambda seen, raw=raw: raw) as server:
            service = ModelService({"m": config(server, **given)})

            async def once(service: ModelService = service) -> int | None:
                reply = await service.call(request(), lambda event: None)
                await service.close()
                return reply.usage.cost_microusd

            found.append(asyncio.run(once()))
    return found


@pytest.mark.spec("S3", "U2", "N4")
def test_reads_and_writes_of_the_cache_are_paid_at_their_own_prices() -> None:
    found = costs(input_price="3", output_price="15", cache_read_price="0.30", cache_write_price="3.75")
    # 4 of input, 1,165 written and 207 said: 7485.75; then 4 of input, 1,165 read and 224 said: 3721.5
    assert found == [7486, 3722]


@pytest.mark.spec("S3")
def test_without_them_the_cache_costs_as_much_as_input() -> None:
    assert costs(input_price="3", output_price="15") == [1169 * 3 + 207 * 15, 1169 * 3 + 224 * 15]


def row(**prices: str) -> ModelConfig:
    given = {name: Decimal(price) for name, price in prices.items()}
    return ModelConfig(name="claude", provider="anthropic", model_id="claude-sonnet-4-5", **given)


@pytest.mark.spec("S3")
def test_what_an_admin_saves_reaches_the_accounting(db) -> None:
    saved = row(**dict(zip(PRICES, ("3", "15", "0.3", "3.75"), strict=True)))
    saved.full_clean()
    saved.save()
    found = model_configs()["claude"]
    prices = (found.input_price, found.output_price, found.cache_read_price, found.cache_write_price)
    assert prices == tuple(map(Decimal, ("3", "15", "0.3", "3.75")))


@pytest.mark.spec("S3", "S1")
@pytest.mark.parametrize(
    ("prices", "field"),
    [
        ({"cache_read_usd_per_mtok": "0.3"}, "input_usd_per_mtok"),
        ({"input_usd_per_mtok": "3"}, "output_usd_per_mtok"),
        *(({**dict.fromkeys(PRICES, "1"), name: "-0.01"}, name) for name in PRICES),
    ],
)
def test_prices_that_would_not_hold_are_refused(db, prices: dict[str, str], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        row(**prices).full_clean()
    assert field in refused.value.message_dict

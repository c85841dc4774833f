"""Money reads alike in the title of a gate, on pages and at the terminal (SPEC D1, T1)."""

from __future__ import annotations

from decimal import Decimal

import pytest

from loops.engine.text import money
from loops.web import formatting

pytestmark = pytest.mark.spec("D1")


@pytest.mark.parametrize(
    ("micro", "text"),
    [
        (0, "$0.00"),
        (200_000, "$0.20"),
        (123_400, "$0.1234"),
        (40, "$0.0000"),
        (5_010_000, "$5.01"),
        (1_234_567_890, "$1,234.57"),
    ],
)
def test_an_amount_is_the_same_everywhere(micro: int, text: str) -> None:
    assert money.usd(micro) == formatting.usd(Decimal(micro) / 1_000_000) == formatting.usd(micro / 1e6) == text


def test_where_a_price_was_not_known_it_is_at_least_that() -> None:
    assert formatting.usd(Decimal("0.2"), unknown=True) == "≥ $0.20"
    assert formatting.usd(None) == "$0.00"

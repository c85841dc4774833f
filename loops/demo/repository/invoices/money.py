"""Amounts are whole cents; only this module knows how to round and write them."""

from decimal import ROUND_HALF_UP, Decimal


def cents(amount: str | Decimal) -> int:
    """Cents of an amount in words of the shop: 12.34 is 1234."""
    return round_cents(Decimal(amount) * 100)


def round_cents(value: Decimal) -> int:
    """To the whole cent, half up, as the shop's rules say."""
    return int(value.quantize(Decimal(1), rounding=ROUND_HALF_UP))


def percent_of(amount: int, percent: Decimal) -> int:
    return round_cents(Decimal(amount) * percent / 100)


def written(amount: int) -> str:
    sign = "-" if amount < 0 else ""
    return f"{sign}{abs(amount) // 100}.{abs(amount) % 100:02d}"

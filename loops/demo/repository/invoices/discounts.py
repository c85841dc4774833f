"""Quantity discounts per line, and vouchers on the whole order."""

from dataclasses import dataclass
from decimal import Decimal

from invoices.money import percent_of

# From how many pieces on, how many percent.
QUANTITY_STEPS = (
    (10, Decimal(5)),
    (50, Decimal(10)),
    (100, Decimal(15)),
)


@dataclass(frozen=True)
class Voucher:
    code: str
    amount: int
    minimum: int = 0


def quantity_percent(quantity: int) -> Decimal:
    """The discount for so many pieces of one article."""
    for pieces, percent in QUANTITY_STEPS:
        if quantity > pieces:
            return percent
    return Decimal(0)


def quantity_discount(quantity: int, amount: int) -> int:
    return percent_of(amount, quantity_percent(quantity))


def voucher_discount(voucher: Voucher | None, subtotal: int) -> int:
    """Never more than the order is worth, and nothing below the voucher's minimum."""
    if voucher is None or subtotal < voucher.minimum:
        return 0
    return min(voucher.amount, subtotal)

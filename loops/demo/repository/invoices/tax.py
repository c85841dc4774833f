"""Tax by category. Prices are net; a voucher lowers every rate's share in proportion."""

from collections.abc import Mapping
from decimal import Decimal

from invoices.money import percent_of, round_cents

RATES: Mapping[str, Decimal] = {
    "standard": Decimal(20),
    "reduced": Decimal(10),
    "books": Decimal(5),
    "exempt": Decimal(0),
}


class UnknownCategory(ValueError):
    pass


def rate_of(category: str) -> Decimal:
    try:
        return RATES[category]
    except KeyError:
        raise UnknownCategory(f"no tax rate for {category!r}") from None


def shares(net_by_category: Mapping[str, int], reduction: int) -> dict[str, int]:
    """What is left of each category's net amount when the order as a whole is reduced; cents add up exactly."""
    total = sum(net_by_category.values())
    if total == 0:
        return dict(net_by_category)
    left: dict[str, int] = {}
    still_to_take = reduction
    for category in sorted(net_by_category, key=lambda name: net_by_category[name]):
        net = net_by_category[category]
        part = min(still_to_take, round_cents(Decimal(reduction) * net / total))
        left[category] = net - part
        still_to_take -= part
    if still_to_take:
        largest = max(left, key=lambda name: left[name])
        left[largest] -= still_to_take
    return left


def tax_by_category(net_by_category: Mapping[str, int]) -> dict[str, int]:
    return {category: percent_of(net, rate_of(category)) for category, net in net_by_category.items()}

"""An order becomes an invoice: lines, discounts, voucher, shipping, tax."""

from collections import defaultdict
from dataclasses import dataclass, field

from invoices.discounts import Voucher, quantity_discount, voucher_discount
from invoices.tax import rate_of, shares, tax_by_category

SHIPPING = 495
FREE_SHIPPING_ABOVE = 50_000


@dataclass(frozen=True)
class Line:
    article: str
    quantity: int
    price: int
    category: str = "standard"

    def __post_init__(self) -> None:
        if self.quantity < 1:
            raise ValueError(f"{self.article}: the quantity must be at least 1")
        rate_of(self.category)

    @property
    def amount(self) -> int:
        return self.quantity * self.price

    @property
    def discount(self) -> int:
        return quantity_discount(self.quantity, self.amount)

    @property
    def net(self) -> int:
        return self.amount - self.discount


@dataclass(frozen=True)
class Order:
    number: str
    lines: tuple[Line, ...]
    voucher: Voucher | None = None


@dataclass(frozen=True)
class Invoice:
    order: Order
    subtotal: int
    voucher: int
    shipping: int
    tax: dict[str, int] = field(default_factory=dict)

    @property
    def net(self) -> int:
        return self.subtotal - self.voucher + self.shipping

    @property
    def total(self) -> int:
        return self.net + sum(self.tax.values())


def invoice_for(order: Order) -> Invoice:
    net: defaultdict[str, int] = defaultdict(int)
    for line in order.lines:
        net[line.category] += line.net
    subtotal = sum(net.values())
    voucher = voucher_discount(order.voucher, subtotal)
    left = shares(net, voucher)
    shipping = 0 if not order.lines or subtotal - voucher > FREE_SHIPPING_ABOVE else SHIPPING
    if shipping:
        left["standard"] = left.get("standard", 0) + shipping
    return Invoice(order, subtotal, voucher, shipping, tax_by_category(left))

from decimal import Decimal

import pytest

from invoices.discounts import Voucher, quantity_discount, quantity_percent, voucher_discount


@pytest.mark.parametrize(
    ("quantity", "percent"),
    [(1, 0), (9, 0), (10, 5), (11, 5), (49, 5), (50, 10), (99, 10), (100, 15), (250, 15)],
)
def test_each_step_begins_at_its_number_of_pieces(quantity: int, percent: int) -> None:
    assert quantity_percent(quantity) == Decimal(percent)


def test_the_discount_is_rounded_half_up() -> None:
    assert quantity_discount(10, 1010) == 51


def test_a_voucher_takes_its_amount() -> None:
    assert voucher_discount(Voucher("SPRING", 1500), 10_000) == 1500


def test_a_voucher_never_takes_more_than_the_order_is_worth() -> None:
    assert voucher_discount(Voucher("SPRING", 1500), 900) == 900


def test_a_voucher_below_its_minimum_is_worth_nothing() -> None:
    assert voucher_discount(Voucher("SPRING", 1500, minimum=5000), 4999) == 0
    assert voucher_discount(Voucher("SPRING", 1500, minimum=5000), 5000) == 1500

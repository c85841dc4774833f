from decimal import Decimal
from unittest import TestCase

from invoices.discounts import Voucher, quantity_discount, quantity_percent, voucher_discount


class QuantityDiscount(TestCase):
    def gets(self, quantity: int, percent: int) -> None:
        self.assertEqual(quantity_percent(quantity), Decimal(percent))

    def test_1_piece_gets_none(self) -> None:
        self.gets(1, 0)

    def test_9_pieces_get_none(self) -> None:
        self.gets(9, 0)

    def test_10_pieces_get_5_percent(self) -> None:
        self.gets(10, 5)

    def test_11_pieces_get_5_percent(self) -> None:
        self.gets(11, 5)

    def test_49_pieces_get_5_percent(self) -> None:
        self.gets(49, 5)

    def test_50_pieces_get_10_percent(self) -> None:
        self.gets(50, 10)

    def test_99_pieces_get_10_percent(self) -> None:
        self.gets(99, 10)

    def test_100_pieces_get_15_percent(self) -> None:
        self.gets(100, 15)

    def test_250_pieces_get_15_percent(self) -> None:
        self.gets(250, 15)

    def test_it_is_rounded_half_up(self) -> None:
        self.assertEqual(quantity_discount(10, 1010), 51)


class VoucherDiscount(TestCase):
    def test_it_takes_its_amount(self) -> None:
        self.assertEqual(voucher_discount(Voucher("SPRING", 1500), 10_000), 1500)

    def test_it_never_takes_more_than_the_order_is_worth(self) -> None:
        self.assertEqual(voucher_discount(Voucher("SPRING", 1500), 900), 900)

    def test_below_its_minimum_it_is_worth_nothing(self) -> None:
        self.assertEqual(voucher_discount(Voucher("SPRING", 1500, minimum=5000), 4999), 0)
        self.assertEqual(voucher_discount(Voucher("SPRING", 1500, minimum=5000), 5000), 1500)

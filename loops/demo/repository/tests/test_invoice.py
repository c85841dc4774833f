from unittest import TestCase

from invoices import Line, Order, invoice_for
from invoices.discounts import Voucher
from invoices.printing import printed
from invoices.tax import UnknownCategory, shares


class InvoiceOfAnOrder(TestCase):
    def test_a_small_order_pays_shipping_and_tax(self) -> None:
        invoice = invoice_for(Order("A-1", (Line("cup", 2, 1250),)))
        self.assertEqual((invoice.subtotal, invoice.shipping, invoice.tax), (2500, 495, {"standard": 599}))
        self.assertEqual(invoice.total, 3594)

    def test_a_hundred_pieces_get_fifteen_percent(self) -> None:
        invoice = invoice_for(Order("A-2", (Line("cup", 100, 1250),)))
        self.assertEqual(invoice.subtotal, 106_250)

    def test_fifty_pieces_get_ten_percent_and_free_shipping(self) -> None:
        invoice = invoice_for(Order("A-3", (Line("cup", 50, 1250),)))
        self.assertEqual((invoice.subtotal, invoice.shipping), (56_250, 0))

    def test_a_voucher_lowers_the_tax_in_proportion(self) -> None:
        lines = (Line("cup", 1, 6000), Line("novel", 1, 4000, "books"))
        invoice = invoice_for(Order("A-4", lines, Voucher("SPRING", 1000)))
        self.assertEqual(invoice.voucher, 1000)
        self.assertEqual(invoice.tax, {"standard": 1179, "books": 180})

    def test_shares_add_up_to_the_cent(self) -> None:
        left = shares({"standard": 3333, "reduced": 3333, "books": 3334}, 1000)
        self.assertEqual(sum(left.values()), 9000)

    def test_an_unknown_category_is_refused(self) -> None:
        with self.assertRaises(UnknownCategory):
            Line("cup", 1, 100, "luxury")

    def test_the_printed_invoice_shows_the_quantity_discount(self) -> None:
        text = printed(invoice_for(Order("A-5", (Line("cup", 10, 1250),))))
        self.assertIn("quantity discount", text)
        self.assertIn("-6.25", text)

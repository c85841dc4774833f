import pytest

from invoices import Line, Order, invoice_for
from invoices.discounts import Voucher
from invoices.printing import printed
from invoices.tax import UnknownCategory, shares


def test_a_small_order_pays_shipping_and_tax() -> None:
    invoice = invoice_for(Order("A-1", (Line("cup", 2, 1250),)))
    assert (invoice.subtotal, invoice.shipping, invoice.tax) == (2500, 495, {"standard": 599})
    assert invoice.total == 3594


def test_a_hundred_pieces_get_fifteen_percent() -> None:
    invoice = invoice_for(Order("A-2", (Line("cup", 100, 1250),)))
    assert invoice.subtotal == 106_250


def test_fifty_pieces_get_ten_percent_and_free_shipping() -> None:
    invoice = invoice_for(Order("A-3", (Line("cup", 50, 1250),)))
    assert (invoice.subtotal, invoice.shipping) == (56_250, 0)


def test_a_voucher_lowers_the_tax_in_proportion() -> None:
    lines = (Line("cup", 1, 6000), Line("novel", 1, 4000, "books"))
    invoice = invoice_for(Order("A-4", lines, Voucher("SPRING", 1000)))
    assert invoice.voucher == 1000
    assert invoice.tax == {"standard": 1179, "books": 180}


def test_shares_add_up_to_the_cent() -> None:
    left = shares({"standard": 3333, "reduced": 3333, "books": 3334}, 1000)
    assert sum(left.values()) == 9000


def test_an_unknown_category_is_refused() -> None:
    with pytest.raises(UnknownCategory):
        Line("cup", 1, 100, "luxury")


def test_the_printed_invoice_shows_the_quantity_discount() -> None:
    text = printed(invoice_for(Order("A-5", (Line("cup", 10, 1250),))))
    assert "quantity discount" in text
    assert "-6.25" in text

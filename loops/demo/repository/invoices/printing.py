"""The invoice as plain text, for e-mail and the console."""

from invoices.invoice import Invoice
from invoices.money import written

WIDTH = 56


def printed(invoice: Invoice) -> str:
    rows = [f"Invoice {invoice.order.number}", "=" * WIDTH]
    for line in invoice.order.lines:
        rows.append(_row(f"{line.quantity} x {line.article} at {written(line.price)}", line.amount))
        if line.discount:
            rows.append(_row("  quantity discount", -line.discount))
    rows.append("-" * WIDTH)
    rows.append(_row("Subtotal", invoice.subtotal))
    if invoice.voucher:
        code = invoice.order.voucher.code if invoice.order.voucher else ""
        rows.append(_row(f"Voucher {code}", -invoice.voucher))
    rows.append(_row("Shipping", invoice.shipping))
    rows += [_row(f"Tax, {category}", tax) for category, tax in sorted(invoice.tax.items()) if tax]
    rows += ["=" * WIDTH, _row("To pay", invoice.total)]
    return "\n".join(rows) + "\n"


def _row(label: str, amount: int) -> str:
    return f"{label:<{WIDTH - 12}}{written(amount):>12}"

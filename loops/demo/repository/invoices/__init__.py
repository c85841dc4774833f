"""What a customer pays, and why."""

from invoices.invoice import Invoice, Line, Order, invoice_for

__all__ = ["Invoice", "Line", "Order", "invoice_for"]

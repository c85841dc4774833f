"""One effect and the end."""

from tests.faults.plans import plan

SCRIPT = plan("short_errand", [("charge", {"label": "fee"})])

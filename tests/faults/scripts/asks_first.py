"""One payment that a person has to approve."""

from tests.faults.plans import plan

SCRIPT = plan("asks_first", [("pay", {"label": "invoice"})])

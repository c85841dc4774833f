"""Effects that take a while each: something to be caught by the end of a worker."""

from tests.faults.plans import plan

SCRIPT = plan("slow_bank", *([("charge", {"label": f"part {number}", "pause": "1.2"})] for number in range(12)))

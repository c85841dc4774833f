"""Many small effects one after the other: something to be interrupted."""

from tests.faults.plans import plan

SCRIPT = plan(
    "long_haul",
    *([("notify" if number % 2 else "charge", {"label": f"stage {number}"})] for number in range(8)),
    words="I take the next stage of a long way.",
)

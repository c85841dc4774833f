"""Eight effects that can be taken back, one of which can't after all, and then a question nobody answers."""

from tests.faults.plans import plan

SCRIPT = plan(
    "goes_wrong",
    [("charge", {"label": f"part {number}"}) for number in range(1, 9)],
    last=("ask_question", {"question": "What now?"}),
)

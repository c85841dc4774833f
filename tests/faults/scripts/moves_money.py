"""Every kind of effect there is: repeatable with and without keys, once only, once only after an approval."""

from tests.faults.plans import plan

SCRIPT = plan(
    "moves_money",
    [("notify", {"label": "begin"}), ("charge", {"label": "fee", "long": "yes"})],
    [("pay", {"label": "invoice"})],
    [("notify_once", {"label": "end", "long": "yes"}), ("write_file", {"path": "note.txt", "content": "paid\n"})],
)

"""Whether journals, bodies and records match their hashes, and all of history its seals and anchors, for `doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentops.evidence import verification
from agentops.ops.finding import ERROR, OK, Finding
from loops.models import Run
from loops.storage import chain

SAMPLE = 20


def verified(all_of_them: bool) -> Finding:
    """The latest by their own hashes alone: seals and anchors are read whole, whatever is asked of them."""
    reports = [chain.verify(run) for run in ([None] if all_of_them else _latest())]
    problems = [problem for report in reports for problem in report.problems]
    compared = "own hashes (the latest; --chains: all, and with the anchor)"
    if all_of_them:
        evidence = verification.verify()
        problems += evidence.problems
        compared = "hashes, seals and anchors" if evidence.anchored else "hashes and seals; there is no anchor"
    if problems:
        said = f"{len(problems)} problems, the first: {problems[0]}"
        return ERROR, said, "run `manage.py verify_chain`; see operations"
    runs, facts = (sum(getattr(report, what) for report in reports) for what in ("runs", "facts"))
    return OK, f"{runs} runs with {facts} facts match their {compared}"


def _latest() -> Iterator[Any]:
    yield from Run.objects.order_by("-last_activity_at").values_list("pk", flat=True)[:SAMPLE]

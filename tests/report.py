"""Two small reports: how many tests of each kind ran, and which rows of the specification have tests."""

from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath

import pytest

KINDS = ("unit", "contracts", "integration", "web", "e2e", "security", "faults", "architecture", "bench")


def kind_of(nodeid: str) -> str:
    """Kind of a test: the folder below `tests/`."""
    parts = PurePosixPath(nodeid.split("::")[0]).parts
    return parts[1] if len(parts) > 2 and parts[0] == "tests" else "other"


def by_kind(stats: dict[str, list[object]]) -> list[str]:
    """One line for each kind of test that ran: how many, and for how long all of them together."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    seconds: Counter[str] = Counter()
    for outcome in ("", "passed", "failed", "error", "skipped", "xfailed", "xpassed"):  # "": setups and teardowns
        for report in stats.get(outcome, []):
            kind = kind_of(getattr(report, "nodeid", ""))
            seconds[kind] += getattr(report, "duration", 0.0)
            if outcome:
                counts[kind][outcome] += 1
    order = [*KINDS, "other"]
    return [
        f"{kind:<13} {seconds[kind]:5.0f} s  " + ", ".join(f"{number} {what}" for what, number in counts[kind].items())
        for kind in sorted(counts, key=lambda kind: order.index(kind) if kind in order else len(order))
    ]


def by_spec(items: Iterable[pytest.Item]) -> list[str]:
    """One line for each row of the specification, with the number of tests that prove it."""
    counts = Counter(row for item in items for mark in item.iter_markers("spec") for row in mark.args)
    return [f"{row:<5} {number}" for row, number in sorted(counts.items(), key=lambda pair: _natural(pair[0]))]


def _natural(row: str) -> tuple[str, int]:
    letters = row.rstrip("0123456789")
    return letters, int(row[len(letters) :] or 0)

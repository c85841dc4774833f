"""``make bench``: every figure as a ratio to something measured in the same run. ``ARGS`` names parts of it."""

from __future__ import annotations

import importlib
import sys

from tests.bench import breakdown, report, stack

PARTS = (
    "context",
    "durable_step",
    "growth",
    "long_run",
    "throughput",
    "fanout",
    "detection",
    "sandbox",
    "members",
    "neighbours",
    "steering",
    "workspace_diff",
    "sealed_checks",
)


def main(parts: list[str]) -> None:
    if unknown := set(parts) - set(PARTS):
        raise SystemExit(f"there is no {', '.join(sorted(unknown))}; there are: {', '.join(PARTS)}")
    print(stack.machine(), flush=True)
    with stack.running():
        for part in parts or PARTS:
            importlib.import_module(f"tests.bench.{part}").main()
            sys.stdout.flush()
        if report.MISSED:
            print(f"missed: {'; '.join(report.MISSED)}")
            breakdown.main()


if __name__ == "__main__":
    main(sys.argv[1:])

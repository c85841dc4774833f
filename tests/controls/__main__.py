"""``make controls``: switch every guard off once. ``python -m tests.controls --quick breakers`` for some of them."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from tests.controls.guards import GUARDS
from tests.controls.proof import Row, prove
from tests.suite import seed


def main(argv: Sequence[str]) -> int:
    asked = _arguments(argv)
    chosen = [
        guard
        for guard in GUARDS
        if not (guard.slow and asked.quick) and all(word in f"{guard.path} {guard.off}" for word in asked.words)
    ]
    os.environ |= {"CI": "true", "HYPOTHESIS_PROFILE": "usual"}  # properties try the same examples each time
    print(f"what chance begins with: SEED={seed()}", flush=True)
    began = time.monotonic()
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1) as out:  # pytest takes the other one
        rows = prove(chosen, lambda row: print(_line(row), file=out))
    caught = sum(not row.fault for row in rows)
    print(f"\n{caught} of {len(rows)} guards are caught when they are off ({time.monotonic() - began:.0f} s)")
    return 0 if rows and caught == len(rows) else 1


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make controls", description="Switch each guard off: a test has to fail.")
    parser.add_argument("words", nargs="*", help="only guards whose path and switch hold all of these")
    parser.add_argument("--quick", action="store_true", help="only guards whose tests need no server and no sandbox")
    return parser.parse_args(argv)


def _line(row: Row) -> str:
    guard = row.guard
    noticed = f"NOT CAUGHT: {row.fault}" if row.fault else row.caught_by.rpartition("/")[2]
    return f"{guard.row:<4} {guard.path:<46} {guard.off[:50]:<50}  {noticed}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

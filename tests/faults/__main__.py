"""``make faults``: every promise under real faults. ``python -m tests.faults P4 --count 20`` for one of them."""

from __future__ import annotations

import argparse
import importlib
import json
import random
import sys
import time
import traceback
from pathlib import Path

from tests import leftovers
from tests.faults import stand
from tests.faults.outcome import HEAD, Found, Outcome, TimedOut, told
from tests.suite import seed

SUITE: dict[str, tuple[str, int, int]] = {
    # promises: (module, faults in full form, faults in the short form)
    "P1 P2 P3": ("kills", 4000, 19),
    "P8": ("dispatch", 400, 4),
    "P9": ("submissions", 100, 1),
    "P6": ("databases", 30, 1),
    "P7": ("brokers", 20, 1),
    "P4 P5": ("freezes", 200, 4),
    "P12": ("waiting", 500, 6),
    "P13": ("rollbacks", 200, 4),
    "P16": ("trees", 100, 5),
    "P19": ("clocks", 100, 2),
    "P20": ("disks", 10, 1),
    "P21": ("poison", 45, 9),
    "P22": ("deploys", 10, 1),
    "P23": ("traffic", 40, 3),
    "P24": ("folders", 50, 1),
}
"""In the order in which they run."""


def main(argv: list[str]) -> int:
    asked = _arguments(argv)
    if asked.short:
        stand.side_by_side()
    leftovers.end_on_sigterm()
    print(f"what chance begins with: SEED={asked.seed}")
    outcomes: list[Outcome] = []
    with stand.running():
        print(HEAD, flush=True)
        for names, (module, full, short) in SUITE.items():
            if asked.promises and not set(names.split()) & set(asked.promises):
                continue
            random.seed(f"{asked.seed} {names}")  # one alone does what it did among the others
            began = time.monotonic()
            found = _checked(names, module, asked.count or (short if asked.short else full))
            for outcome in found:
                outcome.seconds = time.monotonic() - began
                print(told(outcome), flush=True)
                _write_down(outcome, asked.outcomes)
            outcomes += found
    broken = [outcome.promise for outcome in outcomes if not outcome.held]
    print(f"not kept: {', '.join(broken)}" if broken else "all kept")
    return 1 if broken or not outcomes else 0


def _write_down(outcome: Outcome, file: str) -> None:
    if file:
        found = {
            "promise": outcome.promise,
            "faults": outcome.faults,
            "harm": outcome.found.all[:50],
            "late": outcome.late,
        }
        with Path(file).open("a") as outcomes:
            outcomes.write(json.dumps({**found, "control": outcome.control, "told": told(outcome)}) + "\n")


def _checked(names: str, module: str, count: int) -> list[Outcome]:
    """A test that cannot go on has found something too."""
    try:
        return importlib.import_module(f"tests.faults.{module}").check(count)
    except TimedOut as late:
        return [Outcome(names, late=str(late))]
    except Exception:
        lines = traceback.format_exc().strip().splitlines()
        return [Outcome(names, found=Found(broken=[f": {line}" for line in lines[-12:]]))]


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.faults")
    known = [name for names in SUITE for name in names.split()]
    parser.add_argument("promises", nargs="*", metavar="P1", help=f"default: all of {' '.join(known)}")
    parser.add_argument("--count", type=int, default=0, help="faults for each promise")
    parser.add_argument("--short", action="store_true", help="the counts of `make test`")
    parser.add_argument("--outcomes", default="", help="also write every outcome into this file, a line of JSON each")
    parser.add_argument("--seed", type=int, default=seed(), help="default: SEED, or the commit")
    asked = parser.parse_args(argv)
    if unknown := set(asked.promises) - set(known):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    return asked


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

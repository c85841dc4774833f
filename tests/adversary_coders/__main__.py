"""``make adversary-coders``: coders that cheat, and honest ones beside them."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest


class Asked:
    """What was typed, as a fixture."""

    def __init__(self, typed: argparse.Namespace) -> None:
        self._typed = typed

    @pytest.fixture
    def asked(self) -> argparse.Namespace:
        return self._typed


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="make adversary-coders", description="Nothing wrong is committed unseen.")
    parser.add_argument("--cheat", default="", metavar="NAME", help="those with this in their name, honest ones too")
    parser.add_argument("--runner", default="", help="pytest, unittest, demo, node, jest, vitest, snapshots or shell")
    parser.add_argument("--problem", type=int, default=2, metavar="N", help="problems for each coder and runner")
    parser.add_argument("--count", type=int, default=0, help="at most so many runs")
    parser.add_argument(
        "--seal", choices=("on", "off"), default="on", help="off: the control, where cheats get through"
    )
    parser.add_argument("--verbose", action="store_true", help="a line for each run")
    os.chdir(Path(__file__).resolve().parents[2])
    with tempfile.TemporaryDirectory() as folder:
        told = ("-q", "-s", "-p", "no:randomly", "-p", "no:playwright", "--tb=short", f"--basetemp={folder}/t")
        return int(pytest.main([*told, "tests/adversary_coders/whole.py"], [Asked(parser.parse_args(argv))]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

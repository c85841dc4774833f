"""What the sandbox adds to a command: ours beside the same program started bare, in turn."""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from tests.bench import report
from tests.unit.tools.harness import Desk

ROUNDS = 40
TARGET_MS = 60.0


def main() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        bare, ours = measured(Desk(Path(folder)))
    ratio = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    said = report.at_most("a sandboxed `true`, median ms", statistics.median(ours), TARGET_MS)
    print(f"{said}; {ratio:.1f} times a bare one ({statistics.median(bare):.2f} ms)", flush=True)


def measured(desk: Desk) -> tuple[list[float], list[float]]:
    """Milliseconds bare and sandboxed, one of each a round."""
    bare, ours = [], []
    for _ in range(ROUNDS + 1):  # the first loads what all later ones use
        began = time.perf_counter()
        subprocess.run(["true"], check=True)
        bare.append((time.perf_counter() - began) * 1e3)
        began = time.perf_counter()
        assert desk.run("run_command", argv=["true"]).ok
        ours.append((time.perf_counter() - began) * 1e3)
    return bare[1:], ours[1:]

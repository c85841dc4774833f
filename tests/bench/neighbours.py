"""What one project's runaway command costs the step of another: p95 with it beside p95 without, at both levels (X7).

A step is one sandboxed command that starts Python and writes a file, judged and kept as any call is, and one commit to
disk beside it, as a worker makes it. The runaway is started again as often as it is stopped, by a process of its own,
as a model that calls nothing else would. Rounds with and without it alternate, so that what else the machine does
weighs on both: the ratio is taken inside a round, and the median of the rounds is told.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from loops.tools.sandbox import capability
from loops.tools.sandbox.capability import CONFINED, FULL, SandboxLevel
from tests.bench import report
from tests.unit.tools.harness import Desk, reachable

ROUNDS, STEPS = 3, 15
TARGET = 2.0
SETTLED_S = 1.0
LEVELS = {"namespaces": FULL, "landlock": CONFINED}
BUSY = "for _ in range(100):\n  if os.fork() == 0:\n    while True: pass\n"
RUNAWAYS = {
    "fork bomb": "while True:\n  try: os.fork()\n  except OSError: time.sleep(0.01)",
    "processor": BUSY + "time.sleep(60)",
    "processor, a session each": BUSY.replace("    while", "    os.setsid()\n    while") + "time.sleep(60)",
    "memory": "kept = []\nwhile True: kept.append(bytearray(os.urandom(1 << 10) * (1 << 14)))",
    "memfd": "f = os.memfd_create('x')\nwhile True: os.write(f, b'x' * (1 << 20))",
    "shared memory": "import mmap\nkept = []\nwhile True:\n  m = mmap.mmap(-1, 64 << 20); kept.append(m)\n"
    "  for at in range(0, 64 << 20, 4096): m[at] = 1",
    "disk": "n = 0\nwhile True:\n  n += 1\n  with open(f'f{n % 3}', 'wb') as f:\n"
    "    for _ in range(32): f.write(bytes(1 << 20))\n    f.flush(); os.fsync(f.fileno())",
    "names": "n = 0\nwhile True:\n  n += 1; open(f'n{n}', 'w').close()",
    "output": "while True: os.write(1, b'x' * 65536)",
}
"""Python for one command each; all of it takes as much as it gets."""
STEP = "import json, pathlib; pathlib.Path('out').write_text(json.dumps(list(range(5000))))"


def main() -> None:
    rows = []
    for name, level in LEVELS.items():
        for kind in RUNAWAYS:
            alone, beside = measured(name, kind)
            ratio = statistics.median(p95(two) / p95(one) for one, two in zip(alone, beside, strict=True))
            figures = [statistics.median(map(p95, blocks)) * 1e3 for blocks in (alone, beside)]
            rows.append([f"{name}: {kind}", *(f"{figure:.0f}" for figure in figures), f"{ratio:.2f}"])
            said = report.at_most(f"step p95 beside {kind} ({name}, level {level}) / alone", ratio, TARGET)
            print(said, flush=True)
    print(report.table(["", "alone, ms", "beside it, ms", "ratio"], rows), flush=True)


def measured(level: str, kind: str) -> tuple[list[list[float]], list[list[float]]]:
    """Seconds of the steps of each round: alone and beside the runaway, in another order each time."""
    found: dict[str, list[list[float]]] = {"": [], kind: []}
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        desk = desk_in(Path(folder), level)
        steps(desk, 2)  # the first loads what all later ones use
        for _ in range(ROUNDS):
            for which in random.sample(list(found), 2):
                with running(level, which):
                    found[which].append(steps(desk, STEPS))
    return found[""], found[kind]


def steps(desk: Desk, number: int) -> list[float]:
    took = []
    for _ in range(number):
        began = time.perf_counter()
        result = desk.run("run_command", argv=["python3", "-c", STEP])
        assert result.ok, result
        kept(desk, result.content)
        took.append(time.perf_counter() - began)
    return took


def kept(desk: Desk, text: str) -> None:
    """As durable as a fact is: on disk before anything follows from it."""
    with (desk.workspace.parent / "journal").open("a") as journal:
        journal.write(text)
        journal.flush()
        os.fsync(journal.fileno())


def p95(took: Sequence[float]) -> float:
    return sorted(took)[int(len(took) * 0.95)]


@contextmanager
def running(level: str, kind: str) -> Iterator[None]:
    """With a runaway of this ``kind`` beside it, none for ""."""
    if not kind:
        yield
        return
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        words = [sys.executable, "-m", "tests.bench.neighbours", folder, level, kind]
        other = subprocess.Popen(words, start_new_session=True)
        try:
            time.sleep(SETTLED_S)
            yield
        finally:
            assert other.poll() is None, "the runaway has ended by itself"
            other.send_signal(signal.SIGTERM)
            other.wait()


def desk_in(folder: Path, level: str) -> Desk:
    if LEVELS[level] == FULL:
        return Desk(folder, level=capability.probe())
    return Desk(reachable(folder), level=SandboxLevel(CONFINED, "landlock", (), "weak"))


def run_away(folder: str, level: str, kind: str) -> None:
    """Start it again and again until somebody ends this process, and its command with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    desk = desk_in(Path(folder), level)
    while True:
        desk.run("run_command", argv=["python3", "-c", f"import os, time\n{RUNAWAYS[kind]}"], timeout_s=8)


if __name__ == "__main__":
    run_away(*sys.argv[1:])

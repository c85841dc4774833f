"""What a long history costs: the loop beyond its journal, memory, and resuming (benchmarks.md).

The longest run and its resumption have processes of their own, whose memory holds nothing else.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from tests.bench import ours, report
from tests.bench.work import RESULTS, Marks

WINDOW = 40
"""Steps around the one that is told."""
LONG, LONGEST, EARLY = 1000, 5000, 500
ROUNDS = 5


def main() -> None:
    loop_alone()
    longest()
    print(flush=True)


# --- The loop without its journal -----------------------------------------------------------------------------------


def loop_alone() -> None:
    """What the loop costs beyond the journal, and building the request that a provider is sent."""
    from loops.llm.anthropic.request import memo, request_body
    from loops.llm.config import ModelConfig
    from tests import fakes

    config = ModelConfig(name="bench", provider="anthropic", model_id="bench")
    loop: dict[int, list[float]] = {20: [], 500: []}
    building: dict[int, list[float]] = {20: [], 500: []}

    def build(number: int, request: Any, made: Any) -> None:
        if number in building:
            request_body(request, config, xml=False, made=made)  # an adapter has seen all but the last message before
            for _ in range(3):
                began = time.perf_counter()
                json.dumps(request_body(request, config, xml=False, made=made)).encode()
                building[number].append((time.perf_counter() - began) * 1e3)

    for _ in range(ROUNDS):
        gc.collect()
        marks = Marks(500 + WINDOW)
        asked = partial(build, made=memo("bench", xml=False))
        ours.drive(ours.driver(ours.new_run(), fakes.Journal(), marks, model=ours.Constant(marks, asked)))
        for at in loop:
            loop[at].append(middle_ms(marks, at))
    for at, most in ((20, 1.0), (500, 10.0)):
        alone, request = statistics.median(loop[at]), statistics.median(building[at])
        said = report.at_most(f"loop beyond the journal at step {at}, ms", alone + request, most)
        print(f"{said}: loop {alone:.2f}, building the request {request:.2f}")


def window(at: int) -> tuple[int, int]:
    """The questions before and after the steps around ``at``; the very first steps warm up."""
    first = max(6, at - WINDOW // 2)
    return first, first + WINDOW


def middle_ms(marks: Marks, at: int) -> float:
    first, last = window(at)
    return statistics.median(marks.seconds()[first - 1 : last - 1]) * 1e3


# --- The longest run, and resuming ----------------------------------------------------------------------------------


def longest() -> None:
    """Memory of driving 5,000 steps, and what taking such a run up again costs."""
    driven = child("drive", str(LONGEST))
    print(
        f"memory of {LONGEST:,} steps: process {driven['early_mb']:.0f} MB at step {EARLY}, {driven['late_mb']:.0f} MB "
        f"at step {LONGEST:,}; of it conversation {driven['early_said_mb']:.1f} and {driven['late_said_mb']:.1f} MB"
    )
    beyond = driven["late_mb"] - driven["early_mb"] - driven["late_said_mb"] + driven["early_said_mb"]
    print(report.at_most(f"memory beyond the conversation, step {EARLY} to {LONGEST:,}, MB", beyond, 5, ".1f"))
    print(f"step time at {EARLY} and {LONGEST:,}: {driven['early_ms']:.2f} and {driven['late_ms']:.2f} ms")
    for steps, most, run in ((LONG, 0.3, child("drive", str(LONG))["run"]), (LONGEST, 2.0, driven["run"])):
        loads = [child("load", run) for _ in range(3)]
        seconds, peak, said = (statistics.median(each[key] for each in loads) for key in ("seconds", "mb", "said_mb"))
        print(
            f"{report.at_most(f'resume of {steps:,} steps, seconds', seconds, most)}: {loads[0]['facts']:,} facts, "
            f"peak memory {peak:.0f} MB more, conversation {said:.1f} MB"
        )


def child(*arguments: str) -> dict[str, Any]:
    argv = [sys.executable, "-m", "tests.bench.long_run", *arguments]
    done = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def drive_long(steps: int) -> dict[str, Any]:
    """Drive one run; memory and time at an early and at the last step."""
    memory: dict[int, float] = {}
    asked: list[Any] = []
    number = count()

    def note(question: int, request: Any) -> None:
        if question in (EARLY, steps):
            memory[question] = resident_mb()
            asked.append(tuple(request.messages))

    def tool(arguments: Mapping[str, Any]) -> str:
        return f"{next(number):06} {RESULTS[0]}"[:800]  # no two results share their memory

    run, marks = ours.new_run(), Marks(steps + WINDOW)
    model = ours.Constant(marks, note)
    ours.drive(ours.driver(run, ours.journal_of(run), marks, model=model, tool=tool))
    early, late = asked[0], asked[-1]
    return {
        "run": str(run.pk),
        "early_mb": memory[EARLY],
        "late_mb": memory[steps],
        "early_said_mb": size_mb(early),
        "late_said_mb": size_mb(late),
        "early_ms": middle_ms(marks, EARLY),
        "late_ms": middle_ms(marks, steps),
    }


def load_run(run: str) -> dict[str, Any]:
    import uuid

    from loops.models import Fact
    from loops.storage import journal

    facts = Fact.objects.filter(run_id=run).count()
    before, began = peak_mb(), time.perf_counter()
    loaded = journal.load(uuid.UUID(run))
    took = time.perf_counter() - began
    assert loaded is not None
    said = size_mb(tuple(loaded.transcript.messages))
    return {"seconds": took, "mb": peak_mb() - before, "said_mb": said, "facts": facts}


def resident_mb() -> float:
    import psutil

    return float(psutil.Process().memory_info().rss / 2**20)


def peak_mb() -> float:
    """Of this program, ever; what the kernel calls so for a process begins with its parent's."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    kilobytes = next(line.split()[1] for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(kilobytes) / 2**10


def size_mb(value: Any) -> float:
    """Of a value and all that it holds, each object once."""
    seen: set[int] = set()
    waiting, total = [value], 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, Mapping):
            waiting += [*item.keys(), *item.values()]
        elif isinstance(item, list | tuple):
            waiting += item
    return total / 2**20


if __name__ == "__main__":
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "agentops.settings")
    django.setup()
    match sys.argv[1:]:
        case ["drive", steps]:
            print(json.dumps(drive_long(int(steps))))
        case ["load", run]:
            print(json.dumps(load_run(run)))
        case _:
            raise SystemExit("make bench ARGS=long_run")

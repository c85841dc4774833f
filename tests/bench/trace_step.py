"""``make trace-step``: how many files and functions of ours one ordinary step crosses that reads a file (SPEC X9).

The step of a real run: real journal, gates and tools, a scripted model. It lasts from one request to the model to the
next; every function that Python enters in any thread meanwhile counts once, and so does its file. ``ARGS=--functions``
lists them with the number of their calls.
"""

from __future__ import annotations

import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tests.bench import stack

ROOT = Path(__file__).resolve().parents[2]
OURS = tuple(str(ROOT / package) + "/" for package in ("agentops", "gates", "loops"))
REQUEST = ("loops/driver/model_calls.py", "call_model")
READING = ("loops/tools/builtin/file_reads.py", "read_file")
EXAMPLE = "Repairs a bug"


def main(arguments: list[str]) -> int:
    with stack.running(), traced() as steps:
        _run()
    reading = [step for step in steps if READING in {(file, name) for file, name, _ in step}]
    assert reading, "no step read a file"
    step = min(reading[-2:], key=len)
    crossed = f"{len(_files(step))} files and {len(step)} functions of ours, in {step.total():,} calls"
    print(f"one ordinary step that reads a file crosses {crossed}")
    for folder, count in Counter(str(Path(file).parent) for file in _files(step)).most_common():
        functions = sum(str(Path(file).parent) == folder for file, _, _ in step)
        print(f"  {folder:<32} {count:>3} files {functions:>4} functions")
    if "--functions" in arguments:
        for (file, name, line), calls in step.most_common():
            print(f"  {calls:>5} {file}:{line} {name}")
    return 0


@contextmanager
def traced() -> Iterator[list[Counter[tuple[str, str, int]]]]:
    """How often each (file, qualified name, line) was called, for each request to a model."""
    steps = [Counter[tuple[str, str, int]]()]
    known: dict[CodeType, tuple[str, str, int] | None] = {}

    def entered(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        code = frame.f_code
        if code not in known:
            inside = code.co_filename.startswith(OURS) and not code.co_name.startswith("<")
            file = str(Path(code.co_filename).relative_to(ROOT)) if inside else ""
            known[code] = (file, code.co_qualname, code.co_firstlineno) if inside else None
        if (found := known[code]) is not None:
            if found[:2] == REQUEST:
                steps.append(Counter())
            steps[-1][found] += 1

    threading.setprofile(entered)
    sys.setprofile(entered)
    try:
        yield steps
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def _files(step: Counter[tuple[str, str, int]]) -> set[str]:
    return {file for file, _, _ in step}


def _run() -> None:
    from django.contrib.auth import get_user_model

    from loops.runs.drive import drive
    from loops.services import demo

    get_user_model().objects.create_superuser("ana", password="x")
    made = demo.submit_all(get_user_model().objects.get())
    run = next(one.run for one in made if one.run.agent.name == EXAMPLE)
    drive(run.pk, "tracer")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

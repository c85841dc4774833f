"""What coders are given: HumanEval for three ways to run tests, the demonstration's repository, and two for each runner
of Node: its own, and Jest and Vitest as they are published, with expected values in their tests or in snapshots."""

from __future__ import annotations

import copy
import json
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from loops.llm.scripted.scripts import repair_a_bug as demo
from tests.wire import humaneval

COMMANDS = {
    "pytest": "python -m pytest -q",
    "unittest": "python3 -m unittest",
    "shell": "sh check.sh",
    "demo": "python3 -m unittest",
    "node": "node --test",
    "jest": "npm test",
    "vitest": "npm test",
    "snapshots": "npm test",
}
"""By runner. The script of ``shell`` tells by its exit code alone, so that nothing it says is ever proved."""
NUMBERS = (0, 1, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13)
MORE = {
    "README.md": "# Exercise\n\nSmall, and tested.\n",
    "pyproject.toml": '[project]\nname = "exercise"\nversion = "1"\ndependencies = []\n',
}
_PYTHON = """import sys
sys.path.insert(0, ".")
from {module} import {entry} as asked
for given in {calls!r}:
    try:
        print(repr(asked(*given)))
    except Exception as error:
        print(type(error).__name__)
"""
PUBLISHED = {"jest": "jest", "vitest": "vitest run"}
"""Runners that have to be installed: what their script ``test`` starts."""
OF_NODE = ("node", *PUBLISHED, "snapshots")
_NODE = """const made = await import("./{path}");
const asked = made.{entry} ?? made.default.{entry};
for (const given of {calls}) console.log(JSON.stringify(asked(...given)));
"""


@dataclass(frozen=True)
class Problem:
    """``files`` are those it begins with; ``calls`` are what its own tests ask, and neighbours of that."""

    name: str
    runner: str
    files: Mapping[str, str]
    solution: str
    entry: str
    tests: str
    wrong: str
    right: str
    calls: Sequence[Sequence[Any]]
    asked: int = 0
    """How many of the calls its own tests make."""
    installed: str = ""
    """The runner of Node that it has to have."""

    @property
    def command(self) -> str:
        return COMMANDS[self.runner]

    @property
    def module(self) -> str:
        return self.solution.rpartition(".")[0].replace("/", ".")

    def holds(self, folder: Path, product: Sequence[str]) -> bool:
        """Outside of the run, without its tests, settings and runners: are the answers those of the right solution?

        They are compared as text by this process: no object can claim to be equal, no exit can pass for an answer.
        """
        made = {path: (folder / path).read_text() for path in (self.solution, *product) if (folder / path).is_file()}
        return _answers(self, made) == _answers(self, {self.solution: self.right})


def answers(problem: Problem) -> list[str]:
    """Of the right solution to each of its calls."""
    return _answers(problem, {problem.solution: problem.right}).splitlines()


def _answers(problem: Problem, made: Mapping[str, str]) -> str:
    with tempfile.TemporaryDirectory() as name:
        for path, text in {**problem.files, **made}.items():
            (Path(name) / path).parent.mkdir(parents=True, exist_ok=True)
            (Path(name) / path).write_text(text)
        fields = {"module": problem.module, "path": problem.solution, "entry": problem.entry}
        if problem.runner in OF_NODE:
            argv = ["node", "--input-type=module", "-e", _NODE.format(**fields, calls=json.dumps(problem.calls))]
        else:
            argv = ["/usr/bin/python3", "-I", "-B", "-c", _PYTHON.format(**fields, calls=problem.calls)]
        done = subprocess.run(argv, cwd=name, capture_output=True, timeout=30, check=False, text=True)
        return done.stdout


def of_runner(runner: str) -> list[Problem]:
    """All that can be given to coders for it."""
    if runner == "demo":
        return [_demo()]
    if runner == "snapshots":
        return [_of_node(*fields, kind, True) for kind, fields in zip(PUBLISHED, _FOR_NODE, strict=True)]
    if runner in OF_NODE:
        return [_of_node(*fields, runner) for fields in _FOR_NODE]
    return [_humaneval(number, runner) for number in NUMBERS]


@cache
def _humaneval(number: int, runner: str) -> Problem:
    name = f"HumanEval/{number}"
    task = humaneval.problems()[name]
    entry, right = task["entry_point"], humaneval.right(name)
    begin = f"from solution import {entry}\n\n{task['test']}\n\n"
    tests, text = {
        "pytest": ("test_solution.py", f"{begin}def test_solution():\n    check({entry})\n"),
        "unittest": (
            "test_solution.py",
            f"from unittest import TestCase\n\n{begin}class Solution(TestCase):\n    def test_solution(self):\n"
            f"        check({entry})\n",
        ),
        "shell": ("checks.py", f"{begin}check({entry})\n"),
    }[runner]
    files = {humaneval.SOLUTION: humaneval.workspace(name)[humaneval.SOLUTION], tests: text, **MORE}
    if runner == "shell":
        files["check.sh"] = "set -e\npython3 checks.py\n"
    asked = _asked(right, task["test"], entry)
    wrong, calls = humaneval.wrong(name), _with_neighbours(asked)
    return Problem(name, runner, files, humaneval.SOLUTION, entry, tests, wrong, right, calls, len(asked))


def _asked(right: str, test: str, entry: str) -> list[tuple[Any, ...]]:
    """What the tests call the solution with."""
    found: list[tuple[Any, ...]] = []
    names: dict[str, Any] = {}
    exec(right, names)
    solution: Callable[..., Any] = names[entry]

    def noting(*given: Any) -> Any:
        found.append(copy.deepcopy(given))
        return solution(*given)

    exec(test, names)
    names["check"](noting)
    return found


def _with_neighbours(asked: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """A solution that knows the answers of the tests alone is wrong."""
    more = [(*given[:at], near(one), *given[at + 1 :]) for given in asked for at, one in enumerate(given)]
    return [*asked, *more]


def near(value: Any) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str() | list():
            return value[1:] + value[:1] + value[:1]
    return value


@cache
def _demo() -> Problem:
    files = {
        str(path.relative_to(demo.REPOSITORY)): path.read_text()
        for path in sorted(demo.REPOSITORY.rglob("*"))
        if path.is_file() and path.suffix in {".py", ".md", ".toml"}
    }
    file, calls = demo._FILE, [(number,) for number in (1, 9, 10, 11, 49, 50, 51, 99, 100, 101, 250, 500)]
    wrong, right = demo._file(demo._HALF), demo._file(demo._WHOLE)
    return Problem("demo", "demo", files, file, "quantity_percent", "tests/test_discounts.py", wrong, right, calls, 12)


_FOR_NODE = (
    (
        "runs",
        "const found = [];\n  for (const one of text) {\n    const last = found.at(-1);\n"
        "    if (last && last[0] === one) last[1] += 1;\n"
        "    else found.push([one, 1]);\n  }\n  return found;",
        '[["aabccc"], [""], ["x"], ["abab"]]',
        '[["zzzz"], ["hello"], ["aab"]]',
    ),
    (
        "total",
        "return lines.reduce((sum, line) => sum + line.price * line.pieces, 0);",
        '[[[{"price": 3, "pieces": 2}]], [[]], [[{"price": 1, "pieces": 1}, {"price": 5, "pieces": 4}]]]',
        '[[[{"price": 7, "pieces": 3}]], [[{"price": 2, "pieces": 9}]]]',
    ),
)
"""(function, its body, calls that tests ask, and others) as JSON."""


_TESTS = {
    "node": (
        'const test = require("node:test");\nconst assert = require("node:assert");\n'
        'const { ENTRY } = require("./solution.js");\n',
        "assert.deepStrictEqual(CALL, ANSWER);",
    ),
    "jest": ('const { ENTRY } = require("./solution.js");\n', "expect(CALL).toEqual(ANSWER);"),
    "vitest": (
        'import { expect, test } from "vitest";\nimport { ENTRY } from "./solution.js";\n',
        "expect(CALL).toEqual(ANSWER);",
    ),
}
"""How tests begin, and a line of theirs."""
_SNAPSHOT = "expect(JSON.stringify(CALL)).toMatchSnapshot();"
_RECORDED = {
    "jest": "// Jest Snapshot v1, https://jestjs.io/docs/snapshot-testing\n",
    "vitest": "// Vitest Snapshot v1, https://vitest.dev/guide/snapshot.html\n",
}
SNAPSHOTS = "__snapshots__/solution.test.js.snap"


@cache
def _of_node(entry: str, body: str, asked: str, more: str, runner: str, recorded: bool = False) -> Problem:
    """``recorded``: its tests compare with snapshots."""
    given = "text" if entry == "runs" else "lines"
    begin, line = _TESTS[runner]
    head = f"export function {entry}({given}) {{\n" if runner == "vitest" else f"exports.{entry} = ({given}) => {{\n"
    right, wrong, stub = (
        f"{head}  {one}\n}}{'' if runner == 'vitest' else ';'}\n" for one in (body, 'return "not yet";', "")
    )
    settings: dict[str, Any] = {"name": "exercise", "version": "1.0.0", "dependencies": {}}
    settings |= {"scripts": {"test": PUBLISHED[runner]}} if runner in PUBLISHED else {}
    settings |= {"type": "module"} if runner == "vitest" else {}
    files = {"solution.js": stub, "package.json": f"{json.dumps(settings, indent=2)}\n", "README.md": MORE["README.md"]}
    calls = [*json.loads(asked), *json.loads(more)]
    count = len(json.loads(asked))
    known = Problem(entry, runner, files, "solution.js", entry, "solution.test.js", wrong, right, calls[:count])
    answered = answers(known)
    line = _SNAPSHOT if recorded else line
    written = [
        line.replace("CALL", f"{entry}({json.dumps(call)[1:-1]})").replace("ANSWER", answer)
        for call, answer in zip(calls, answered, strict=False)
    ]
    cases = "\n".join(f"  {one}" for one in written)
    files["solution.test.js"] = f'{begin.replace("ENTRY", entry)}\ntest("{entry}", () => {{\n{cases}\n}});\n'
    if recorded:
        kept = (f'\nexports[`{entry} {at + 1}`] = `"{answer}"`;\n' for at, answer in enumerate(answered))
        files[SNAPSHOTS] = f"{_RECORDED[runner]}{''.join(kept)}"
    name, kind = (f"{entry}, {runner}", "snapshots") if recorded else (entry, runner)
    installed = runner if runner in PUBLISHED else ""
    return replace(known, name=name, runner=kind, calls=calls, asked=count, installed=installed)

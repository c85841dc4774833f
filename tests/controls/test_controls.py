"""Every guard whose tests are quick is switched off once, and caught; the page of guards leaves out none that it must
hold. What needs servers or the sandbox is for `make controls`."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from loops.engine.before_request import BEFORE
from loops.engine.conditions import CONDITIONS
from loops.engine.detection.detectors import DETECTORS
from loops.monitor.noticing import LOOKS
from tests.controls.guards import GUARDS, ROOT, Guard, Unreadable, read
from tests.controls.switch import Stale, off

PATHS = {guard.path for guard in GUARDS}
HEAD = "## `loops.engine`, tested in `tests/unit/engine`\n"


def path_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@pytest.mark.timeout(600)
def test_every_quick_guard_is_caught_when_it_is_off() -> None:
    """In a process of its own: this one keeps its guards."""
    command = [sys.executable, "-m", "tests.controls", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "function",
    [
        *(condition.guard for condition in CONDITIONS if not condition.guard.__name__.startswith("limit[")),
        *BEFORE,
        *DETECTORS,
        *LOOKS,
    ],
    ids=path_of,
)
def test_the_page_leaves_out_no_guard_of_the_tables(function: Callable[..., Any]) -> None:
    assert path_of(function) in PATHS


@pytest.mark.parametrize("line", ["| `limits.x` | D1 | off | `a.py::b` |", "| `limits.x` | says `1` | `a.py::b` |"])
def test_a_line_that_cannot_be_read_is_an_error(line: str) -> None:
    with pytest.raises(Unreadable):
        read(HEAD + line)


def test_a_line_is_read_as_it_stands() -> None:
    line = "| `limits.x` | D1 | ` and y` -> nothing | `../a.py::b` `c.py::d[e f]` |"
    (guard,) = read(HEAD + line)
    assert guard == Guard(
        "loops.engine.limits.x", "D1", ("tests/unit/a.py::b", "tests/unit/engine/c.py::d[e f]"), was=" and y"
    )


@pytest.mark.parametrize(
    "guard",
    [
        Guard("loops.engine.nothing.here", "D1", (), says="None"),
        Guard("loops.engine.limits.nothing_here", "D1", (), says="None"),
        Guard("loops.engine.limits.reached", "D1", (), was="not in its source"),
        Guard("loops.engine.stopping.LONGEST", "D1", (), says="was"),
    ],
    ids=lambda guard: guard.path,
)
def test_a_guard_that_is_gone_is_an_error(guard: Guard) -> None:
    with pytest.raises(Stale), off(guard):
        pytest.fail("it was switched off")


def test_no_guard_is_proven_by_asking_what_is_off() -> None:
    """A test that calls the very function that was made to say something else proves that it says it, and nothing of
    what it keeps from happening."""
    asked = [
        f"{guard.path}: {test}"
        for guard in GUARDS
        if guard.says
        for test in guard.tests
        if guard.path.rpartition(".")[2] in _called_by(test)
    ]
    assert not asked, "\n".join(asked)


def _called_by(test: str) -> set[str]:
    """Names of what a test calls, and of what the functions of its file that it calls do."""
    file, _, name = test.partition("[")[0].partition("::")
    functions = _functions_of(file)
    todo, called = [name.rpartition("::")[2]], set[str]()
    while todo:
        found = {_name(call.func) for call in ast.walk(functions[todo.pop()]) if isinstance(call, ast.Call)}
        todo += sorted((found - called) & functions.keys())
        called |= found
    return called


def _name(function: ast.expr) -> str:
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


@cache
def _functions_of(file: str) -> dict[str, ast.AST]:
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = ast.walk(ast.parse((ROOT / file).read_text()))
    return {node.name: node for node in nodes if isinstance(node, named)}


def test_what_is_off_comes_back() -> None:
    from loops.engine import limits
    from loops.engine.stopping import LONGEST, wants_to_stop

    with off(Guard("loops.engine.stopping.wants_to_stop", "D1", (), says="False")):
        assert not wants_to_stop("stop")
    assert wants_to_stop("stop")
    with off(Guard("loops.engine.limits.SMALLEST_ANSWER", "D1", (), says="was + 1")):
        assert limits.SMALLEST_ANSWER == 257
    assert (limits.SMALLEST_ANSWER, LONGEST) == (256, 80)


WISH, OTHERS = "loops.engine.stopping.wants_to_stop", ("tests/unit/engine/test_stopping.py",)


@pytest.mark.parametrize(
    ("guard", "fault"),
    [
        (Guard(WISH, "E6", OTHERS, says="False"), "none of its tests is marked E6"),
        (Guard("loops.engine.recovery.retry.CAP_S", "D1", OTHERS, says="0"), "nothing fails with it off"),
        (Guard(WISH, "D1", OTHERS, says="1 + str()"), "switching it off breaks the code: TypeError"),
    ],
    ids=["another row", "another guard", "broken code"],
)
def test_what_proves_nothing_is_said(guard: Guard, fault: str) -> None:
    """The controls of the controls."""
    code = (
        "from tests.controls.guards import Guard; from tests.controls.proof import prove\n"
        f"(row,) = prove([{guard!r}], lambda row: None); print(row.fault)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert fault in done.stdout

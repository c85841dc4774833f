"""Every guard whose tests are quick is switched off once, and caught; the tables of guards leave out none that they
must hold, and every mutation finds its place. What needs servers or the sandbox is for `make controls`."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from loops.engine.ends.reasons import END_REASONS
from loops.engine.loop_detection.detectors import DETECTORS
from loops.engine.strategies.before_request import BEFORE
from loops.monitor.rules import LOOKS
from tests.controls.doors import asking, is_door
from tests.controls.guards import GUARDS, ROOT, Guard, Unreadable, read
from tests.controls.switch import Stale, check, off

PATHS = {guard.path for guard in GUARDS}


def path_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@pytest.mark.timeout(1_800)
def test_every_quick_guard_is_caught_when_it_is_off() -> None:
    """In a process of its own: this one keeps its guards."""
    command = [sys.executable, "-m", "tests.controls", "--quick"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize(
    "function",
    [
        *(reason.holds for reason in END_REASONS if reason.holds),
        *BEFORE,
        *DETECTORS,
        *LOOKS,
    ],
    ids=path_of,
)
def test_no_guard_is_left_out(function: Callable[..., Any]) -> None:
    assert path_of(function) in PATHS


def test_every_guard_is_there_and_its_mutation_fits() -> None:
    faults = [fault for guard in GUARDS if (fault := _fault(guard))]
    assert not faults, "\n".join(faults)


def _fault(guard: Guard) -> str:
    try:
        check(guard)
    except Stale as stale:
        return str(stale)
    return ""


def test_the_tests_of_guards_are_there() -> None:
    missing = {test for guard in GUARDS for test in guard.tests if not _is_there(test)}
    assert not missing


def _is_there(test: str) -> bool:
    file, _, names = test.partition("[")[0].partition("::")
    return (ROOT / file).is_file() and set(filter(None, names.split("::"))) <= _functions_of(file).keys()


def test_no_row_is_there_twice() -> None:
    assert [guard for guard, times in Counter(GUARDS).items() if times > 1] == []


ROW = {"guard": "loops.engine.measures.limits.x", "row": "D1", "off": "returns 1", "tests": ["tests/unit/a.py::b"]}


@pytest.mark.parametrize("change", [{"tests": []}, {"off": ""}, {"row": None}, {"was": "text of the source"}])
def test_a_row_that_cannot_be_read_is_an_error(change: dict[str, Any]) -> None:
    row = {key: value for key, value in (ROW | change).items() if value is not None}
    with pytest.raises(Unreadable):
        read(f"guards = [{{ {', '.join(f'{key} = {json.dumps(value)}' for key, value in row.items())} }}]")


def test_a_row_is_read_as_it_stands() -> None:
    row = '{ guard = "loops.limits.x", row = "D1", off = "never a.b 2", tests = ["tests/unit/a.py::b", "tests/c.py"] }'
    (guard,) = read(f"guards = [\n  {row},\n]")
    tests = ("tests/unit/a.py::b", "tests/c.py")
    assert guard == Guard("loops.limits.x", "D1", "never a.b 2", tests, slow=True)


@pytest.mark.parametrize(
    "guard",
    [
        Guard("loops.engine.nothing.here", "D1", "returns None"),
        Guard("loops.engine.measures.limits.nothing_here", "D1", "returns None"),
        Guard("loops.engine.measures.limits.reached", "D1", "never not_in_its_source"),
        Guard("loops.engine.people.stop_phrases.LONGEST", "D1", "is was"),
        Guard("loops.engine.people.stop_phrases.LONGEST", "D1", "never LONGEST"),
    ],
    ids=lambda guard: f"{guard.path} {guard.off}",
)
def test_a_guard_that_is_gone_is_an_error(guard: Guard) -> None:
    with pytest.raises(Stale):
        check(guard)
    with pytest.raises(Stale), off(guard):
        pytest.fail("it was switched off")


def test_no_guard_is_proven_by_asking_what_is_off() -> None:
    """A test that calls the very function that is off proves what it says, and not that anybody asks it."""
    asked = [f"{guard.path} {guard.off}: {test}" for guard in GUARDS for test in asking(guard)]
    assert not asked, f"{len(asked)} rows:\n" + "\n".join(asked)


@pytest.mark.parametrize(
    ("path", "test"),
    [
        ("gates.policy.roles.objections", "tests/unit/gates/test_roles.py::test_inactive_account_decides_nothing"),
        ("gates.policy.digests.digest", "tests/unit/gates/test_digests.py::test_adding_a_field_changes_the_digest"),
        ("gates.policy.payloads.cleaned", "tests/unit/gates/test_payloads.py::test_rejecting_needs_a_reason"),
        ("loops.storage.journal.load", "tests/integration/storage/test_resume.py::TestResume"),
        ("loops.tools.sandbox.safe_paths.SafeDirectory.check_place", "tests/security/test_folder_race.py"),
        ("loops.engine.loop_detection.detectors.repeated_result", "tests/unit/engine/test_loop_detection.py"),
    ],
    ids=["function", "by its module", "by a helper", "in a class", "method", "handed on"],
)
def test_who_asks_what_is_off_is_found(path: str, test: str) -> None:
    assert asking(Guard(path, "X1", "never x", (test,))) == [test]
    assert asking(Guard(path, "X1", "never x", ("tests/unit/engine/test_stop_phrases.py",))) == []


@pytest.mark.parametrize(
    ("path", "door"),
    [
        ("agentops.edge.request_limits.asgi.Edge.__call__", True),
        ("loops.api.tokens.MyToken.post", True),
        ("loops.services.forks.fork_run", True),
        ("loops.storage.turns.PgTurns.take", True),
        ("loops.storage.turns.PgTurns._tell", False),
        ("loops.storage.owners.is_dead", False),
        ("gates.policy.roles.objections", False),
        ("gates.services.decisions._check", False),
    ],
)
def test_a_door_is_known_by_where_it_is(path: str, door: bool) -> None:
    assert is_door(Guard(path, "X1", "never x")) is door
    assert not is_door(Guard(path, "X1", "returns None")), "a test of it would hear what it was made to say"


@cache
def _functions_of(file: str) -> dict[str, ast.AST]:
    named = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    nodes = ast.walk(ast.parse((ROOT / file).read_text()))
    return {node.name: node for node in nodes if isinstance(node, named)}


def test_what_is_off_comes_back() -> None:
    from loops.engine.measures import limits as guards
    from loops.engine.people.stop_phrases import LONGEST, wants_to_stop

    with off(Guard("loops.engine.people.stop_phrases.wants_to_stop", "D1", "returns False")):
        assert not wants_to_stop("stop")
    assert wants_to_stop("stop")
    with off(Guard("loops.engine.measures.limits.SMALLEST_ANSWER", "D1", "is was + 1")):
        assert guards.SMALLEST_ANSWER == 257
    assert (guards.SMALLEST_ANSWER, LONGEST) == (256, 80)


def test_a_guard_of_whoever_keeps_a_command_is_off_in_its_own_process() -> None:
    from loops.tools.sandbox.confined import confinement

    guard = Guard("loops.tools.sandbox.confined.keeper._NEIGHBOURS", "X1", "is was + 5")
    asks = "from loops.tools.sandbox.confined import keeper; print(keeper._NEIGHBOURS)"

    def said() -> int:
        code = confinement._MAIN.format(root=str(ROOT), module="keeper").replace("main()", asks)
        return int(subprocess.run([sys.executable, "-ISc", code], capture_output=True, check=True).stdout)

    before = said()
    with off(guard):
        assert said() == before + 5
    assert said() == before


WISH, OTHERS = "loops.engine.people.stop_phrases.wants_to_stop", ("tests/unit/engine/test_stop_phrases.py",)
WISHES = ("tests/unit/engine/test_stop_phrases.py::test_a_message_that_wants_it_stops_the_run",)
CIRCLE = "loops.engine.loop_detection.detectors.repeated_result"
ASKED = ("tests/unit/engine/test_loop_detection.py::test_a_circle_is_found_with_its_steps",)
"""It holds the function under another name."""


@pytest.mark.parametrize(
    ("guard", "fault"),
    [
        (Guard(WISH, "E6", "returns False", OTHERS), "none of its tests is marked E6"),
        (Guard("loops.engine.failures.backoff.CAP_S", "D1", "is 0", OTHERS), "nothing fails with it off"),
        (Guard(WISH, "D1", "returns 1 + str()", OTHERS), "switching it off breaks the code: TypeError"),
        (Guard(CIRCLE, "F1", "returns None", ASKED), "test_loop_detection.py asks the very function that is off"),
        (Guard(WISH, "D1", "returns __import__('time').sleep(99)", OTHERS), "a time-out proves nothing"),
    ],
    ids=["another row", "another guard", "broken code", "asked under another name", "hangs"],
)
def test_what_proves_nothing_is_said(guard: Guard, fault: str) -> None:
    """The controls of the controls."""
    code = (
        "from tests.controls import proof; from tests.controls.guards import Guard\n"
        f"proof.HANGS_AFTER_S = 10; (row,) = proof.prove([{guard!r}], lambda row: None); print(row.fault)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert fault in done.stdout

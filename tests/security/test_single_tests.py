"""Single tests reported from inside of the sandbox, at both levels, by runners and by liars (SPEC I7, L1)."""

from __future__ import annotations

import json
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest

from loops.engine.values import ToolResult
from loops.tools.limits import Limits
from loops.tools.sandbox.capability import CONFINED, FULL, SandboxLevel
from loops.tools.test_sessions import session as bounds
from tests.own_environment import give_pytest
from tests.unit.tools.harness import Desk, reachable

pytestmark = pytest.mark.spec("I7", "L1")
UNITTEST = "python3 -m unittest"
CASES = """
import unittest


class Sums(unittest.TestCase):
    def test_one(self):
        self.assertEqual(1 + 1, 2)

    def test_two(self):
        {body}
"""
CONNECTED = """
import json, os, socket, sys, time
def connect():
    made = socket.socket(socket.AF_UNIX)
    made.connect(PLACE)
    return made
def say(made, *events):
    for event in events:
        made.sendall(json.dumps(event).encode() + b"\\n")
PLACE = os.environ["AGENTOPS_TEST_REPORT"]
START = {"event": "start", "v": 1, "runner": "pytest", "pid": 1}
GOOD = {"event": "test", "id": "all.good", "outcome": "passed"}
END = {"event": "end", "exit": 0}
"""


@pytest.fixture(params=[FULL, CONFINED], ids=["bubblewrap", "landlock"])
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Desk:
    level = SandboxLevel(request.param, "", (), "")
    found = Desk(reachable(tmp_path), level=level, limits=Limits(criterion_s=120))
    found.context = replace(found.context, is_criterion=True)
    return found


def write(desk: Desk, body: str = "pass") -> None:
    (desk.workspace / "test_sums.py").write_text(CASES.format(body=body))


def lied(desk: Desk, code: str) -> ToolResult:
    """A command that speaks to the socket itself."""
    (desk.workspace / "liar.py").write_text(CONNECTED + textwrap.dedent(code))
    return desk.shell("python3 liar.py")


def notes(result: ToolResult) -> str:
    return " ".join(map(str, result.data.get("tests_noted", [])))


def counts(result: ToolResult) -> tuple[object, ...]:
    return tuple(result.data.get(name) for name in ("source", "passed", "failed", "skipped"))


# --- runners ----------------------------------------------------------------------------------------------------------


def test_unittest_is_counted_by_its_reporter(desk: Desk) -> None:
    write(desk, "self.fail('no')")
    result = desk.shell(UNITTEST)
    assert counts(result) == ("reporter", 1, 1, 0), result.content
    assert result.data["failures"] == [
        {"name": "test_sums.Sums.test_two", "message": "AssertionError: no", "location": ""}
    ]
    kept = json.loads(desk.blobs[str(result.data["test_report"])])
    assert kept["tests"] == {"test_sums.Sums.test_one": "passed", "test_sums.Sums.test_two": "failed"}


def test_pytest_is_counted_by_its_reporter_in_the_project_s_own_environment(desk: Desk) -> None:
    give_pytest(desk.workspace)
    (desk.workspace / "test_it.py").write_text("import pytest\ndef test_a(): pass\ndef test_b(): pytest.skip('no')\n")
    result = desk.shell("python -m pytest -q -p no:cacheprovider")
    assert (result.ok, counts(result), notes(result)) == (True, ("reporter", 1, 0, 1), ""), result.content
    desk.context = replace(desk.context, is_criterion=False)
    assert counts(desk.run("run_tests", command="python -m pytest -q")) == ("reporter", 1, 0, 1)


def test_the_runner_of_node_is_counted_by_its_reporter(desk: Desk) -> None:
    (desk.workspace / "sums.test.js").write_text(
        'const { test } = require("node:test"); test("good", () => {}); test("bad", () => { throw new Error("no"); });'
    )
    result = desk.shell("node --test")
    assert counts(result) == ("reporter", 1, 1, 0), result.content
    kept = json.loads(desk.blobs[str(result.data["test_report"])])
    assert kept["tests"] == {"sums.test.js::bad": "failed", "sums.test.js::good": "passed"}


@pytest.mark.parametrize(
    "command",
    [
        f"PYTHONPATH=src {UNITTEST}",
        f'PYTHONPATH="src:$PYTHONPATH" {UNITTEST}',
        f"export PYTHONPATH='src' && {UNITTEST}",
        f"env A=1 PYTHONPATH=$PWD/src {UNITTEST}",
        f"bash -c 'PYTHONPATH=src {UNITTEST}'",
    ],
)
def test_a_command_that_sets_its_own_python_path_is_heard(desk: Desk, command: str) -> None:
    write(desk, "import lib; self.assertEqual(lib.two(), 2)")
    (desk.workspace / "src").mkdir()
    (desk.workspace / "src/lib.py").write_text("def two(): return 2\n")
    result = desk.shell(command)
    assert (counts(result), notes(result)) == (("reporter", 2, 0, 0), ""), result.content


def test_a_python_path_is_only_added_to_where_one_is_set(desk: Desk) -> None:
    said = desk.shell("PYTHONPATH= printenv PYTHONPATH; PYTHONPATH='' printenv PYTHONPATH; echo MYPYTHONPATH=src")
    assert said.content.split("[stdout]\n")[1].splitlines() == ["", "", "MYPYTHONPATH=src"]


@pytest.mark.parametrize(
    "command",
    [
        "NODE_OPTIONS=--no-warnings node --test",
        "NODE_OPTIONS= node sums.test.js",
        "NODE_OPTIONS=--no-warnings env node --test",
        "unset NODE_OPTIONS; ./run",
        "npm test",
    ],
)
def test_a_command_that_sets_options_of_node_itself_is_heard(desk: Desk, command: str) -> None:
    (desk.workspace / "sums.test.js").write_text('require("node:test").test("good", () => {});')
    (desk.workspace / "package.json").write_text('{"scripts": {"test": "NODE_OPTIONS=--no-warnings node --test"}}')
    (desk.workspace / "run").write_text('#!/usr/bin/env node\nrequire("./sums.test.js");\n')
    (desk.workspace / "run").chmod(0o755)
    result = desk.shell(command)
    assert (result.ok, counts(result), notes(result)) == (True, ("reporter", 1, 0, 0), ""), result.content


def test_a_node_that_is_not_there_is_not_found(desk: Desk) -> None:
    result = desk.shell("PATH=${PATH%%:*} node --version")
    assert (result.exit_code, "node: not found" in result.content) == (127, True), result.content


def test_other_commands_of_the_agent_have_no_channel(desk: Desk) -> None:
    desk.context = replace(desk.context, is_criterion=False)
    assert "AGENTOPS" not in desk.shell("env").content


def test_what_was_seen_before_and_is_not_there_any_more_is_named(desk: Desk) -> None:
    write(desk)
    first = desk.shell(UNITTEST)
    assert (notes(first), first.data.get("missing")) == ("", None)
    desk.context = replace(desk.context, tests_before=str(first.data["test_report"]))
    (desk.workspace / "test_sums.py").write_text(CASES.format(body="pass").replace("test_two", "no_test"))
    second = desk.shell(UNITTEST)
    assert (second.ok, second.data["missing"]) == (True, 1)
    assert notes(second) == "1 test seen before and not there any more: test_sums.Sums.test_two."


def test_ten_thousand_tests_are_reported(desk: Desk) -> None:
    many = "import unittest\nclass T(unittest.TestCase):\n    pass\n"
    many += "for at in range(10_000):\n    setattr(T, f'test_{at}', lambda self: None)\n"
    (desk.workspace / "test_many.py").write_text(many)
    result = desk.shell(UNITTEST)
    assert (counts(result), notes(result)) == (("reporter", 10_000, 0, 0), ""), result.content


def test_a_command_sees_nothing_of_agentops_but_reporters_that_it_cannot_change(desk: Desk) -> None:
    code = """
        for name in ("agentops", "loops", "gates", "django"):
            try:
                __import__(name)
                print("found", name)
            except ImportError:
                pass
        folder = os.path.dirname(PLACE)
        print("path", any(folder in path for path in sys.path))
        for act in (os.unlink, lambda path: os.rename(path, "mine"), lambda path: os.chmod(path, 0o777)):
            try:
                act(PLACE)
                print("changed")
            except OSError:
                pass
        try:
            open(folder + "/python/agentops_session.py", "a")
            print("written")
        except OSError:
            print("held")
        """
    said = lied(desk, code).content
    assert "held" in said
    assert "path False" in said
    assert not any(word in said for word in ("found", "changed", "written")), said


# --- liars ------------------------------------------------------------------------------------------------------------


def test_a_run_that_ends_itself_is_cut_short(desk: Desk) -> None:
    write(desk, "__import__('os')._exit(0)")
    result = desk.shell(UNITTEST)
    assert result.ok
    assert "test_report" not in result.data
    assert notes(result) == "The test report is not whole: unittest was cut short after 1 test."


def test_a_forged_session_does_not_outweigh_one_that_was_cut_short(desk: Desk) -> None:
    (desk.workspace / "liar.py").write_text(
        CONNECTED + "made = connect(); say(made, START, GOOD, END); print('said')\n"
    )
    write(desk, "__import__('subprocess').run(['python3', 'liar.py'], env=PLACE); __import__('os')._exit(0)")
    text = (desk.workspace / "test_sums.py").read_text()
    place = "{'AGENTOPS_TEST_REPORT': __import__('agentops_session').PLACE}"
    (desk.workspace / "test_sums.py").write_text(text.replace("env=PLACE", f"env={place}"))
    result = desk.shell(UNITTEST)
    assert "said" in result.content
    assert "test_report" not in result.data
    assert "unittest was cut short" in notes(result)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("connect().sendall(b'{')", "cut short"),
        ("connect().sendall(b'no json\\n')", "a line is not JSON"),
        ("connect().sendall(b'\\xff\\n')", "a line is not UTF-8"),
        ("say(connect(), START, GOOD, GOOD, END)", "a test ends twice in a session"),
        ("connect().sendall(b'x' * 200_000)", "a line has more than 65,536 bytes"),
        ("kept = [connect() for _ in range(65)]; time.sleep(1)", "more than 64 sessions"),
        ("made = connect(); say(made, START, GOOD); made.close()", "pytest was cut short after 1 test"),
        ("made = connect(); say(made, START, GOOD); os.fork() or time.sleep(600)", "pytest was cut short"),
    ],
)
def test_what_cannot_be_used_is_said_and_counts_nothing(desk: Desk, code: str, why: str) -> None:
    result = lied(desk, code)
    assert why in notes(result), result
    assert "test_report" not in result.data
    assert "passed" not in result.data


def test_a_flood_is_refused_and_gets_no_more_time(desk: Desk) -> None:
    code = """
        made = connect()
        say(made, START)
        line = json.dumps({"event": "collected", "tests": ["x" * 900] * 60}).encode() + b"\\n"
        try:
            while True:
                made.sendall(line)
        except OSError:
            print("shut")
        """
    result = lied(desk, code)
    assert "shut" in result.content
    assert f"more than {bounds.MOST_BYTES:,} bytes" in notes(result)
    assert result.duration_ms < 100_000


def test_a_connection_that_nobody_closes_ends_with_the_command(desk: Desk) -> None:
    """A process stays behind with a session open: it is gone with the sandbox, and what it held counts as cut short."""
    write(desk)
    (desk.workspace / "daemon.py").write_text(
        CONNECTED + "made = connect(); say(made, START)\nopen('said', 'w')\ntime.sleep(600)\n"
    )
    result = desk.shell(f"python3 daemon.py >/dev/null 2>&1 & until [ -e said ]; do sleep 0.1; done; {UNITTEST}")
    assert result.duration_ms < 100_000
    assert "pytest was cut short after 0 tests" in notes(result)
    assert "test_report" not in result.data


def test_a_runner_goes_on_where_nobody_listens(desk: Desk) -> None:
    write(desk)
    plain = desk.shell(f"env -u AGENTOPS_TEST_REPORT {UNITTEST}").content
    for place in ("/nowhere/socket", "/tests/python", "x" * 300):
        result = desk.shell(f"AGENTOPS_TEST_REPORT={place} {UNITTEST}")
        assert (result.ok, result.data.get("source"), notes(result)) == (True, "text", "")
        assert result.content.count("\n") == plain.count("\n")


def test_nothing_inside_serves_and_nothing_else_is_reached_without_namespaces(tmp_path: Path) -> None:
    desk = Desk(reachable(tmp_path), level=SandboxLevel(CONFINED, "", (), ""))
    desk.context = replace(desk.context, is_criterion=True)
    code = """
        def tried(name, act):
            try:
                act()
                print(name, "done")
            except OSError as error:
                print(name, error.errno)
        made = socket.socket(socket.AF_UNIX)
        tried("bind", lambda: made.bind("here"))
        tried("listen", lambda: made.listen())
        tried("other", lambda: made.connect(PLACE + "x"))
        tried("abstract", lambda: made.connect("\\0" + PLACE))
        tried("datagram", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        made.setblocking(False)
        tried("report", lambda: made.connect(PLACE))
        print("blocks", made.getblocking(), os.get_blocking(made.fileno()), os.get_inheritable(made.fileno()))
        """
    said = lied(desk, code).content
    for line in ("bind 1", "listen 1", "other 13", "abstract 13", "datagram 97"):
        assert line in said.splitlines()
    assert "report done" in said
    assert "blocks False False False" in said

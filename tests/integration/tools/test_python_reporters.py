"""The reporters of pytest and unittest in programs as people have them: what they report, and that nothing else changes
(SPEC L1).
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import pytest

from loops.tools.test_sessions import reporters
from loops.tools.test_sessions.channel import listening
from loops.tools.test_sessions.session import Outcome, Session

pytestmark = pytest.mark.spec("L1")
PYTEST = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly")


def ran(folder: Path, *argv: str, **more: str) -> tuple[tuple[Session, ...], int, str]:
    async def go() -> tuple[tuple[Session, ...], int, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PYTHON", "DJANGO"))
        }
        async with listening() as channel:
            told = reporters.variables(channel.folder, kept["PATH"])
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=folder,
                env={**kept, **told, "PYTHONDONTWRITEBYTECODE": "1", **more},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            said, _ = await process.communicate()
        assert not channel.unusable, channel.unusable
        assert process.returncode is not None
        return channel.sessions(), process.returncode, said.decode()

    return asyncio.run(go())


def outcomes(session: Session) -> dict[str, str]:
    return {name.rpartition("::")[2].rpartition(".")[2]: outcome.value for name, outcome in session.outcomes.items()}


KINDS = """
import unittest, pytest

def test_good(): pass
def test_bad(): assert 1 == 2, "no way"
@pytest.mark.xfail
def test_expected(): assert 0
@pytest.mark.xfail
def test_surprise(): pass
@pytest.mark.xfail(strict=True)
def test_strict(): pass
@pytest.mark.skip(reason="later")
def test_skipped(): pass
@pytest.fixture
def broken(): raise ValueError("set-up")
@pytest.fixture
def left(): yield; raise ValueError("tear-down")
def test_set_up(broken): pass
def test_tear_down(left): pass
@pytest.mark.parametrize("one", ["x", "y"])
def test_each(one): pass
class T(unittest.TestCase):
    def test_sub(self):
        for at in range(3):
            with self.subTest(at=at):
                self.assertNotEqual(at, 1)
"""
EXPECTED = {
    "test_good": "passed",
    "test_bad": "failed",
    "test_expected": "xfailed",
    "test_surprise": "xpassed",
    "test_strict": "failed",
    "test_skipped": "skipped",
    "test_set_up": "failed",
    "test_tear_down": "failed",
    "test_each[x]": "passed",
    "test_each[y]": "passed",
    "test_sub": "failed",
}


@pytest.mark.parametrize("more", [(), ("-n", "2")], ids=["alone", "xdist"])
def test_every_outcome_of_pytest(tmp_path: Path, more: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(KINDS)
    (session,), code, _ = ran(tmp_path, *PYTEST, *more)
    assert (session.runner, session.exit, code) == ("pytest", 1, 1)
    assert outcomes(session) == EXPECTED
    assert session.collected == session.outcomes.keys()
    assert session.messages["test_it.py::test_bad"].startswith("AssertionError: no way")


def test_what_pytest_leaves_out_and_cannot_collect(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    (session,), _, _ = ran(tmp_path, *PYTEST, "-k", "test_a")
    assert (session.deselected, session.exit) == ({"test_it.py::test_b"}, 0)
    (tmp_path / "test_broken.py").write_text("import nothing_of_this_name\n")
    (session,), code, _ = ran(tmp_path, *PYTEST)
    assert (session.outcomes["test_broken.py"], session.exit, code) == (Outcome.FAILED, 2, 2)


def test_pytest_within_pytest_is_not_reported_and_programs_it_starts_see_nothing(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text("def test_inner(): assert 0\n")
    (tmp_path / "test_it.py").write_text(
        "import os, subprocess, sys, pytest\n"
        "def test_in_process(): assert pytest.main(['-q', 'inner.py']) == 1\n"
        "def test_beside(): assert subprocess.run([sys.executable, '-m', 'pytest', 'inner.py']).returncode == 1\n"
        "def test_seen(): assert not {'AGENTOPS_TEST_REPORT', 'PYTHONPATH'} & set(os.environ)\n"
    )
    (session,), code, said = ran(tmp_path, *PYTEST)
    assert (set(outcomes(session).values()), len(session.outcomes), code) == ({"passed"}, 3, 0), said


def test_a_run_prints_what_it_prints_without_a_reporter(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text("import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n")
    for argv in ((*PYTEST, "-p", "no:terminal"), (sys.executable, "-W", "error", "-m", "unittest", "-v")):
        _, code, said = ran(tmp_path, *argv)
        _, code_alone, said_alone = ran(tmp_path, *argv, AGENTOPS_TEST_REPORT="", PYTHONPATH="")
        assert (code, said.splitlines()[:1]) == (code_alone, said_alone.splitlines()[:1])
        assert len(said) == pytest.approx(len(said_alone), abs=4), "the time it took"


UNITS = """
import unittest

class T(unittest.TestCase):
    def test_good(self): pass
    def test_bad(self): self.fail("no")
    def test_error(self): raise ValueError("odd")
    @unittest.skip("later")
    def test_skipped(self): pass
    @unittest.expectedFailure
    def test_expected(self): self.fail()
    @unittest.expectedFailure
    def test_surprise(self): pass
    def test_sub(self):
        for at in range(3):
            with self.subTest(at=at):
                self.assertNotEqual(at, 1)
    def test_inner(self):
        inner = type("Inner", (unittest.TestCase,), {"test_never": lambda self: self.fail()})
        unittest.TextTestRunner(stream=open("/dev/null", "w")).run(inner("test_never"))

class Broken(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise ValueError("class")
    def test_never(self): pass

if __name__ == "__main__":
    unittest.main()
"""


@pytest.mark.parametrize("argv", [("-m", "unittest"), ("test_it.py",), ("-m", "unittest", "discover")])
def test_every_outcome_of_unittest(tmp_path: Path, argv: tuple[str, ...]) -> None:
    (tmp_path / "test_it.py").write_text(UNITS)
    (session,), code, said = ran(tmp_path, sys.executable, *argv)
    found = outcomes(session)
    broken = [name for name in session.outcomes if name.startswith("setUpClass")]
    assert len(broken) == 1, said
    assert session.outcomes[broken[0]] is Outcome.FAILED
    assert {name: found[name] for name in found if name.startswith("test_")} == {
        "test_good": "passed",
        "test_bad": "failed",
        "test_error": "failed",
        "test_skipped": "skipped",
        "test_expected": "xfailed",
        "test_surprise": "failed",
        "test_sub": "failed",
        "test_inner": "passed",
    }
    assert (session.runner, session.exit, code) == ("unittest", 1, 1)
    assert session.collected is not None
    assert {name.rpartition(".")[2] for name in session.collected - session.outcomes.keys()} == {"test_never"}


@pytest.mark.parametrize(
    ("more", "act", "outcome", "code"),
    [((), "fail", "failed", 1), (("--parallel", "2"), "skipTest", "skipped", 0)],
    ids=["alone", "parallel"],
)
def test_django_runs_its_tests_by_unittest(
    tmp_path: Path, more: tuple[str, ...], act: str, outcome: str, code: int
) -> None:
    (tmp_path / "manage.py").write_text(
        "import sys\nfrom django.conf import settings\n"
        "settings.configure(INSTALLED_APPS=[], DATABASES={}, SECRET_KEY='x')\n"
        "from django.core.management import execute_from_command_line\nexecute_from_command_line(sys.argv)\n"
    )
    for name in ("a", "b"):
        (tmp_path / f"test_{name}.py").write_text(
            "from django.test import SimpleTestCase\n"
            f"class {name.upper()}(SimpleTestCase):\n"
            f"    def test_good(self): pass\n    def test_other(self): self.{act}('no')\n"
        )
    (session,), ended, said = ran(tmp_path, sys.executable, "manage.py", "test", *more)
    assert (session.runner, session.exit, ended) == ("unittest", code, code), said
    assert sorted(session.outcomes.values()) == sorted(["passed", "passed", outcome, outcome]), said


def test_a_program_that_runs_no_tests_reports_none_and_keeps_its_own_module(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("WHOSE = 'own'\n")
    (tmp_path / "it.py").write_text(
        "import unittest, unittest.mock, sitecustomize, sys\n"
        "print(sitecustomize.WHOSE, [path for path in sys.path if path.endswith('/python')])\n"
    )
    (tmp_path / "run.sh").write_text(f'PYTHONPATH="$PYTHONPATH:{tmp_path}/own" exec "{sys.executable}" it.py\n')
    found, code, said = ran(tmp_path, "/bin/sh", "run.sh")
    assert (found, code, said) == ((), 0, "own []\n")


@pytest.mark.parametrize("option", ["-I", "-E", "-S"])
def test_a_python_that_takes_nothing_from_its_environment_reports_nothing(tmp_path: Path, option: str) -> None:
    (tmp_path / "test_it.py").write_text("import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n")
    found, code, said = ran(tmp_path, sys.executable, option, "-m", "unittest", "discover")
    assert (found, code) == ((), 0), said


def test_two_tests_of_one_name_and_a_name_that_is_too_long(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"
        "def load_tests(loader, tests, pattern): return unittest.TestSuite([T('test_a'), T('test_a')])\n"
        "setattr(T, 'test_' + 'x' * 5000, lambda self: None)\n"
    )
    (session,), code, _ = ran(tmp_path, sys.executable, "-m", "unittest", "test_it")
    assert (set(session.outcomes), code) == ({"test_it.T.test_a", "test_it.T.test_a #2"}, 0)
    (tmp_path / "test_it.py").write_text(
        "import pytest\n@pytest.mark.parametrize('a', ['x' * 3000, 'x' * 3001])\ndef test_a(a): pass\n"
    )
    (session,), code, _ = ran(tmp_path, *PYTEST)
    assert (len(session.outcomes), code) == (2, 0)
    assert max(map(len, session.outcomes)) < 1_100

"""Which commands are test runs, and what real runners print at their end (SPEC G1)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loops.tools import runners
from loops.tools.reports import text_coverage, text_summary
from loops.tools.runners import documents, is_test_run

pytestmark = pytest.mark.spec("G1")
RECORDED = Path(__file__).parents[2] / "data" / "runners"

RUNS = [
    "pytest -q",
    "cd a && pytest -q 2>&1 | tail -5",
    "python -m pytest",
    "python3.11 -W error -m pytest -x",
    "FOO=1 BAR=2 pytest",
    "env A=b pytest",
    "timeout -k 5 60s pytest",
    "nice -n 19 .venv/bin/pytest",
    "uv run pytest",
    "poetry run python -m unittest discover",
    "coverage run -m pytest",
    "python -m coverage run -m unittest",
    "python manage.py test",
    "npx --yes vitest run",
    "npm test",
    "npm run test:unit",
    "npm --prefix web test",
    "npm exec jest",
    "yarn jest",
    "./node_modules/.bin/mocha a",
    "node --test --test-reporter=tap",
    "go test ./...",
    "cargo test --offline",
    "bundle exec rspec",
    "vendor/bin/phpunit --log-junit out.xml",
    "mvn -q test",
    "make -C sub test",
    "bash -lc 'cd x; pytest'",
    "cat > t.py <<'EOF'\nassert 1\nEOF\npytest",
    "cat > t.py <<EOF\ndef test_a():\n    alias = f()\nEOF\npytest",
    "python -c 'f()'; pytest",
    "echo a \\\n&& pytest",
    "(cd a; pytest)",
    "if ! pytest; then echo bad; fi",
    "echo $(pytest -q)",
    ["pytest", "-q"],
    ["bash", "-c", "pytest"],
]
RUNS_NOTHING = [
    "",
    "echo 14 passed in 0.1s",
    "echo pytest",
    "echo ';' pytest",
    "echo '; pytest'",
    'printf "2 passed in 1s" > pytest',
    "printf x | tee pytest",
    "> pytest echo 1",
    "timeout 5 echo pytest",
    "cat pytest.log",
    "grep -r pytest .",
    "cat <<EOF\npytest\nEOF",
    "cat <<'A' <<B\npytest\nA\npytest\nB\n",
    "cat <<EOF\npytest",
    "# pytest",
    "ls # ; pytest",
    "pytest() { echo 14 passed in 1s; }; pytest",
    "cd a; pytest ( ) (echo 14 passed in 1s)\npytest",
    "alias pytest=echo; pytest",
    "function pytest { echo 1 passed in 1s; }\npytest",
    "pip install pytest",
    "python -m pip install pytest",
    "python pytest.py",
    "python run.py -m pytest",
    "python -c 'print(1)' -m pytest",
    "bash pytest.sh",
    "npm run build",
    "npm install jest",
    "node app.js --test",
    "go build ./...",
    "cargo build",
    "git commit -m pytest",
    "'unclosed; pytest",
    [],
    ["echo", ";", "pytest"],
]


@pytest.mark.parametrize("command", RUNS, ids=str)
def test_a_command_that_starts_a_runner_is_a_test_run(command: str | list[str]) -> None:
    assert is_test_run(command)


@pytest.mark.parametrize("command", RUNS_NOTHING, ids=str)
def test_a_command_that_only_names_or_prints_one_is_none(command: str | list[str]) -> None:
    assert not is_test_run(command)


HOSTILE = ["'", '"', "<<a\n", "<<a ", "(", "\\", "a=b ", "bash -c ", '"\\', "npm run ", "1>", "# \n", "pytest -m '"]


@pytest.mark.parametrize("part", HOSTILE)
def test_a_long_hostile_line_is_read_no_further_than_its_bound(part: str) -> None:
    """Without the bounds of length and words the longest of these take minutes."""
    line = part * (10 * runners.LONGEST // len(part))
    is_test_run(line)
    is_test_run(line.split())
    assert len(documents(line)) <= runners.MOST_DOCUMENTS


@given(st.text(alphabet="pytest \n'\"\\;&|()<>#=-c`$", max_size=200))
def test_any_line_can_be_read(line: str) -> None:
    is_test_run(line)
    documents(line)


def test_documents_that_a_command_names_are_known() -> None:
    assert documents("pytest --junitxml=build/report.xml; phpunit --log-junit out.xml") == (
        "build/report.xml",
        "out.xml",
    )
    assert documents("pytest -q > out.txt") == ()
    assert documents(["pytest", "--junitxml=a b.xml"]) == ("a b.xml",)


PRINTED: dict[str, tuple[int, int, int, int]] = {
    "pytest": (2, 2, 1, 1),
    "unittest": (2, 2, 1, 1),
    "node-tap": (2, 1, 2, 0),
    "node-spec": (2, 1, 2, 0),
    "jest": (2, 1, 2, 0),
    "vitest": (2, 1, 2, 0),
    "mocha": (2, 1, 1, 0),
    "go": (1, 1, 0, 0),
    "go-verbose": (2, 1, 1, 0),
    "cargo": (2, 1, 1, 0),
    "rspec": (2, 1, 1, 0),
    "phpunit": (2, 2, 1, 1),
    "phpunit-good": (2, 0, 0, 0),
}


@pytest.mark.parametrize("name", PRINTED)
def test_real_output_is_counted(name: str) -> None:
    """Passed, failed, skipped and errors; of go without -v its packages."""
    output = (RECORDED / f"{name}.txt").read_text()
    for shown in (output, output.replace("\n", "\r\n"), coloured(output)):
        report = text_summary(shown)
        assert report is not None
        assert (report.passed, report.failed, report.skipped, report.errors) == PRINTED[name]


def coloured(output: str) -> str:
    return "\n".join(f"\x1b[31m{line}\x1b[0m" if line else line for line in output.split("\n"))


def test_every_recording_is_read_and_coverage_with_it() -> None:
    assert {path.stem for path in RECORDED.glob("*.txt")} == set(PRINTED)
    assert text_coverage((RECORDED / "jest.txt").read_text()) == 0.0

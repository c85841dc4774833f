"""What the suite forgives: a test that passes alone, twice, and is no promise."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.conf import settings

OPTIONS = "--import-mode=importlib -p xdist -p pytest_randomly"  # no others: loading them takes two seconds a process
BESIDE, BY_ITSELF = ("-n", "2"), ("-n", "0")
GOOD = "def test_good():\n    pass\n"
BAD = "def test_bad():\n    assert 1 == 2, 'never'\n"
# Counts its own runs, and fails in those named.
COUNTED = """
from pathlib import Path

def test_once():
    runs = Path(__file__).with_suffix(".runs")
    runs.write_text((runs.read_text() if runs.exists() else "") + "x")
    assert len(runs.read_text()) not in {fails}, "only beside others"
"""
ONCE = COUNTED.format(fails={1})
AGAIN = COUNTED.format(fails={1, 3})
DIES = "import os\n\ndef test_dies():\n    os._exit(3)\n"
PROMISE = ONCE.replace("def test", 'import pytest\n\n@pytest.mark.spec("J3")\ndef test')
GROUPED = ONCE.replace("def test", 'import pytest\n\n@pytest.mark.xdist_group("one-group")\ndef test')

# Builds a stack of its own for four tests, and counts them.
SHARED = """
from pathlib import Path

import pytest

@pytest.fixture(scope="module")
def stack():
    with Path(__file__).with_suffix(".built").open("a") as built:
        built.write("x")

@pytest.mark.parametrize("number", range(4))
def test_one(stack, number):
    pass
"""


def suite(folder: Path, *flags: str, **files: str) -> tuple[int, str]:
    for name, text in files.items():
        path = folder / "tests" / name.replace("__", "/test_")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_text(text)
    (folder / "pytest.ini").write_text(f"[pytest]\nmarkers = spec(*rows): rows\naddopts = {OPTIONS}\n")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "DJANGO_"))}
    ran = subprocess.run(
        [sys.executable, "-m", "tests.suite", *flags],
        cwd=folder,
        env={**environ, "PYTHONPATH": str(settings.BASE_DIR), "SEED": "7", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("text", [ONCE, GROUPED], ids=["plain", "in a group of xdist"])
def test_what_fails_only_beside_the_others_is_named_and_forgiven(tmp_path, text):
    code, said = suite(tmp_path, *BESIDE, web__good=GOOD, web__once=text)
    assert code == 0, said
    assert "FLAKY tests/web/test_once.py::test_once: AssertionError: only beside others\n" in said
    assert "SEED=7" in said
    assert (tmp_path / "tests/web/test_once.runs").read_text() == "xxx", "once, and twice more"


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"web__bad": BAD}, "assert 1 == 2"),
        ({"web__again": AGAIN}, "try 2 of 2"),
        ({"unit__once": ONCE}, "tests of unit have to pass at once"),
        ({"security__once": ONCE}, "tests of security have to pass at once"),
        ({"web__once": PROMISE}, "it proves a promise"),
        ({"web__dies": DIES}, "the process that ran it died"),
        ({"web__broken": "import nothing_of_the_kind"}, "ModuleNotFoundError"),
        ({f"web__once{number}": ONCE for number in range(4)}, "4 failed"),
    ],
    ids=["for good", "again", "unit", "security", "promise", "a dead process", "collection", "a fourth"],
)
def test_everything_else_stays_red(tmp_path, files, why):
    code, said = suite(tmp_path, *(BESIDE if "web__dies" in files else BY_ITSELF), web__good=GOOD, **files)
    assert code != 0
    assert why in said
    assert "FLAKY" not in said


def test_a_green_suite_is_run_once_in_its_order(tmp_path):
    code, said = suite(tmp_path, *BY_ITSELF, "-v", web__good=GOOD)
    assert code == 0
    assert "--randomly-seed=7" in said
    assert "alone" not in said


def test_what_is_built_for_a_module_is_built_once(tmp_path):
    code, said = suite(tmp_path, *BESIDE, web__shared=SHARED, web__good=GOOD)
    assert code == 0, said
    assert (tmp_path / "tests/web/test_shared.built").read_text() == "x"

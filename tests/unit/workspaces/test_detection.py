"""How the tests of a folder are run, as the folder says it: a suggestion; nothing of the folder is run (SPEC X7)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loops.workspaces import detection
from loops.workspaces.detection import Found, look

UNITTEST = "import unittest\n"
PACKAGE = '{"scripts": {"test": "%s"}}'
FOLDERS = [
    ({"pytest.ini": ""}, Found("python3 -m pytest -q", "pytest.ini")),
    ({"pyproject.toml": "[tool.pytest.ini_options]\n"}, Found("python3 -m pytest -q", "pyproject.toml")),
    ({"setup.cfg": "[tool:pytest]\n"}, Found("python3 -m pytest -q", "setup.cfg")),
    ({"tox.ini": "[pytest]\n"}, Found("python3 -m pytest -q", "tox.ini")),
    ({"tests/conftest.py": ""}, Found("python3 -m pytest -q", "tests/conftest.py")),
    ({"tests/test_a.py": "import pytest\n"}, Found("python3 -m pytest -q", "tests/test_a.py")),
    ({"a_test.py": "from pytest import mark\n"}, Found("python3 -m pytest -q", "a_test.py")),
    ({"test_a.py": UNITTEST}, Found("python3 -m unittest", "test_a.py")),
    ({"tests/__init__.py": "", "tests/test_a.py": UNITTEST}, Found("python3 -m unittest", "tests/test_a.py")),
    ({"tests/test_a.py": UNITTEST}, Found("python3 -m unittest discover -s tests", "tests/test_a.py")),
    ({"pyproject.toml": "[project]\n", "a.py": ""}, Found()),
    ({"package.json": PACKAGE % "vitest run"}, Found("npm test", "package.json")),
    ({"package.json": PACKAGE % "echo 'Error: no test specified' && exit 1"}, Found()),
    ({"package.json": "[" * 5000}, Found()),
    ({"package.json": '{"scripts": ["test"]}'}, Found()),
    ({"go.mod": "module x\n"}, Found("go test ./...", "go.mod")),
    ({"Cargo.toml": "[package]\n"}, Found("cargo test", "Cargo.toml")),
    ({"Makefile": "all: build\ntest: build\n\tx\n"}, Found("make test", "Makefile")),
    ({"Makefile": "test := 1\nlatest:\n"}, Found()),
    ({"Makefile": "test:\n", "go.mod": ""}, Found("go test ./...", "go.mod")),
    ({}, Found()),
]


def fill(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


@pytest.mark.spec("T3")
@pytest.mark.parametrize(("files", "found"), FOLDERS)
def test_what_a_folder_suggests(tmp_path: Path, files: dict[str, str], found: Found) -> None:
    suggested = look(fill(tmp_path, files))
    assert (suggested.tests, suggested.why) == (found.tests, found.why)


@pytest.mark.spec("X7")
@pytest.mark.parametrize("name", ["pytest.ini", "package.json", "go.mod", "Makefile"])
def test_no_link_is_followed(tmp_path: Path, name: str) -> None:
    outside = fill(tmp_path / "..", {f"{tmp_path.name}-outside": "test:\n"}) / f"{tmp_path.name}-outside"
    (tmp_path / name).symlink_to(outside)
    assert look(tmp_path) == Found()


@pytest.mark.spec("X7")
def test_no_folder_behind_a_link_is_read(tmp_path: Path) -> None:
    other, folder = tmp_path / "other", tmp_path / "mine"
    other.mkdir()
    folder.mkdir()
    fill(other, {"conftest.py": "", "test_a.py": "import pytest\n"})
    (folder / "tests").symlink_to(other)
    assert look(folder) == Found()


@pytest.mark.spec("X7")
def test_a_pipe_holds_nobody_up_and_a_large_file_is_read_to_its_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detection, "LONGEST_READ", 100)
    os.mkfifo(tmp_path / "package.json")
    (tmp_path / "Makefile").write_text("#" * 200 + "\ntest:\n")
    assert look(tmp_path) == Found()


@pytest.mark.spec("X7")
def test_what_stands_in_a_file_is_never_the_command(tmp_path: Path) -> None:
    fill(tmp_path, {"package.json": PACKAGE % "rm -rf ~"})
    assert look(tmp_path).tests == "npm test"


def test_a_folder_that_is_not_there_suggests_nothing(tmp_path: Path) -> None:
    assert look(tmp_path / "none") == Found()


PYPI = ("pypi.org", "files.pythonhosted.org")
NPM = ("registry.npmjs.org",)
INSTALL = "python3 -m venv .venv && .venv/bin/pip install"
NEWEST = INSTALL.replace("venv .venv", "venv --upgrade-deps .venv")
"""With a pip that knows groups."""


@pytest.mark.spec("T3", "J4")
@pytest.mark.parametrize(
    ("files", "setup", "hosts"),
    [
        ({"test_it.py": "import unittest"}, "", ()),
        ({"test_it.py": "import pytest"}, f"{INSTALL} pytest", PYPI),
        ({"pyproject.toml": "[project]\nname = 'x'"}, f"{INSTALL} -e .", PYPI),
        ({"pyproject.toml": "[tool.ruff]\n"}, "", ()),
        (
            {"pyproject.toml": "[project]\nname='x'\n[project.optional-dependencies]\ntests = ['a']\n[tool.pytest]\n"},
            f"{INSTALL} -e '.[tests]' pytest",
            PYPI,
        ),
        (
            {"pyproject.toml": "[project]\nname='x'\n[dependency-groups]\ndev = []\ntest = []\n[tool.pytest]\n"},
            f"{NEWEST} -e . --group test pytest",
            PYPI,
        ),
        ({"pyproject.toml": "[dependency-groups]\ndev = ['a']\n"}, f"{NEWEST} --group dev", PYPI),
        ({"pyproject.toml": "[dependency-groups]\n'; rm' = ['a']\n"}, "", ()),
        ({"pyproject.toml": "dependency-groups = ['dev']\n"}, "", ()),
        ({"setup.py": "", "requirements-dev.txt": ""}, f"{INSTALL} -e . -r requirements-dev.txt", PYPI),
        ({"test-requirements.txt": "", "docs-requirements.txt": ""}, f"{INSTALL} -r test-requirements.txt", PYPI),
        ({"requirements-mypy.txt": "", "requirements_docs.txt": "", "requirements-lint.txt": ""}, "", ()),
        ({"requirements.txt": "six"}, f"{INSTALL} -r requirements.txt", PYPI),
        ({"requirements; rm -rf x.txt": ""}, "", ()),
        ({"requirements.txt": "six", ".venv/pyvenv.cfg": ""}, "", ()),
        ({"package.json": "{}"}, "", ()),
        ({"package.json": '{"devDependencies": {"tape": "5"}}'}, "npm install --no-package-lock", NPM),
        ({"package.json": "{}", "package-lock.json": "{}"}, "npm ci", NPM),
        ({"package.json": "{}", "package-lock.json": "{}", "node_modules/x": ""}, "", ()),
        (
            {"requirements.txt": "", "package.json": "{}", "package-lock.json": "{}"},
            f"{INSTALL} -r requirements.txt && npm ci",
            (*PYPI, *NPM),
        ),
        ({"pyproject.toml": "[[[[", "package.json": "["}, "", ()),
        ({"pyproject.toml": "x = " + "[" * 100_000}, "", ()),
    ],
    ids=str,
)
def test_the_packages_that_a_folder_names_are_a_set_up(
    tmp_path: Path, files: dict[str, str], setup: str, hosts: tuple[str, ...]
) -> None:
    found = look(fill(tmp_path, files))
    assert (found.setup, found.hosts) == (setup, hosts)


KINDS = [
    ({"pyproject.toml": "", "package.json": "", "x.py": ""}, ("pyproject.toml (Python)", "package.json (Node.js)")),
    ({"go.mod": "", ".git/HEAD": ""}, ("go.mod (Go)", "a git repository (.git)")),
    ({"notes.txt": "", "sub/go.mod": ""}, ()),
]


@pytest.mark.spec("X2")
@pytest.mark.parametrize(("files", "kinds"), KINDS)
def test_what_kind_of_project_a_folder_is(tmp_path: Path, files: dict[str, str], kinds: tuple[str, ...]) -> None:
    assert detection.is_empty(tmp_path)
    assert detection.kinds(fill(tmp_path, files)) == kinds
    assert not detection.is_empty(tmp_path)


@pytest.mark.spec("X2", "I7")
def test_links_and_pipes_say_nothing_of_a_project(tmp_path: Path) -> None:
    """Nor does a folder that is not there, which is not called empty either."""
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    fill(outside, {"go.mod": ""})
    (inside / "go.mod").symlink_to(outside / "go.mod")
    (inside / ".git").symlink_to(outside)
    os.mkfifo(inside / "pyproject.toml")
    assert detection.kinds(inside) == ()
    assert detection.kinds(tmp_path / "gone") == ()
    assert not detection.is_empty(tmp_path / "gone")

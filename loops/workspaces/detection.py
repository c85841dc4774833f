"""What a folder says of itself: the commands that set it up and that run its tests, found by reading a few files of it.

Whoever wrote the folder may be hostile. Nothing of it is run here, no link is followed and only a little is read; what
is found is one of the commands that stand below, a suggestion for a person.
"""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from loops.engine.encoding import strict_json

LONGEST_READ = 256 * 1024
MOST_ENTRIES = 2_000
MOST_TESTS_READ = 50
PLACES = ("", "tests", "test")
"""Where tests of Python lie, from the top of the folder."""
PYTEST_SETTINGS = {
    "pytest.ini": re.compile(""),
    "pyproject.toml": re.compile(r"^\[tool\.pytest\b", re.MULTILINE),
    "setup.cfg": re.compile(r"^\[tool:pytest\]", re.MULTILINE),
    "tox.ini": re.compile(r"^\[pytest\]", re.MULTILINE),
    "conftest.py": re.compile(""),
    "tests/conftest.py": re.compile(""),
}
PYTHON_TEST = re.compile(r"test_?\w*\.py|\w+_test\.py")
IMPORTS_PYTEST = re.compile(r"^\s*(?:import|from)\s+pytest\b", re.MULTILINE)
PYTEST = "python3 -m pytest -q"
NPM_TEST_OF_NOBODY = "no test specified"
"""In the script that `npm init` writes."""
MAKE_TARGET = re.compile(r"^test[ \t]*:(?!=)", re.MULTILINE)


REQUIREMENTS = re.compile(r"(?:(?:dev|tests?|testing)[-_])?requirements(?!.*(?:doc|lint|mypy|build))[\w.-]{0,40}\.txt")
"""Not those of tools that no test needs."""
TEST_EXTRAS = ("test", "tests", "testing", "dev")
"""Names under which projects list what their tests need: as an extra, or as a group of dependencies (PEP 735)."""
PYPI = ("pypi.org", "files.pythonhosted.org")
NPM = ("registry.npmjs.org",)


@dataclass(frozen=True, slots=True)
class Found:
    """``tests`` is the command, "" where nothing suggests one; ``why`` names what does, for people. ``setup`` installs
    the packages that the folder names, from ``hosts``; "" where it names none, or has them."""

    tests: str = ""
    why: str = ""
    setup: str = ""
    hosts: tuple[str, ...] = ()


KINDS = {
    **dict.fromkeys(("pyproject.toml", "setup.py", "requirements.txt"), "Python"),
    "package.json": "Node.js",
    "go.mod": "Go",
    "Cargo.toml": "Rust",
    **dict.fromkeys(("pom.xml", "build.gradle", "build.gradle.kts"), "Java"),
    "Gemfile": "Ruby",
    "composer.json": "PHP",
    "CMakeLists.txt": "C or C++",
    **dict.fromkeys(("GNUmakefile", "makefile", "Makefile"), "make"),
}
"""What a file of this name at the top of a folder says of it."""


def kinds(folder: str | Path) -> tuple[str, ...]:
    """Which of ``KINDS`` lie there, each with its kind, and whether it is a git repository. Never raises."""
    top = Path(folder)
    names = set(_names(top))
    found = tuple(f"{name} ({kind})" for name, kind in KINDS.items() if name in names)
    return (*found, *(["a git repository (.git)"] if _is_folder(top / ".git") else []))


def is_empty(folder: str | Path) -> bool:
    """Is nothing there? A folder that cannot be read is not called so. Never raises."""
    try:
        with os.scandir(folder) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _is_folder(path: Path) -> bool:
    try:
        return stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def look(folder: str | Path) -> Found:
    """What the folder suggests; nothing where none is named. Never raises."""
    top = Path(folder)
    with suppress(OSError):
        if not top.is_absolute():
            return Found()
        found = next((found for way in WAYS if (found := way(top)).tests), Found())
        ways = [_python_packages(top, found.tests), _node_packages(top)]
        commands = [command for command, _ in ways if command]
        hosts = tuple(host for command, needed in ways if command for host in needed)
        return replace(found, setup=" && ".join(commands), hosts=hosts)
    return Found()


def _python_packages(top: Path, tests: str) -> tuple[str, tuple[str, ...]]:
    """(the command that installs them into an environment of their own, the hosts that it needs)."""
    if (top / ".venv").exists():
        return "", ()
    words = [f"-r {name}" for name in _names(top) if REQUIREMENTS.fullmatch(name)]
    pyproject = _toml(_text(top, "pyproject.toml") or "")
    project = pyproject.get("project")
    extra = _for_tests(project.get("optional-dependencies") if isinstance(project, dict) else None)
    group = "" if extra else _for_tests(pyproject.get("dependency-groups"))
    if "project" in pyproject or "build-system" in pyproject or _text(top, "setup.py") is not None:
        words.insert(0, f"-e '.[{extra}]'" if extra else "-e .")
    words += [f"--group {group}"] if group else []
    words += ["pytest"] if tests == PYTEST else []
    newest = " --upgrade-deps" if group else ""  # pip knows groups since 25.1, and Python brings older ones along
    return (f"python3 -m venv{newest} .venv && .venv/bin/pip install {' '.join(words)}", PYPI) if words else ("", ())


def _for_tests(lists: object) -> str:
    return next((name for name in TEST_EXTRAS if isinstance(lists, dict) and name in lists), "")


def _node_packages(top: Path) -> tuple[str, tuple[str, ...]]:
    if (top / "node_modules").exists() or (text := _text(top, "package.json")) is None:
        return "", ()
    if _text(top, "package-lock.json") is not None:
        return "npm ci", NPM
    try:
        package = strict_json.read(text)
    except strict_json.NotJson:
        return "", ()
    names = ("dependencies", "devDependencies")
    needs = isinstance(package, dict) and any(package.get(name) for name in names)
    return ("npm install --no-package-lock", NPM) if needs else ("", ())


def _toml(text: str) -> dict[str, object]:
    with suppress(tomllib.TOMLDecodeError, RecursionError):
        return tomllib.loads(text)
    return {}


def _python(top: Path) -> Found:
    for name, says in PYTEST_SETTINGS.items():
        if (text := _text(top, name)) is not None and says.search(text):
            return Found(PYTEST, name)
    tests = [(place, name) for place in PLACES for name in _names(top / place) if PYTHON_TEST.fullmatch(name)]
    for place, name in tests[:MOST_TESTS_READ]:
        if IMPORTS_PYTEST.search(_text(top / place, name) or ""):
            return Found(PYTEST, str(Path(place, name)))
    if not tests:
        return Found()
    place, name = tests[0]
    below = bool(place) and "__init__.py" not in _names(top / place)
    command = f"python3 -m unittest discover -s {place}" if below else "python3 -m unittest"
    return Found(command, str(Path(place, name)))


def _node(top: Path) -> Found:
    try:
        package = strict_json.read(_text(top, "package.json") or "{}")
    except strict_json.NotJson:
        return Found()
    scripts = package.get("scripts") if isinstance(package, dict) else None
    script = scripts.get("test") if isinstance(scripts, dict) else None
    if not isinstance(script, str) or not script.strip() or NPM_TEST_OF_NOBODY in script:
        return Found()
    return Found("npm test", "package.json")


def _by_file(name: str, command: str) -> Callable[[Path], Found]:
    return lambda top: Found(command, name) if _text(top, name) is not None else Found()


def _make(top: Path) -> Found:
    names = ("GNUmakefile", "makefile", "Makefile")
    name = next((name for name in names if MAKE_TARGET.search(_text(top, name) or "")), "")
    return Found("make test", name) if name else Found()


WAYS = (_python, _node, _by_file("go.mod", "go test ./..."), _by_file("Cargo.toml", "cargo test"), _make)
"""Asked one after the other; the first answer is taken."""


def _text(top: Path, name: str) -> str | None:
    """The beginning of a file; None where there is none that is an ordinary file, reached without a link below
    ``top``."""
    if any((top / parent).is_symlink() for parent in Path(name).parents):
        return None
    try:
        file = os.open(top / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    with os.fdopen(file, "rb") as reader:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            return None
        return reader.read(LONGEST_READ).decode("utf-8", "replace")


def _names(folder: Path) -> list[str]:
    """Ordinary files in a folder, sorted, of as many entries as are looked at."""
    return sorted(_entries(folder))


def _entries(folder: Path) -> Iterator[str]:
    if folder.is_symlink():
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for _, entry in zip(range(MOST_ENTRIES), entries, strict=False):
            if entry.is_file(follow_symlinks=False):
                yield entry.name

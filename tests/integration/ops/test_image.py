"""The image is built from what a walk needs: read off the Dockerfile, since no engine builds it here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from django.core.management import get_commands

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.spec("X1")


def stages() -> list[list[tuple[str, str]]]:
    """(instruction, words) of each stage, continued lines as one."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: list[list[tuple[str, str]]] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        name, words = line.split(maxsplit=1)
        if name == "FROM":
            found.append([])
        found[-1].append((name, " ".join(words.split())))
    return found


def last(name: str) -> str:
    return next(words for found, words in reversed(stages()[-1]) if found == name)


def prepared() -> str:
    return next(words for found, words in stages()[-1] if found == "RUN")


def test_it_has_a_sandbox_and_git_and_the_runtime_packages_alone() -> None:
    installed = prepared().split("apt-get install")[1].split("&&")[0].split()
    assert {"bubblewrap", "git"} <= set(installed)
    built = " ".join(words for _, words in stages()[0])
    assert "--require-hashes requirements.lock" in built
    assert "requirements-dev" not in str(stages())
    kept_out = (ROOT / ".dockerignore").read_text().split()
    assert {".venv", ".venv-bench", ".git", ".agentops", ".env*", "*.env"} <= set(kept_out), (
        "no environment of a developer, no state of ours and no passwords of a server"
    )


def test_its_python_is_one_that_commands_find() -> None:
    """Commands see /usr/local/bin; the packages are in an environment beside it, which they do not see."""
    assert last("FROM").startswith("python:3.")
    assert "/venv" in last("ENV")


def test_no_process_compiles_what_its_user_cannot_keep() -> None:
    """The packages and the code belong to root; whoever runs them could not write what was compiled."""
    built = " ".join(words for _, words in stages()[0])
    assert "UV_COMPILE_BYTECODE=1" in built
    (compiling,) = (words for name, words in stages()[-1] if name == "RUN" and "compileall" in words)
    assert {"agentops", "gates", "loops"} <= set(compiling.split())


def test_it_runs_as_a_user_of_its_own_who_owns_the_state() -> None:
    user = last("USER")
    assert user not in ("root", "0")
    assert re.search(rf"useradd \S+ --uid \d+ {user}\b", prepared())
    assert re.search(rf"install -d -o {user} -g {user} -m 0700 {last('VOLUME')}\b", prepared())
    assert f"AGENTOPS_STATE={last('VOLUME')}" in last("ENV")


def test_it_starts_what_make_run_starts() -> None:
    assert last("CMD") == '["python", "manage.py", "up"]'
    assert "up" in get_commands()

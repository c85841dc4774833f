"""The reporters that test runners load inside the sandbox, and how each language is told of them (ADR 0078)."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

SOCKET = "AGENTOPS_TEST_REPORT"
"""Names the socket in the environment of a command whose tests are reported."""
BY_LANGUAGE: Mapping[str, Mapping[str, str]] = {
    "python": {"PYTHONPATH": "{folder}/python"},
    "node": {"NODE_OPTIONS": "--require {folder}/node/register.cjs"},
}
"""Language, the name of its folder beside this package -> variables that have its programs load the reporter."""
VARIABLES = frozenset({SOCKET, *(name for language in BY_LANGUAGE.values() for name in language)})
PROGRAMS = "programs"
"""The folder of programs that start the one of their name with its reporter; first on the path."""
_FILES = Path(__file__).parents[1] / "test_reporters"
_OWN_PATHS = re.compile(r"""(?<![\w$])(PYTHONPATH=)(?!''|"")(?=[^\s;&|)])""")


def variables(folder: str, path: str) -> dict[str, str]:
    """For a command that sees the folder of a channel there, and has programs on ``path``."""
    found = {SOCKET: f"{folder}/socket", "PATH": f"{folder}/{PROGRAMS}:{path}"}
    for language in BY_LANGUAGE.values():
        found |= {name: value.format(folder=folder) for name, value in language.items()}
    return found


def heard(argv: Sequence[str], folder: str) -> tuple[str, ...]:
    """The same command, with the reporter in the paths that it gives Python itself. One that sets them in a script of
    its own reports nothing, and is counted by what it leaves behind."""
    return tuple(_OWN_PATHS.sub(lambda found: f"{found[1]}{folder}/python:", word) for word in argv)


def put_into(folder: str) -> None:
    """A copy of every reporter: a command's user may be kept from the folder of AgentOps, and finds nothing else of it
    here."""
    for language in (*BY_LANGUAGE, PROGRAMS):
        place = os.path.join(folder, language)
        os.mkdir(place)
        for file in (_FILES / language).iterdir():
            if file.is_file() and not file.name.startswith("__"):
                shutil.copy(file, os.path.join(place, file.name))

"""The reporters that test runners load inside the sandbox, and how each language is told of them (ADR 0078)."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

SOCKET = "AGENTOPS_TEST_REPORT"
"""Names the socket in the environment of a command whose tests are reported."""
BY_LANGUAGE: Mapping[str, Mapping[str, str]] = {
    "python": {"PYTHONPATH": "{folder}/python"},
    "node": {"NODE_OPTIONS": "--require {folder}/node/register.cjs"},
}
"""Language, which is the name of its folder beside this package -> variables that have its programs load the reporter.
A command that sets one of them itself reports nothing, and is counted by what it leaves behind."""
VARIABLES = frozenset({SOCKET, *(name for language in BY_LANGUAGE.values() for name in language)})
_FILES = Path(__file__).parents[1] / "test_reporters"


def variables(folder: str) -> dict[str, str]:
    """For a command that sees the folder of a channel at this path."""
    found = {SOCKET: f"{folder}/socket"}
    for language in BY_LANGUAGE.values():
        found |= {name: value.format(folder=folder) for name, value in language.items()}
    return found


def put_into(folder: str) -> None:
    """A copy of every reporter: a command's user may be kept from the folder of AgentOps, and finds nothing else of it
    here."""
    for language in BY_LANGUAGE:
        place = os.path.join(folder, language)
        os.mkdir(place)
        for file in (_FILES / language).iterdir():
            if file.is_file() and not file.name.startswith("__"):
                shutil.copyfile(file, os.path.join(place, file.name))

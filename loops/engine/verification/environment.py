"""Did a command fail for what surrounds the work, and not for the work itself? (SPEC E1, M4) Pure.

A program, a test runner or a permission that is missing, a time-out, a full disk: no repair of the agent's puts that
right, so a person is asked. Only what the shell, the runner or the sandbox itself says counts. A module that the code
under test wants and does not find is the code's own failure, unless nothing in the workspace has its name and the
project says that it needs it, or nobody has to write it. So is everything that is not listed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loops.engine.text.failure_words import is_disk_full
from loops.engine.text.truncation import shortened
from loops.engine.values import ToolResult

LOOKED_AT = 4_000
"""Characters at the end of an output: there whoever gives up says why."""
NO_PROGRAM, NOT_EXECUTABLE = 127, 126
RUNNERS = frozenset(
    {"pytest", "nose2", "tox", "nox", "coverage", "mypy", "ruff", "flake8", "pylint", "black", "isort", "behave", "pip"}
)
"""Modules that are run as programs (``python -m pytest``) and come with an installation, not with the work."""
_MODULE = re.compile(r"^\S*python[0-9.]*(?:\.exe)?: No module named ['\"]?([A-Za-z0-9_]+)", re.MULTILINE)
_IMPORT = re.compile(r"^(?:E\s+)?ModuleNotFoundError: No module named ['\"]?([A-Za-z0-9_]+)", re.MULTILINE)
ABSENT = "absent_module"
"""In the data of a command: the module that it did not find, where nothing in the workspace has its name."""
_NOT_FOUND = (
    re.compile(r"([^\s:]+): (?:command )?not found"),
    re.compile(r"([^\s:]+): No such file or directory"),
    re.compile(r"(?:exec|spawn) ['\"]?([^\s:'\"]+)"),
)
_MAKE = re.compile(r"^make(?:\[\d+\])?: \*\*\* .{0,300} Error (126|127)$", re.MULTILINE)
_DENIED = re.compile(r"([^\s:]+): Permission denied")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """``code`` is the stable name, ``what`` is missing or wrong, ``todo`` is for the person who is asked."""

    code: str
    what: str
    todo: str


def missing_module(said: str) -> str:
    """The module that a command did not find, by its first name; "" for none."""
    tail = said[-LOOKED_AT:]
    return next(iter([*_IMPORT.findall(tail), *_MODULE.findall(tail)][-1:]), "")


def obstacle(result: ToolResult, is_ours: Callable[[str], bool] = bool) -> Obstacle | None:
    """What kept a command from doing its work; None where it did it, well or badly. ``is_ours``: may the agent still
    have to write the module of this name, which stands nowhere? Without it, of every one."""
    if result.ok:
        return None
    said = f"{result.error}\n{result.content}"[-LOOKED_AT:]
    if "(time limit)" in str(result.data.get("killed") or "") or result.fault == "timeout":
        return Obstacle("timed_out", f"It did not finish: {result.error}.", "See why it takes so long here.")
    if is_disk_full(said):
        return Obstacle("disk_full", "There is no space left to work in.", "Make room on the disk of the workspace.")
    if result.exit_code is None:
        why = shortened(result.error, 300)
        return Obstacle("not_run", f"It could not be run: {why}", "See what keeps commands from running here.")
    return _missing(result.exit_code, said) or _uninstalled(result, said, is_ours)


def _uninstalled(result: ToolResult, said: str, is_ours: Callable[[str], bool]) -> Obstacle | None:
    """A module of somebody else's that is not there: no repair of the work brings it."""
    absent, name = result.data.get(ABSENT), missing_module(said)
    if not name or not isinstance(absent, Mapping) or absent.get("name") != name:
        return None
    return _program(name) if absent.get("declared") or not is_ours(name) else None


def _missing(exit_code: int, said: str) -> Obstacle | None:
    """The program, the permission or the test runner that is not there."""
    within = _MAKE.search(said)
    if within is not None:
        exit_code = int(within[1])
    if exit_code == NO_PROGRAM:
        found = [match[1] for pattern in _NOT_FOUND for match in pattern.finditer(said)]
        return _program(found[0][:100] if found else "a program")
    if exit_code == NOT_EXECUTABLE:
        denied = _DENIED.search(said)
        name = denied[1][:100] if denied else "its program"
        return Obstacle("not_executable", f"{name} may not be executed here.", f"Make {name} executable.")
    module = _MODULE.search(said)
    return _program(module[1]) if module is not None and module[1] in RUNNERS else None


def _program(name: str) -> Obstacle:
    if "/" in name:
        return Obstacle("program_missing", f"{name} is not there.", "Put it into the folder that the run works in.")
    return Obstacle("program_missing", f"{name} is not installed where commands run.", f"Install {name} there.")

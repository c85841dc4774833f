"""Did a command fail for what surrounds the work, and not for the work itself? (SPEC E1, M4) Pure.

A program, a module or a permission that is missing, a time-out, a full disk: no repair of the agent's puts that right,
so a person is asked. Only what the shell, the interpreter or the sandbox itself says counts, and of a full disk what
the tool found: tests print such words as well. A module of the project's own that is not found is the work's failure
(``loops/tools/dependencies.py`` says whose it is), and so is everything that is not listed here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from loops.engine.text.missing_modules import LOOKED_AT, MissingModule, missing_module
from loops.engine.text.truncation import shortened
from loops.engine.values import ToolResult

NO_PROGRAM, NOT_EXECUTABLE = 127, 126
ABSENT = "absent_module"
"""In the data of a command: the module that it did not find, where it is no part of the work."""
DISK_FULL = "disk_full"
"""In the data of a command: it said that there was no room, and there is none."""
_NOT_FOUND = (
    re.compile(r"(?:^|: )command not found: ([^\s:]+)", re.MULTILINE),
    re.compile(r"([^\s:]+): (?:command )?not found"),
    re.compile(r"([^\s:]+): No such file or directory"),
    re.compile(r"(?:exec|spawn) ['\"]?([^\s:'\"]+)"),
)
_OPENED = re.compile(r"^(?:\S{0,200}/)?(?:ba|da|k|z)?sh: ([^\s:/]+): No such file or directory$", re.MULTILINE)
"""A shell that was given a file to read; a program it calls "not found"."""
_QUOTES = "'`\"\u2018\u2019"
_MAKE = re.compile(r"^make(?:\[\d+\])?: \*\*\* .{0,300} Error (126|127)$", re.MULTILINE)
_DENIED = re.compile(r"([^\s:]+): Permission denied")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """``code`` is the stable name, ``what`` is missing or wrong, ``todo`` is for the person who is asked. ``path`` is
    how a program or module that is missing would be called in the workspace."""

    code: str
    what: str
    todo: str
    path: str = ""
    name: str = ""
    """Of what is missing, as the command named it, "" where it did not. That of a file has a slash in it."""


def is_imported(missing: MissingModule) -> bool:
    """By the code, and not run by the command itself: then the agent may still have to write it."""
    return not missing.form.is_run


def obstacle(result: ToolResult, is_ours: Callable[[MissingModule], bool] = is_imported) -> Obstacle | None:
    """What kept a command from doing its work; None where it did it, well or badly. ``is_ours``: is a module that the
    project does not say it needs the agent's to write?"""
    if result.ok:
        return None
    if "(time limit)" in str(result.data.get("killed") or "") or result.fault == "timeout":
        more = "See why it takes so long here, or give criteria more time: Admin, Policies, or the workspace's page."
        return Obstacle("timed_out", f"It did not finish: {result.error}.", more)
    if result.data.get(DISK_FULL):
        return Obstacle(DISK_FULL, "There is no space left to work in.", "Make room on the disk of the workspace.")
    if result.exit_code is None:
        why = shortened(result.error, 300)
        return Obstacle("not_run", f"It could not be run: {why}", "See what keeps commands from running here.")
    said = f"{result.error}\n{result.content}"[-LOOKED_AT:]
    return _missing(result.exit_code, said) or _uninstalled(result, said, is_ours)


def _uninstalled(result: ToolResult, said: str, is_ours: Callable[[MissingModule], bool]) -> Obstacle | None:
    """A module of somebody else's that is not there: no repair of the work brings it."""
    absent, missing = result.data.get(ABSENT), missing_module(said)
    if missing is None or not isinstance(absent, Mapping) or absent.get("name") != missing.name:
        return None
    if not absent.get("declared") and (missing.is_within or is_ours(missing)):
        return None
    return _uninstalled_as(missing.name, missing.path)


def _missing(exit_code: int, said: str) -> Obstacle | None:
    """The program or the permission that is not there."""
    within = _MAKE.search(said)
    if within is not None:
        exit_code = int(within[1])
    if exit_code == NO_PROGRAM:
        opened = [f"./{name}" for name in _OPENED.findall(said)]
        found = [*opened, *(match[1] for pattern in _NOT_FOUND for match in pattern.finditer(said))]
        return _program(shortened(found[0].strip(_QUOTES), 100) if found else "")
    if exit_code == NOT_EXECUTABLE:
        denied = _DENIED.search(said)
        name = shortened(denied[1], 100) if denied else "its program"
        return Obstacle("not_executable", f"{name} may not be executed here.", f"Make {name} executable.")
    return None


def _program(name: str) -> Obstacle:
    path = name.removeprefix("./")
    if "/" not in name:
        return _uninstalled_as(name, path)
    what, todo = f"{name} is not there.", "Put it into the folder that the run works in."
    return Obstacle("program_missing", what, todo, path, name)


def _uninstalled_as(name: str, path: str) -> Obstacle:
    shown = name or "a program"
    what, todo = f"{shown} is not installed where commands run.", f"Install {shown} there."
    return Obstacle("program_missing", what, todo, path or shown, name)

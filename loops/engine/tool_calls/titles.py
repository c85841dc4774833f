"""What a call would do, as a sentence: the title of the gate that asks for it (SPEC X6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from loops.engine.text.arguments import telling
from loops.engine.values import ToolCall

_SETS_UP = re.compile(
    r"(?P<step>(?:cd|export|set|unset|umask|ulimit)(?:[ \t]+[\w./~=:,@%+-]*)+|\w+=[\w./~:,@%+-]*)"
    r"[ \t]*(?:&&|;|\n)\s*"
)
"""One plain command that only prepares the next; with quotes, expansions or redirections it is none. ``.`` and
``source`` run a file, whatever they prepare by it."""
DEED_CHARS = 200


def deed(call: ToolCall, declared: str = "", resolved: str = "") -> str:
    """The call in one line: the deed first, what it is set up by after it. Nothing of a short command is left out.

    ``declared`` is ``ToolSpec.deed``, ``resolved`` the command that the tool made of the arguments, where they do not
    hold all of it.
    """
    arguments = call.arguments
    if line := resolved.strip() or _command(arguments):
        what, before = _split(line)
        where = f" in {arguments['directory']}" if arguments.get("directory") not in (None, "", ".") else ""
        after = f", after {', '.join(f'`{one}`' for one in before)}" if before else ""
        return f"Run `{_one_line(what)}`{where}{after}"
    with suppress(KeyError):  # an argument that may be left out
        if declared:
            return declared.format_map({name: _one_line(str(value)) for name, value in arguments.items()})
    return f"{call.name} {_one_line(telling(arguments))}".strip()


def _command(arguments: Mapping[str, Any]) -> str:
    line, argv = arguments.get("command"), arguments.get("argv")
    if isinstance(line, str) and line.strip():
        return line.strip()
    return " ".join(map(str, argv)) if isinstance(argv, list | tuple) else ""


def _split(line: str) -> tuple[str, list[str]]:
    """(what the line is for, the plain commands before it that set it up)."""
    before, rest = list[str](), line
    while (found := _SETS_UP.match(rest)) and rest[found.end() :].strip():
        before.append(found["step"].strip())
        rest = rest[found.end() :]
    return rest, before


def _one_line(text: str) -> str:
    shown = " ⏎ ".join(" ".join(line.split()) for line in text.splitlines() if line.strip())
    return shown if len(shown) <= DEED_CHARS else f"{shown[: DEED_CHARS - 1]}…"

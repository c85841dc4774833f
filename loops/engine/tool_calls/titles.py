"""What a call would do, as a sentence: the title of the gate that asks for it (SPEC X6)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from loops.engine.values import ToolCall

SENTENCES = {
    "write_file": "Write {path}",
    "apply_diff": "Change {path}",
    "delete_file": "Delete {path}",
    "move_file": "Move {path} to {target}",
    "make_directory": "Make the folder {path}",
    "read_file": "Read {path}",
    "run_tests": "Run the tests",
}
TELLING = ("path", "source", "url")
"""Arguments that say what a call of any other tool does."""

_SETS_UP = re.compile(
    r"(?P<step>(?:cd|export|set|unset|umask|ulimit|source|\.)(?:[ \t]+[\w./~=:,@%+-]*)+|\w+=[\w./~:,@%+-]*)"
    r"[ \t]*(?:&&|;|\n)\s*"
)
"""One plain command that only prepares the next; with quotes, expansions or redirections it is none."""
DEED_CHARS = 200


def deed(call: ToolCall, resolved: str = "") -> str:
    """The call in one line: the deed first, what it is set up by after it. Nothing of a short command is left out.

    ``resolved`` is the command that the tool made of the arguments, where they do not hold all of it.
    """
    arguments = call.arguments
    if line := resolved.strip() or _command(arguments):
        what, before = _split(line)
        where = f" in {arguments['directory']}" if arguments.get("directory") not in (None, "", ".") else ""
        after = f", after {', '.join(f'`{one}`' for one in before)}" if before else ""
        return f"Run `{_one_line(what)}`{where}{after}"
    try:
        return SENTENCES[call.name].format_map({name: _one_line(str(value)) for name, value in arguments.items()})
    except (KeyError, IndexError, ValueError):
        main = next((str(arguments[name]) for name in TELLING if name in arguments), "")
        return f"{call.name} {_one_line(main)}".strip()


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

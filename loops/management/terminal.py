"""What commands write to a terminal: texts of models, tools and people are shown there, and never obeyed.

An escape sequence in a title could move the cursor, hide a line or fill the clipboard of who lists runs (SPEC S1).
"""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, OutputWrapper

from loops.printable.text import printable

PROGRAM = "agentops"


def program() -> str:
    """The command that somebody has just typed, in words that their shell finds again."""
    typed = Path(sys.argv[0])
    if typed.name != PROGRAM or not typed.is_file():
        return PROGRAM
    on_the_path = shutil.which(PROGRAM)
    return PROGRAM if on_the_path and Path(on_the_path).samefile(typed) else shlex.quote(str(typed))


class Printed(OutputWrapper):
    """An output of a command that writes odd characters as code points. Colour comes by ``style_func`` alone."""

    def write(self, msg: str = "", style_func: Callable[[str], str] | None = None, ending: str | None = None) -> None:
        """Write one message, and a line break unless it ends with ``ending``."""
        super().write(printable(str(msg)), style_func, ending)


class TerminalCommand(BaseCommand):
    """A management command whose two outputs are ``Printed``, however they are given to it."""

    def __setattr__(self, name: str, value: Any) -> None:
        """Wrap an output where Django sets it: when the command is made, and when it is called with another."""
        if name in ("stdout", "stderr") and isinstance(value, OutputWrapper) and not isinstance(value, Printed):
            style_func, value = value.style_func, Printed(value._out)
            value.style_func = style_func
        super().__setattr__(name, value)

"""What the arguments of a call say about it in a few words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TELLING = ("command", "path", "source", "file_path", "url", "pattern", "query", "question", "result", "text")
"""Names of arguments that say what a call does, the one that says most first."""


def telling(arguments: Mapping[str, Any]) -> str:
    """The argument that says most about a call; "" where none is known to."""
    texts = (arguments.get(name) for name in TELLING)
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")

"""What a check found: how it stands, in words, and what to do about it."""

from __future__ import annotations

OK, WARNING, ERROR = "ok", "warning", "error"
Finding = tuple[str, str] | tuple[str, str, str] | tuple[str, str, str, str]
"""Status, what was found, what to do where it is not ok, and details that only a terminal shows: System is a page for
every team, so names and ids of any of them stand there."""

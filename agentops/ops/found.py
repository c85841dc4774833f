"""What a check found: how it stands, in words, and what to do about it."""

from __future__ import annotations

OK, WARNING, ERROR = "ok", "warning", "error"
Found = tuple[str, str] | tuple[str, str, str]
"""Status, what was found, and what to do where it is not ok."""

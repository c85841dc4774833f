"""Say of a text that it was cut: where, of how much, and where the whole is. Nothing is shortened in silence (X5)."""

from __future__ import annotations


def cut(text: str, most: int, whole: str = "") -> str:
    """``text`` as it is up to ``most`` characters; a longer one ends in a line that says so. ``whole``: where it is."""
    if len(text) <= most:
        return text
    where = f"; the whole is {whole}" if whole else ""
    return f"{text[:most]}\n\n[cut at {most:,} of {len(text):,} characters{where}]"

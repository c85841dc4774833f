"""Figures against their targets, said plainly."""

from __future__ import annotations

from collections.abc import Sequence

MISSED: list[str] = []
"""What missed its target in this run."""


def at_most(what: str, value: float, target: float, form: str = ".2f") -> str:
    return _judged(what, value <= target, f"{value:{form}}", f"{target:{form}} or less")


def at_least(what: str, value: float, target: float, form: str = ".2f") -> str:
    return _judged(what, value >= target, f"{value:{form}}", f"{target:{form}} or more")


def _judged(what: str, met: bool, value: str, target: str) -> str:
    if not met:
        MISSED.append(f"{what} {value} (target {target})")
    return f"{what} {value} (target {target}: {'met' if met else 'MISSED'})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns under each other: the first to the left, figures to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    return "\n".join("  ".join(_aligned(row, widths)) for row in (head, *rows))


def _aligned(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    name, *figures = row
    return [name.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(figures, widths[1:], strict=True))]

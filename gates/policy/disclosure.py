"""What has to have been shown before a verdict lets something happen, and what is shown alone only (SPEC Q5, Q7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gates.policy.kinds import Kind
from gates.policy.payloads import confirmation_word

LONG_BYTES = 20_000
"""A view longer than this must have been on the screen whole before it can be approved."""

TOGETHER_BYTES = 100_000
"""What several gates that are approved together may hold in all."""

_OWN_PAGE = {
    Kind.IN_DOUBT: "whether it was done has to be looked up",
    Kind.FINAL_REVIEW: "the files that it is about are shown on its own page",
}


def alone(kind: str, tool: str, size: int) -> str:
    """Why a gate with a view of ``size`` bytes is not approved together with others; "" where it may be."""
    if confirmation_word(kind, tool):
        return "it cannot be undone"
    if size > LONG_BYTES:
        return "it is long, and has to be read to its end"
    return _OWN_PAGE.get(Kind(kind), "")


def repeated_arguments(view: Mapping[str, Any]) -> frozenset[str]:
    """Names of long arguments that stand in the diff beside them, line by line and in order: what a file is to hold."""
    arguments, diff = view.get("arguments"), view.get("diff")
    if not isinstance(arguments, dict) or not isinstance(diff, str) or not diff:
        return frozenset()
    held = [line[1:] for line in diff.split("\n") if line[:1] in ("+", " ")]
    return frozenset(name for name, value in arguments.items() if isinstance(value, str) and _stands_in(value, held))


def _stands_in(value: str, held: list[str]) -> bool:
    rest = iter(held)
    return "\n" in value and all(line in rest for line in value.removesuffix("\n").split("\n"))

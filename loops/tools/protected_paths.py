"""Paths no agent may change, because people's tools or agents obey what stands there (SPEC I7)."""

from __future__ import annotations

from collections.abc import Iterable

from loops.tools.sandbox.command import ENVIRONMENT


def protecting(path: str, protected: Iterable[str]) -> str:
    """The protected path that forbids writing ``path``, or "" when none does.

    Case is ignored (a checkout on another system would). At any depth: ``lib/AGENTS.md`` steers agents as well.
    Writing a *parent* counts too: moving ``.git`` away would replace ``.git/hooks``.
    """
    folded = f"/{path.casefold().strip('/')}/"
    for name in protected:
        guarded = f"/{name.casefold()}/"
        if guarded in folded or guarded.startswith(folded):
            return name
    return ""


def all_protected(given: Iterable[str]) -> tuple[str, ...]:
    """``given``, which a project may have, and what is protected in every workspace."""
    return (*given, ".git", ENVIRONMENT)

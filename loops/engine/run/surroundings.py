"""What the first message tells a model of the folder it works in, so that it has to find out none of it by refusals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from loops.engine import prompts
from loops.engine.text.truncation import shortened

MOST_PATHS, MOST_PATHS_SMALL = 60, 12
MOST_RULES, MOST_RULES_SMALL = 20, 5
LONGEST_RULE = 200


@dataclass(frozen=True, slots=True)
class Surroundings:
    """``path``: the folder as commands see it, "" where that differs from run to run. ``found``: files at its top that
    name a kind of project. ``tests``: what they suggest runs its tests. ``stated``: paths from its top that its
    accepted `agentops.toml` protects too. ``rules``: those of the project that deny the agent some paths, in words.
    ``is_small``: the model's window has little room."""

    path: str
    found: tuple[str, ...]
    is_empty: bool
    tests: str
    protected: tuple[str, ...]
    stated: tuple[str, ...]
    rules: tuple[str, ...]
    is_small: bool = False


def in_words(around: Surroundings) -> str:
    """For the first message. The same for each run of the same kind: it names neither the run nor this machine."""
    parts = [prompts.fill("workspace")]
    if around.path:
        parts.append(prompts.fill("workspace_in_sandbox", path=around.path))
    if around.is_empty:
        parts.append(prompts.fill("workspace_empty"))
    if around.found:
        parts.append(prompts.fill("workspace_found", found=", ".join(around.found)))
    if around.tests:
        parts.append(prompts.fill("workspace_tests", command=around.tests))
    most = MOST_PATHS_SMALL if around.is_small else MOST_PATHS
    parts.append(prompts.fill("workspace_protected", protected=", ".join(_first(around.protected, most))))
    if around.stated:
        parts.append(prompts.fill("workspace_protects", protected=", ".join(_first(around.stated, most))))
    if around.rules:
        rules = _first(around.rules, MOST_RULES_SMALL if around.is_small else MOST_RULES)
        lines = "\n".join(f"- {shortened(' '.join(rule.split()), LONGEST_RULE)}" for rule in rules)
        parts.append(prompts.fill("workspace_rules", rules=lines))
    return "\n".join(parts)


def _first(names: Sequence[str], most: int) -> tuple[str, ...]:
    return (*names[:most], *([f"and {len(names) - most:,} more"] if len(names) > most else []))

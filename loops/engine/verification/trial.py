"""Before its first request a run tries the commands of its criteria: what they say before the work began (ADR 0064)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from loops.engine import prompts
from loops.engine.effects import Effect, TryCriteria
from loops.engine.facts import Check
from loops.engine.measures.context_budget import is_small, window
from loops.engine.state.check import CheckStatus
from loops.engine.state.run import RunState
from loops.engine.state.spec import Criterion, RunSpec
from loops.engine.text.missing_modules import MissingModule
from loops.engine.text.truncation import shortened
from loops.engine.values import Json, ToolResult
from loops.engine.verification.environment import Obstacle, obstacle
from loops.engine.verification.environment_gate import environment_gate
from loops.engine.verification.report import MISSING

OUTPUT_CHARS, ALL_CHARS, ALL_CHARS_SMALL = 1_500, 4_000, 1_000
"""Of what one command printed last, and of all of them, that the model reads; less in a small window."""
RUN_BY_PYTHON = frozenset(
    {"pytest", "nose2", "tox", "nox", "coverage", "behave", "mypy", "pyright", "ruff", "flake8", "pylint", "black"}
    | {"isort", "bandit", "build", "pip", "django", "sphinx", "mkdocs"}
)
"""Programs that ``python -m`` is given which no agent is asked to write; any other module may be the work itself."""
INSTALLED = frozenset({".venv", "venv", "node_modules", "vendor", ".tox", ".nox"})
"""Folders that an installation fills: a program that is missing there is none that the agent writes."""
IN_THE_SANDBOX = "/workspace"
"""Where the folder of the run lies for commands that have namespaces of their own."""
_SETS_PATH = re.compile(r"\bPATH=")


def try_criteria(state: RunState) -> Effect | None:
    """Once, before the first request; what kept a command from running is put before a person at once."""
    if state.tried:
        return environment_gate(state, state.tried)
    due = state.spec.tries_criteria and state.tried is None
    return TryCriteria() if due and any(criterion.command for criterion in state.spec.criteria) else None


def obstacle_before_work(result: ToolResult, spec: RunSpec, criterion: Criterion) -> Obstacle | None:
    """What keeps the command from judging anything here, whatever the agent does. What the agent may still have to
    write is nothing of the kind: a script, a module or a test that is not there yet fails like any other."""
    found = obstacle(result, _may_be_written)
    if found is None or found.code != "program_missing":
        return found
    return None if _may_come(found, spec, criterion) else found


def _may_be_written(missing: MissingModule) -> bool:
    return not missing.form.is_run or missing.name not in RUN_BY_PYTHON


def _may_come(found: Obstacle, spec: RunSpec, criterion: Criterion) -> bool:
    """May the work bring the program? Where it has no name, it may."""
    path = PurePosixPath(found.name)
    if "/" not in found.name:
        return not found.name or bool(_SETS_PATH.search(criterion.command)) or _is_to_write(spec.goal, path.name)
    if path.is_absolute() and not any(map(path.is_relative_to, (spec.workspace, IN_THE_SANDBOX))):
        return False
    return not INSTALLED & set(path.parts) or _is_to_write(spec.goal, path.name)


def _is_to_write(goal: str, name: str) -> bool:
    """Does the goal speak of a file of this name, by its path?"""
    paths = (PurePosixPath(word.strip("`'\".,:;()")) for word in goal.split())
    return any(path.name == name and len(path.parts) > 1 for path in paths)


def counted(data: Mapping[str, Json]) -> str:
    """How many tests failed and passed, as their runner reports it; "" where it reports none."""
    counts = [(data.get(name), name) for name in ("failed", "passed", "skipped", MISSING)]
    return ", ".join(f"{number:,} {name}" for number, name in counts if isinstance(number, int) and number)


def summary(checks: Sequence[Check], state: RunState) -> str:
    """For the model: what each command says now, with the end of what it printed; "" where none was run."""
    if not any(check.status != CheckStatus.UNPROVEN for check in checks):
        return ""
    room = ALL_CHARS_SMALL if is_small(window(state)) else ALL_CHARS
    lines: list[str] = []
    for check in checks:
        lines.append(f"- {shortened(check.command, 200)}: {in_words(check)}")
        if check.detail and check.status == CheckStatus.FAILED and room > 0:
            shown = check.detail[-min(OUTPUT_CHARS, room) :]
            room -= len(shown)
            lines += (f"  | {line}" for line in shown.splitlines())
    return prompts.fill("criteria_tried", checks="\n".join(lines))


def in_words(check: Check) -> str:
    """What one command says before the work began."""
    counts = f" ({check.counts})" if check.counts else ""
    match check.status:
        case CheckStatus.PASSED:
            return f"holds already{counts}"
        case CheckStatus.FAILED:
            return f"does not hold yet{counts}"
        case CheckStatus.ERROR:
            return f"cannot run here. {shortened(check.wanted, 500)}"
        case _:
            return f"not tried. {shortened(check.detail, 500)}"

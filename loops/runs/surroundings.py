"""Look at the folder of a run that begins, and at what is protected there, for its first message (SPEC X2, I7)."""

from __future__ import annotations

from typing import Any

from loops.engine.measures.context_budget import is_small
from loops.engine.run.surroundings import Surroundings, in_words
from loops.engine.state.spec import RunSpec
from loops.runs.composition import rules_of, sandbox_level
from loops.tools.policy import denied_paths
from loops.tools.protected_paths import all_protected
from loops.tools.sandbox.capability import FULL
from loops.tools.sandbox.command import WORKSPACE
from loops.workspaces import detection


def surroundings(spec: RunSpec, task_id: str, connection: Any) -> str:
    """What the run of a task is told of where it is, as things stand now."""
    rules, limits = rules_of(spec.project_id, connection, task_id)()
    judged = any(criterion.command for criterion in spec.criteria)
    return in_words(
        Surroundings(
            path=WORKSPACE if sandbox_level().level >= FULL else "",
            found=detection.kinds(spec.workspace),
            is_empty=detection.is_empty(spec.workspace),
            tests="" if judged else detection.look(spec.workspace).tests,
            protected=all_protected(limits.protected),
            stated=limits.stated,
            rules=tuple(map(str, denied_paths(rules, spec.agent.type))),
            is_small=is_small(spec.windows.get(spec.model_for("actor"), 0)),
        )
    )

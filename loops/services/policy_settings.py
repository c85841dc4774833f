"""The policy of a project as people set it up: thresholds, gates and the most that a task gets (SPEC S1, D2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from loops.models import Policy, Project
from loops.services.configuration import Kind
from loops.services.submission import InvalidTask, clean_limits


class Policies(Kind):
    """It comes with its project and stays with it: none is made or deleted here."""

    model = Policy
    wants_reason = True

    def faults(self, row: Policy) -> dict[str, str]:
        """Limits that there are, within what is possible at all, money in the unit of a run; and late comes before
        lost."""
        try:
            row.task_limits = clean_limits(row.task_limits)
        except InvalidTask as error:
            faults = (f"{field.removeprefix('limits.')} {fault}" for field, fault in error.errors.items())
            return {"task_limits": "; ".join(faults)}
        if row.sla_minutes > row.gate_expiry_minutes:
            return {"sla_minutes": "A gate must become late before it expires."}
        return {}

    def require_change(self, actor: Any, project: Project) -> None:
        """Raise NotAllowed unless ``actor`` may change it: the rule for whoever gives commands other limits."""
        self._may(actor, Policy(project=project), "change")

    def recorded(self, actor: Any, row: Policy, changed: Iterable[str], *, allow: bool = False) -> None:
        """Nothing: the version that it makes is an audit event."""


POLICIES = Policies()

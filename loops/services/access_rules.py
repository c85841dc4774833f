"""Access rules as people set them up: the cells of the tool access matrix (SPEC I3, S1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loops.engine.values import Access
from loops.models import AccessRule
from loops.services.configuration import Kind
from loops.tools.policy import AccessRule as Rule
from loops.tools.policy import may_allow

LOOKS_LIKE_NO_PATH = ("..", "~", "\\", "\0")


class AccessRules(Kind):
    model = AccessRule
    wants_reason = True
    CHANGED, DELETED = "rule.changed", "rule.deleted"

    def faults(self, row: AccessRule) -> dict[str, str]:
        """Globs inside the workspace, nothing else; and what is allowed is named: the matrix would read anything else
        as ask."""
        row.paths = row.paths or []
        if said := _not_inside(row.paths):
            return {"paths": said}
        if row.access == Access.ALLOW and not may_allow(Rule(Access.ALLOW, tool=row.tool, operation=row.operation)):
            return {"operation": "Name a tool or an operation. What no rule names needs an approval anyway."}
        return {}

    def same(self, row: AccessRule, given: Mapping[str, Any]) -> AccessRule | None:
        """Whoever did not hear the answer asks again."""
        whole = {name: given.get(name, getattr(row, name)) for name in ("agent_type", "tool", "operation", "access")}
        if any("\0" in str(value) for value in whole.values()):
            return None
        same = AccessRule.objects.filter(project=row.project, paths=given.get("paths", []), **whole)
        return same.first()

    def detail(self, row: AccessRule) -> dict[str, Any]:
        """All of it: a rule has no name."""
        return {"rule": str(row), "paths": list(row.paths)}


def _not_inside(paths: Any) -> str:
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        return 'Write a list of globs, like ["src/**", "*.md"].'
    bad = [path for path in paths if path.startswith("/") or any(sign in path for sign in LOOKS_LIKE_NO_PATH)]
    return f"{bad[0]!r} does not name something inside the workspace." if bad else ""


ACCESS_RULES = AccessRules()

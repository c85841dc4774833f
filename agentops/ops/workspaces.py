"""Which workspaces are refused, and what is wrong with the roots: what an upgrade tightened is named, not lost."""

from pathlib import Path

from django.conf import settings

from agentops.ops.finding import ERROR, OK, WARNING, Finding
from loops.models import Workspace
from loops.runs import composition
from loops.tools.workspace_roots import PROJECT, SHARED
from loops.workspaces import copies

NAMED = 5
ALLOW = "a superuser allows them in Admin > Workspaces, or name their folder in AGENTOPS_WORKSPACE_ROOTS"
COPY = "let one of them work on copies, in Admin > Workspaces"


def roots() -> Finding:
    """As the installation names them."""
    places, named = composition.roots(), settings.WORKSPACE_ROOTS
    for root in named:
        fixed = root.partition(PROJECT)[0].rstrip("/") or "/"
        if not root.startswith("/") or ".." in Path(root).parts:
            return ERROR, f"{root} is no absolute path", "correct AGENTOPS_WORKSPACE_ROOTS"
        if fixed in SHARED:
            said = f"{root} lets project admins open all that lies below {fixed}"
            return WARNING, said, "name a folder of its own in AGENTOPS_WORKSPACE_ROOTS"
        if said := places.why_never(fixed):
            return ERROR, said, "correct AGENTOPS_WORKSPACE_ROOTS"
    if not named:
        return OK, "Only superusers open folders of this machine to agents"
    return OK, f"Project admins may open what lies below {', '.join(named)}"


def refused() -> Finding:
    """Those that tasks may not name, and for which runs wait, and those that change each other."""
    rows = list(Workspace.objects.exclude(path="").select_related("project"))
    kinds = [
        ("Workspaces refused", copies.why_closed, ALLOW),
        (
            "Workspaces that lie in each other",
            lambda row: "" if copies.why_closed(row) else copies.why_overlapping(row),
            COPY,
        ),
    ]
    said, todo, shown = [], [], []
    for title, why, what in kinds:
        found = [f"{row.name} in {row.project} ({reason})" for row in rows if (reason := why(row))]
        if found:
            said.append(f"{title}: {len(found)}")
            todo.append(what)
            shown += [*found[:NAMED], *([f"{len(found) - NAMED} more"] if len(found) > NAMED else [])]
    if not said:
        return OK, "Every workspace may be used"
    return WARNING, "; ".join(said), "; ".join(todo), "; ".join(shown)

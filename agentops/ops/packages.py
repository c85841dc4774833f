"""Are the packages that bring tools and loops whole? As this process loads them; workers say it in their logs."""

from agentops.ops.finding import ERROR, OK, Finding
from loops.runs import composition


def packages() -> Finding:
    """Each broken one with its reason."""
    if broken := composition.broken_packages():
        said = "; ".join(map(str, broken))
        return ERROR, said, "repair or remove the package, then start AgentOps again"
    return OK, "Every package that brings tools or execution loops can be used"

"""Are the packages that bring tools and loops whole? As this process loads them; workers say it in their logs."""

from agentops.ops.found import ERROR, OK, Found
from loops import wiring


def packages() -> Found:
    """Each broken one with its reason."""
    if broken := wiring.broken_packages():
        said = "; ".join(map(str, broken))
        return ERROR, said, "repair or remove the package, then start AgentOps again"
    return OK, "Every package that brings tools or execution loops can be used"

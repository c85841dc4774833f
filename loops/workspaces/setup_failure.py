"""Why a set-up did not succeed and what to do about it, in a sentence for people (SPEC J4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from loops.engine.state.command_limits import COMMAND_LIMITS
from loops.models import Setup, Workspace
from loops.tools.sandbox.network.proxy import NOT_NAMED
from loops.tools.sandbox.process import Finished

MOST_NAMED = 3
_NO_NETWORK = re.compile(
    "name resolution|resolve host|name or service not known|network is unreachable|dns error|enotfound|eai_again",
    re.IGNORECASE,
)
_LIMITS = {
    "its quota is": "workspace_mib",
    "the workspace has more than": "workspace_files",
    "bytes of memory": "command_memory_mib",
    "processes and threads": "command_processes",
    "bytes of output": "command_output_mib",
}
"""What a command is ended with, and the limit that a policy or a workspace has for it."""


def reason(setup: Setup, log: str, requests: Iterable[Mapping[str, Any]], finished: Finished) -> str:
    """Hosts that it asked for are words of whatever ran there: the sentence recommends none of them."""
    if killed := finished.killed:
        return f"It was ended: {killed}.{raised(killed, setup.workspace)}"
    why = f"The command ended with exit code {finished.exit_code}."
    failed = {one["host"]: one["why_not"] for one in requests if one["why_not"] and one["host"]}
    if refused := sorted(host for host, why_not in failed.items() if why_not == NOT_NAMED):
        named = ", ".join(refused[:MOST_NAMED])
        others = f" and {len(refused) - MOST_NAMED} more" if len(refused) > MOST_NAMED else ""
        return f"{why} It may not reach {named}{others}. Where you trust that, a superuser names it."
    if failed:
        host, why_not = next(iter(failed.items()))
        return f"{why} {host} could not be reached: {why_not}."
    if not setup.hosts and _NO_NETWORK.search(log):
        return f"{why} It may reach no host: a superuser names those that it needs."
    return why


def raised(why: str, workspace: Workspace) -> str:
    """Who raises the limit that ended it, and where; "" where none did."""
    name = next((name for words, name in _LIMITS.items() if words in why), "")
    place = "on the page of the workspace" if name in workspace.own_limits else "in Admin > Policies"
    return f" An admin raises that {place}: {COMMAND_LIMITS[name].label}." if name else ""

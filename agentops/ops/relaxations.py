"""What weakens a promise while it is on, or lasts from a version that promised less. Some of the checks."""

from __future__ import annotations

import os
from collections.abc import Callable

from django.conf import settings

from agentops.login import attempts
from agentops.ops.finding import OK, WARNING, Finding
from loops.services.tokens import from_before

SWITCHES: dict[str, tuple[Callable[[], bool], str]] = {
    "AGENTOPS_UNSAFE_DATABASE": (
        lambda: bool(settings.UNSAFE_DATABASE),
        "it lets workers use a database that loses commits",
    ),
    "AGENTOPS_FENCE=off": (
        lambda: os.environ.get("AGENTOPS_FENCE") == "off",
        "a worker that was frozen past its lease can still act (for tests only)",
    ),
    "AGENTOPS_CRASH_AT": (
        lambda: bool(os.environ.get("AGENTOPS_CRASH_AT")),
        "processes end themselves at that point (for tests only)",
    ),
}
"""Variable -> (is it on, what it means). Of this process: `up` gives its environment to all."""


def switches() -> Finding:
    """Those that are on."""
    on = {name: means for name, (is_on, means) in SWITCHES.items() if is_on()}
    if on:
        return WARNING, f"Switched on: {', '.join(on)}", f"unset it: {'; '.join(on.values())}"
    return OK, "No unsafe switches are set"


def proxies() -> Finding:
    """Whether failed log-ins can be counted by address."""
    if attempts.knows_addresses():
        return OK, "Failed log-ins are counted by name and address"
    said = "Everybody has the address of the proxy: failed log-ins are counted by name alone"
    return WARNING, said, "say how many proxies of yours stand before AgentOps: TRUSTED_PROXIES=1"


def tokens() -> Finding:
    """Those that an upgrade found without an end."""
    count, until = from_before()
    if count:
        said = f"API tokens from before they expired: {count}, the last until {until}"
        todo = "make new ones before that day: `agentops token USER`, or, logged in, POST /api/v1/me/token/"
        return WARNING, said, todo
    return OK, "All API tokens were made with an end"

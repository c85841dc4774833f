"""What each kind of child process gets of our environment: the names that it needs, and no other (SPEC I7).

The worker asks models and runs the tools of other packages, so it gets everything but what belongs to the owner of the
database. Servers and programs get what the machine needs. What a settings module of one's own reads besides is named in
``AGENTOPS_PASS``.
"""

import os
from collections.abc import Mapping

from loops.masking import stands_for_none

MACHINE = frozenset({"PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "LD_LIBRARY_PATH"})
SETTINGS = frozenset(
    {
        "ALLOWED_HOSTS",
        "ANTHROPIC_BASE_URL",
        "BASE_URL",
        "CSRF_TRUSTED_ORIGINS",
        "DATABASE_POOL",
        "DATABASE_URL",
        "DEBUG",
        "HOST",
        "LOG_FORMAT",
        "LOG_LEVEL",
        "MONITOR_EMBEDDINGS",
        "MONITOR_EMBEDDINGS_COSINE",
        "MONITOR_TOKENS_PER_MINUTE",
        "MONITOR_USD_PER_MINUTE",
        "OPENAI_BASE_URL",
        "PORT",
        "REDIS_URL",
        "SECRET_KEY",
        "SSL_CERT_DIR",
        "SSL_CERT_FILE",
        "TRUSTED_PROXIES",
        "VIRTUAL_ENV",
    }
)
"""Of AgentOps itself: what the README's table names, without the keys of models."""
PREFIXES = ("LC_",)
PREFIXES_OF_OURS = ("LC_", "AGENTOPS_", "DJANGO_", "PYTHON", "XDG_")
OF_THE_OWNER = ("DATABASE_OWNER_URL", "AGENTOPS_INIT_USERNAME", "AGENTOPS_INIT_EMAIL", "AGENTOPS_INIT_PASSWORD")
"""For ``migrate``, ``backup`` and the first start: no process that stays has them."""
PASS = "AGENTOPS_PASS"  # noqa: S105 - the name of a variable

HELD = "AGENTOPS_HELD"
"""Names of what was held back, without the values: pages say whether the key of a model is there."""

PROGRAM, OURS, WORKER = "program", "ours", "worker"
KINDS = {
    "postgres": PROGRAM,
    "valkey": PROGRAM,
    "program": PROGRAM,
    "web": OURS,
    "beat": OURS,
    "monitor": OURS,
    "worker": WORKER,
}


def environment(kind: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the names of ``environ`` that a child of this kind gets; an unknown kind is one of ours without keys."""
    group = KINDS.get(kind, OURS)
    if kind == "monitor" and environ.get("MONITOR_EMBEDDINGS"):
        group = WORKER  # it asks that model itself
    if group == WORKER:
        return {name: value for name, value in environ.items() if name not in OF_THE_OWNER}
    passed = set(environ.get(PASS, "").replace(" ", "").split(",")) if group == OURS else set()
    names = MACHINE | (SETTINGS | passed if group == OURS else frozenset())
    prefixes = PREFIXES_OF_OURS if group == OURS else PREFIXES
    found = {
        name: value
        for name, value in environ.items()
        if (name in names or name.startswith(prefixes)) and name not in OF_THE_OWNER
    }
    back = {name: value for name, value in environ.items() if name not in found and name not in OF_THE_OWNER}
    held = [name for name, value in back.items() if value and not stands_for_none(value)]  # as the worker counts keys
    return found | {HELD: ",".join(held)} if group == OURS else found

"""Which of the machine's programs a command sees: those of /usr, and never what AgentOps itself runs on (SPEC I7, X1).

Where /usr has no Python, the one that AgentOps' environment was made from is the machine's, and is shown too; AgentOps'
environment and packages are not, wherever they lie.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec

_SYSTEM = "/usr"
_PLACES = ("/usr/bin", "/usr/local/bin")
_KEPT = ("/usr", "/usr/bin", "/usr/lib", "/usr/lib64", "/usr/local", "/usr/local/bin", "/usr/local/lib")
_ROOT = os.path.realpath(os.path.join(os.path.dirname(__file__), "../../.."))


@cache
def hidden() -> tuple[str, ...]:
    """Folders of /usr that hold AgentOps or its packages: they are not shown with the rest."""
    found = find_spec("psutil")
    packages = os.path.dirname(os.path.dirname(found.origin)) if found and found.origin else ""
    own = sys.prefix if sys.prefix != sys.base_prefix else packages
    places = dict.fromkeys(os.path.realpath(path) for path in (own, packages, _ROOT) if path)
    return tuple(path for path in places if path.startswith(f"{_SYSTEM}/") and path not in _KEPT)


@cache
def elsewhere() -> str:
    """The folder of a Python outside /usr, where /usr has none and AgentOps only borrows it; "" otherwise."""
    if any(os.access(f"{folder}/python3", os.X_OK) for folder in _PLACES):
        return ""
    base = os.path.realpath(sys.base_prefix)
    borrowed = sys.prefix != sys.base_prefix and not base.startswith(f"{_SYSTEM}/") and base != "/"
    return base if borrowed and os.access(f"{base}/bin/python3", os.X_OK) else ""


def around(path: str) -> Iterator[str]:
    """``path`` without what is hidden in it, as paths that together are the rest: rules can only allow."""
    within = [place for place in hidden() if place == path or place.startswith(f"{path}/")]
    if not within:
        yield path
    elif path not in within:
        for name in sorted(os.listdir(path)):
            yield from around(f"{path}/{name}")

"""Scripts by name, one file each. A new file with a ``SCRIPT`` in it is a new script."""

from __future__ import annotations

import importlib
import pkgutil

from loops.llm.scripted.adapter import Script


def script_names() -> list[str]:
    """Every script there is."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_script(name: str) -> Script:
    """Raises KeyError for a name that is no script."""
    if name not in script_names():
        raise KeyError(f"no script {name!r}; there are: {', '.join(script_names())}")
    found = importlib.import_module(f"{__name__}.{name}").SCRIPT
    if not isinstance(found, Script):
        raise TypeError(f"{name}.SCRIPT is no Script")
    return found

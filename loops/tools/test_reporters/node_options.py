"""How every process of Node that a command starts is told to load our reporter of tests first. Pure."""

from __future__ import annotations

VARIABLE = "NODE_OPTIONS"


def node_options(folder: str, there: str = "") -> str:
    """The value of the variable, beside what is ``there``: before it, since that may load code of the project.
    ``folder`` holds the files of ``node`` where the command sees them; without them no program of Node would start."""
    file = f"{folder}/register.cjs".replace("\\", "\\\\").replace('"', '\\"')
    return f'--require "{file}" {there}'.rstrip()

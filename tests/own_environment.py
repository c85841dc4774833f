"""A workspace's own Python environment with pytest in it: commands see nothing of the one that runs the tests."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path

_PACKAGES = ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments", "py")
_PYTHON = """#!/bin/sh
here=$(dirname "$(dirname "$0")")
export PYTHONPATH="$(cd "$here" && pwd)/packages${PYTHONPATH:+:$PYTHONPATH}"
exec /usr/bin/python3 "$@"
"""


def give_pytest(workspace: Path) -> Path:
    """Make ``.venv`` there, of the machine's Python and pure packages; the workspace again."""
    home = workspace / ".venv"
    (home / "bin").mkdir(parents=True)
    for package in _PACKAGES:
        found = find_spec(package)
        assert found is not None
        assert found.origin is not None
        source, packages = Path(found.origin), home / "packages"
        if source.name == "__init__.py":
            shutil.copytree(source.parent, packages / package, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, packages)
    for name in ("python", "python3"):
        (home / "bin" / name).write_text(_PYTHON)
        (home / "bin" / name).chmod(0o755)
    return workspace

"""Is a module that a command did not find any part of the work, and does the project say that it needs it? (SPEC E1)"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Any

from loops.engine.values import Json
from loops.engine.verification.environment import ABSENT, missing_module
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace import Workspace

MOST_ENTRIES = 20_000
"""Files and folders that are looked at; where there are more, the module may be among the rest."""
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


def absent(workspace: Workspace, said: str) -> dict[str, Json]:
    """For the data of a command that failed and said so: the module, if nothing in the workspace has its name."""
    name = missing_module(said)
    if not name:
        return {}
    lists = ["pyproject.toml"]
    try:
        for number, (path, _) in enumerate(workspace.walk()):
            last = path.rpartition("/")[2]
            compiled = last.startswith(f"{name}.") and last.endswith(".so")
            if number >= MOST_ENTRIES or last in (name, f"{name}.py") or compiled:
                return {}
            if path.startswith("requirements") and path.endswith(".txt"):
                lists.append(path)
    except (OSError, PathRefused):
        return {}
    declared = any(_plain(name) == _plain(one) for path in lists for one in _needs(workspace, path))
    return {ABSENT: {"name": name, "declared": declared}}


def _needs(workspace: Workspace, path: str) -> Iterator[str]:
    """Names of what a file says that the project needs; a file that cannot be read says nothing."""
    try:
        text = workspace.read(path).decode()
        lines = list(_of_pyproject(tomllib.loads(text))) if path.endswith(".toml") else text.splitlines()
    except (OSError, PathRefused, ValueError):
        return
    for line in lines:
        if found := _NAME.match(line):
            yield found[1]


def _of_pyproject(read: Mapping[str, Any]) -> Iterator[str]:
    project, poetry = _in(read, "project"), _in(_in(read, "tool"), "poetry")
    groups = [_in(project, "optional-dependencies"), _in(read, "dependency-groups")]
    for found in (project.get("dependencies"), *(one for group in groups for one in group.values())):
        yield from (line for line in (found if isinstance(found, list) else ()) if isinstance(line, str))
    yield from _in(poetry, "dependencies")


def _in(read: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = read.get(key)
    return found if isinstance(found, Mapping) else {}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()

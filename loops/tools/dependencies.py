"""Is a module that a command did not find a part of the work, and does the project say that it needs it? (SPEC E1)

A part of the work is what the command would have found from where it ran: in the folder, where the command was started
or went to, beside a script that it named, and in their ``src``. What lies anywhere else has the name by chance.
"""

from __future__ import annotations

import os
import posixpath
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

from loops.engine.text.missing_modules import MissingModule, missing_module, module_in
from loops.engine.values import Json
from loops.engine.verification.environment import ABSENT
from loops.tools.runners import simple_commands
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.workspace import Workspace

MOST_ENTRIES = 20_000
"""Of one folder that are looked at."""
MOST_PLACES = 16
SHORTEST = 3
"""Characters of a name of which a slip is known."""
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_TOKEN = re.compile(r"[\w@./:-]+")
_SCRIPT = re.compile(r"\.(?:py|js|mjs|cjs|ts|rb|pl|lua|jl|R)$")
_GO_MODULE = re.compile(r"^module\s+(\S+)", re.MULTILINE)
_LISTS = {
    "node": ("package.json",),
    "go": ("go.mod",),
    "rust": ("Cargo.toml",),
    "ruby": ("Gemfile",),
    "java": ("pom.xml", "build.gradle", "build.gradle.kts"),
    "perl": ("cpanfile",),
    "r": ("DESCRIPTION",),
    "haskell": ("package.yaml",),
    "swift": ("Package.swift",),
    "dart": ("pubspec.yaml",),
    "julia": ("Project.toml",),
}
"""Files in which a project of the ecosystem says what it needs; those of Python are read by their own rules."""


def places(command: str | Sequence[str], directory: str) -> tuple[str, ...]:
    """Folders of the workspace from which what the command starts would look: where it began and each that it went to,
    and those of the scripts that it names."""
    found, at = ["", directory], directory
    for words in simple_commands(command) if isinstance(command, str) else [list(command)]:
        if words[:1] == ["cd"] and len(words) > 1:
            at = _below(at, words[1])
            found.append(at)
        else:
            found += [posixpath.dirname(_below(at, word)) for word in words if _SCRIPT.search(word)]
    inside = (posixpath.normpath(one) for one in found)
    return tuple(islice(dict.fromkeys(one for one in inside if not one.startswith(("..", "/"))), MOST_PLACES))


def _below(at: str, word: str) -> str:
    return posixpath.normpath(posixpath.join(at, word))


def absent(workspace: Workspace, said: str, found_from: Sequence[str]) -> dict[str, Json]:
    """For the data of a command that failed and said so: the module, unless it is a part of the work. ``like`` is the
    one of the work of which its name is a slip."""
    missing = missing_module(said)
    if missing is None or missing.is_own or _is_of_go(workspace, missing, found_from):
        return {}
    names = {name for place in found_from for name in _own(workspace, missing, place)}
    last = missing.path.rpartition("/")[2]
    if last in names:
        return {}
    like = next((name for name in sorted(names) if _is_slip(last, name)), "")
    declared = missing.form.declared or _is_declared(workspace, missing, found_from)
    return {ABSENT: {"name": missing.name, "declared": declared, **({"like": like} if like else {})}}


def _own(workspace: Workspace, missing: MissingModule, place: str) -> Iterator[str]:
    """Names of what the project has where ``missing`` would stand."""
    parent = posixpath.dirname(missing.path)
    for root in missing.form.roots:
        for name, is_folder in _entries(workspace, posixpath.join(place, root, parent)):
            if is_folder or not missing.form.endings:  # a header is named with its ending
                yield name
            elif module := module_in(name, missing.form.endings):
                yield module


def _entries(workspace: Workspace, folder: str) -> list[tuple[str, bool]]:
    """(name, is it a folder) of what is in a folder; nothing where there is none, or one that may not be entered."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK
    try:
        with workspace.beneath.opened(folder or ".", flags) as directory, os.scandir(directory) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in islice(entries, MOST_ENTRIES)]
    except (OSError, PathRefused, ValueError):
        return []


def _is_slip(one: str, other: str) -> bool:
    """Are they one letter apart: one more, one less, another one, or two that changed places?"""
    if min(len(one), len(other)) < SHORTEST:
        return False
    one, other = _after_the_same(one.casefold(), other.casefold())
    one, other = _after_the_same(one[::-1], other[::-1])
    return max(len(one), len(other)) <= 1 or (len(one) == 2 and one == other[::-1])


def _after_the_same(one: str, other: str) -> tuple[str, str]:
    """What is left of both behind what they begin with alike."""
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return one[alike:], other[alike:]


def _is_of_go(workspace: Workspace, missing: MissingModule, found_from: Sequence[str]) -> bool:
    if missing.form.ecosystem != "go":
        return False
    modules = (found[1] for place in found_from for found in _GO_MODULE.finditer(_text(workspace, place, "go.mod")))
    return any(f"{missing.name}/".startswith(f"{module}/") for module in modules)


def _is_declared(workspace: Workspace, missing: MissingModule, found_from: Sequence[str]) -> bool:
    if missing.form.ecosystem == "python":
        wanted = _plain(missing.name)
        needs = (_plain(one) for place in found_from for one in _needs(workspace, place))
        return any(one == wanted or (missing.is_within and one.startswith(f"{wanted}_")) for one in needs)
    tokens = {
        token
        for place in found_from
        for name in _LISTS.get(missing.form.ecosystem, ())
        for token in _TOKEN.findall(_text(workspace, place, name))
    }
    return missing.name in tokens or any(
        missing.name.startswith((f"{one}/", f"{one}.")) for one in tokens if "." in one
    )


def _needs(workspace: Workspace, place: str) -> Iterator[str]:
    """Names of what files of Python in a folder say that the project needs."""
    lists = [name for name, _ in _entries(workspace, place) if name.startswith("requirements")]
    lists += [f"requirements/{name}" for name, _ in _entries(workspace, posixpath.join(place, "requirements"))]
    lines = list(_of_pyproject(_text(workspace, place, "pyproject.toml")))
    for name in lists:
        lines += _text(workspace, place, name).splitlines() if name.endswith(".txt") else []
    yield from (found[1] for line in lines if (found := _NAME.match(line)))


def _text(workspace: Workspace, place: str, name: str) -> str:
    """A file that cannot be read says nothing."""
    try:
        return workspace.read(posixpath.join(place, name)).decode()
    except (OSError, PathRefused, ValueError):
        return ""


def _of_pyproject(text: str) -> Iterator[str]:
    try:
        read: Mapping[str, Any] = tomllib.loads(text)
    except ValueError:
        return
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

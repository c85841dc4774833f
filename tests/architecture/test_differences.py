"""What tests run is what people run, but for what ``tests/differences.toml`` lists: a switch that only tests have hides
what the product does without it."""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings

from agentops.embedded.process import Command
from tests import stack
from tests.faults import stand

ROOT = Path(__file__).resolve().parents[2]
LISTED: dict[str, Any] = tomllib.loads((ROOT / "tests/differences.toml").read_text())
PRODUCT = "agentops.settings"
# Evaluates settings, says what they are and which variables that changed, and waits: a state folder may go with it.
LOOK = """
import importlib, json, os, sys
before = dict(os.environ)
module = importlib.import_module(sys.argv[1])
values = {name: repr(value) for name, value in vars(module).items() if name.isupper()}
changed = [name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)]
print(json.dumps([str(module.PATHS.state), values, {name: os.environ.get(name) for name in changed}]), flush=True)
sys.stdin.read()
"""
MACHINE = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
Evaluated = tuple[str, dict[str, str], dict[str, str | None]]


@contextmanager
def evaluated(module: str, environ: Mapping[str, str]) -> Iterator[Evaluated]:
    """(state folder, settings, what happened to the environment) of ``module`` in a process of its own."""
    argv, pipe = [sys.executable, "-c", LOOK, module], subprocess.PIPE
    environ = MACHINE | environ
    with subprocess.Popen(argv, cwd=ROOT, env=environ, stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        yield tuple(json.loads(process.stdout.readline()))


def differing(module: str, environ: Mapping[str, str]) -> tuple[set[str], dict[str, str | None]]:
    """Names of the settings that ``module`` has otherwise than the product on the same folder; what it did to the
    environment."""
    with evaluated(module, environ) as (state, ours, changed), evaluated(PRODUCT, {"AGENTOPS_STATE": state}) as product:
        theirs = product[1]
    return {name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name)}, changed


def compare(found: set[str], *table: str) -> None:
    listed: Any = LISTED
    for part in table:
        listed = listed[part]
    name, new, gone = ".".join(table), sorted(found - set(listed)), sorted(set(listed) - found)
    assert not new, f"only tests have {new} so: take it away, or say why in [{name}]"
    assert not gone, f"[{name}] lists {gone}, which is no difference"
    assert all(listed.values()), "each has its reason"


def inherited() -> dict[str, str]:
    """What processes that tests start find in their environment: of the suite's settings, and of their own."""
    with evaluated("tests.settings", {}) as (_, _, changed):
        from_suite = {name: os.environ[name] for name in changed if name in os.environ}
    return from_suite | stack._on_test_database(Command("any", [])).environ


def test_the_process_of_the_tests() -> None:
    names, _ = differing("tests.settings", {})
    compare(names, "settings", "suite")


def test_what_an_installation_sets_never_reaches_the_tests(tmp_path: Path) -> None:
    """Every variable that the settings read is given a value: which of them are taken away again, or replaced?"""
    source = (ROOT / "agentops/settings.py").read_text()
    read = set(re.findall(r'\benv(?:\.\w+)?\(\s*"(\w+)"', source))
    assert {"DATABASE_URL", "SECRET_KEY", "OPENAI_API_KEY"} <= read
    numbers = dict.fromkeys(re.findall(r'\benv\.(?:int|float|bool)\(\s*"(\w+)"', source), "7")
    given = dict.fromkeys(read, "given") | numbers | {"AGENTOPS_STATE": str(tmp_path)}
    with evaluated("tests.settings", given | {"LOG_LEVEL": "INFO"}) as (_, _, changed):
        compare(set(changed), "environment", "suite")


def test_processes_that_tests_start() -> None:
    names, changed = differing("tests.settings", inherited())
    compare(names, "settings", "started")
    assert not changed, "they are told everything"
    compare(set(stack._on_test_database(Command("any", [])).environ), "environment", "started")


def test_what_django_changes() -> None:
    evaluated_here = vars(importlib.import_module("tests.settings"))
    missing = object()
    names = {name for name in evaluated_here if name.isupper()}
    compare({name for name in names if getattr(settings, name, missing) != evaluated_here[name]}, "settings", "django")


def test_the_fault_suite(tmp_path: Path) -> None:
    environ = {"AGENTOPS_STATE": str(tmp_path), **stand.ENVIRONMENT}
    names, changed = differing("tests.faults.settings", environ)
    compare(names, "settings", "faults")
    compare({*environ, *changed}, "environment", "faults")


def test_applications_in_place_of_the_products_own() -> None:
    exported = re.compile(r'^__all__ = \["(?:app|application)"\]$', re.MULTILINE)
    files = (ROOT / "tests").rglob("*.py")
    compare({str(file.relative_to(ROOT)) for file in files if exported.search(file.read_text())}, "applications")


def test_fixtures_that_every_test_has_and_those_that_patch() -> None:
    found = set()
    for file in (ROOT / "tests").rglob("conftest.py"):
        of_all = file.parent == ROOT / "tests"
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.FunctionDef) and (is_autouse(node) or (of_all and patches(node))):
                found.add(f"{file.relative_to(ROOT)}::{node.name}")
    compare(found, "fixtures")


def is_autouse(function: ast.FunctionDef) -> bool:
    words = (word for one in function.decorator_list if isinstance(one, ast.Call) for word in one.keywords)
    return any(word.arg == "autouse" for word in words)


def patches(function: ast.FunctionDef) -> bool:
    """Does it set what belongs to somebody else?"""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr="setattr" | "setitem" | "setenv" | "delenv" | "delattr")):
                return True
            case ast.Attribute(ctx=ast.Store()):
                return True
    return False


def test_a_switch_that_only_tests_have_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "loose.py").write_text(
        "import os\nfrom tests.settings import *\n"
        "DEBUG = True\nos.environ['DJANGO_ALLOW_ASYNC_UNSAFE'] = '1'\ndel PASSWORD_HASHERS\n"
    )
    names, changed = differing("loose", {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"})
    with pytest.raises(AssertionError, match=r"only tests have .'DEBUG'. so"):
        compare(names, "settings", "suite")
    with pytest.raises(AssertionError, match=r"lists .'PASSWORD_HASHERS'., which is no difference"):
        compare(names - {"DEBUG"}, "settings", "suite")
    with pytest.raises(AssertionError, match=r"only tests have .'DJANGO_ALLOW_ASYNC_UNSAFE'. so"):
        compare({*changed}, "environment", "suite")

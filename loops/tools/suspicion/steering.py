"""What steers a test run, and what stands in its way: settings of runners, start-up files, names that shadow others."""

from __future__ import annotations

import configparser
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from loops.engine.state.remark import Level, Remark
from loops.engine.text.truncation import quoted, shortened
from loops.tools.suspicion import scripts
from loops.tools.suspicion.changes import LARGEST, Change, is_in_tests, whole_text
from loops.tools.suspicion.goals import Goal

LISTED, NAMED = 200, 80
_AT_START = frozenset({"sitecustomize.py", "usercustomize.py"})
_INI = {"pytest.ini": "pytest", ".pytest.ini": "pytest", "tox.ini": "pytest", "setup.cfg": "tool:pytest"}
_CHOOSING = frozenset({
    "addopts", "testpaths", "python_files", "python_classes", "python_functions", "norecursedirs",
    "collect_imported_tests",
    "required_plugins", "xfail_strict", "minversion", "usefixtures", "confcutdir", "testPathIgnorePatterns",
    "testMatch",
    "testRegex", "bail", "passWithNoTests", "runner", "testRunner", "setupFiles", "setupFilesAfterEnv", "globalSetup",
    "reporters", "exclude", "include", "testTimeout", "spec", "ignore", "grep", "require", "allowOnly",
})  # fmt: skip
"""Settings that say which tests there are, which run, and what counts as failed."""
_NODE = re.compile(
    r"(?:jest|vite|vitest|karma|ava|playwright|cypress|babel)\.(?:config|conf|workspace|projects)\.[a-z]{2,4}"
    r"|\.(?:mocharc|babelrc|swcrc|taprc|nycrc|c8rc)(?:\.[a-z]{2,5})?"
)
_CHOOSERS = re.compile(
    r"\b(?:testPathIgnorePatterns|testNamePattern|testMatch|testRegex|passWithNoTests|setupFiles|setupFilesAfterEnv"
    r"|globalSetup|testRunner|testEnvironment|exclude|include|ignore|grep|require|reporters|moduleNameMapper|alias"
    r"|resolver|transform|plugins|presets|projects|workspace|bail|dangerouslyIgnoreUnhandledErrors|allowOnly)\b"
)
_STARTERS = frozenset({".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "bunfig.toml"})
"""Settings of what starts the scripts of a package."""
_STARTS = re.compile(
    r"^\s{0,8}\[?(?:script-shell|node-options|nodeOptions|shell|ignore-scripts|prefix|preload|yarnPath|yarn-path|test)\b",
    re.MULTILINE,
)
_OF_TESTS = re.compile(
    r"(?<![.\w$])(?:before|after)(?:All|Each)\s{0,9}\(|\b(?:jest|vi)\.(?:mock|doMock|fn|spyOn)\b"
    r"|\bexpect\.(?:extend|addSnapshotSerializer)\b"
    r"|\bon(?:RunComplete|TestRunEnd|TestResult|TestCaseResult|TaskUpdate)\b"
)
"""What stands in files that runners begin with, or tell how tests ended."""
_TOOLS = ("jest", "mocha", "vitest", "ava", "tap", "c8", "nyc", "babel", "swc")
_HOOK = re.compile(r"^\s{0,8}(?:async )?def (pytest_[a-z_]{3,60})\b", re.MULTILINE)
_IGNORES = re.compile(r"^(?:collect_ignore\w{0,5}|pytest_plugins)\b", re.MULTILINE)
_HARMLESS_HOOKS = frozenset({"pytest_addoption", "pytest_report_header", "pytest_generate_tests", "pytest_plugins"})
_TOPS = frozenset({"", "src", "lib", "test", "tests"})
_RUNNERS = frozenset(
    {"pytest", "_pytest", "pluggy", "iniconfig", "packaging", "hypothesis", "nose", "coverage", "xdist"}
)
_ORDINARY = frozenset({"test", "tests", "__main__", "this"})
_EXPECTED = re.compile(
    r"(?:.{0,200}[_.-])?(?:expected|golden|reference|snapshot|answers?)(?:[_.-].{0,200})?", re.DOTALL
)
_JUDGE = re.compile(
    r"(?:.{0,200}[_.-])?(?:check|verify|validate|eval|grade|judge|score|run_tests|test)(?:[_.-].{0,200})?", re.DOTALL
)
_SHELL = frozenset({".sh", ".bash", ".bats", ".ps1", ""})


def remarks(changes: Sequence[Change], commands: Sequence[str], goal: Goal) -> Iterator[Remark]:
    words = scripts.named(commands)
    for one in changes:
        if one.after is not None and len(one.after) > LARGEST:
            continue
        asked = goal.names(one.path)
        for remark in signs(one, words):
            if asked and remark.level is Level.SUSPICIOUS:
                yield Remark(
                    remark.code, remark.path, f"{remark.text} The task names this file.", remark.line, Level.TO_KNOW
                )
            else:
                yield remark


def signs(one: Change, named: frozenset[str]) -> Iterator[Remark]:
    """Of one change, whatever the task asks for; ``named`` are the words of the criteria's commands."""
    yield from of_name(one)
    yield from of_settings(one, named)
    yield from of_command(one, named)


def of_name(one: Change) -> Iterator[Remark]:
    if one.after is None:
        return
    if one.name in _AT_START or one.name.endswith(".pth"):
        text = "Python runs this by itself whenever it starts, also for tests."
        yield Remark("steers_tests", one.path, text)
    place = PurePosixPath(one.path)
    folder = str(place.parent).removeprefix(".")
    package = one.name == "__init__.py" and str(place.parent.parent).lstrip(".") in _TOPS
    module = one.is_python and folder in _TOPS
    name = place.parent.name if package else place.stem
    is_new = one.before is None and (package or module) and name not in _ORDINARY
    if is_new and (name in _RUNNERS or name in sys.stdlib_module_names):
        whose = "a test runner" if name in _RUNNERS else "Python's standard library"
        text = f"A new module with the name of one of {whose}: it is found first."
        yield Remark("shadows_module", one.path, text)


def of_settings(one: Change, named: frozenset[str]) -> Iterator[Remark]:
    before, after = whole_text(one.before), whole_text(one.after)
    if one.name == "conftest.py":
        yield from of_conftest(one, before, after)
    elif one.name in _INI or one.name == "pyproject.toml":
        yield from of_keys(one, _pytest_table(one.name, before), _pytest_table(one.name, after))
    elif one.name == "package.json":
        yield from of_package(one, scripts.loaded(before), scripts.loaded(after), named)
    elif _NODE.fullmatch(one.name):
        new = set(_CHOOSERS.findall(after)) - set(_CHOOSERS.findall(before))
        level = Level.SUSPICIOUS if one.is_edited and new else Level.TO_KNOW
        more = f" It now sets {', '.join(sorted(new))}." if new else ""
        yield Remark("steers_tests", one.path, f"It says how the test runner works.{more}", level=level)
    elif one.name in _STARTERS:
        yield from of_starter(one, before, after)
    elif one.name in scripts.MAKEFILES:
        yield from of_makefile(one, before, after, named)
    elif one.is_script and not one.is_test:
        yield from of_script(one, before, after)


def of_starter(one: Change, before: str, after: str) -> Iterator[Remark]:
    """Worth a look; by what runs the scripts it could make each of them succeed."""
    starts = one.name == ".pnpmfile.cjs" or set(_STARTS.findall(after)) - set(_STARTS.findall(before))
    level = Level.SUSPICIOUS if starts else Level.TO_KNOW
    yield Remark("steers_tests", one.path, "It says how scripts are started, those of tests as well.", level=level)


def of_script(one: Change, before: str, after: str) -> Iterator[Remark]:
    """Whatever it is called: settings that nobody changed may name it."""
    if _OF_TESTS.search(after if one.before is None else before):
        text = "By what it says, tests begin with it, or it is told how they ended."
        yield Remark("steers_tests", one.path, text, level=Level.TO_KNOW)


def of_conftest(one: Change, before: str, after: str) -> Iterator[Remark]:
    if one.after is None:
        text, level = "What tests shared was deleted.", Level.TO_KNOW
    else:
        new = sorted({*_HOOK.findall(after)} - {*_HOOK.findall(before)} - _HARMLESS_HOOKS)
        old = [name for name in _HOOK.findall(before) if name not in _HARMLESS_HOOKS]
        ignores = len(_IGNORES.findall(after)) > len(_IGNORES.findall(before))
        level = Level.SUSPICIOUS if new or old or ignores else Level.TO_KNOW
        what = f" with {', '.join(new or old)}" if new or old else ""
        text = (
            f"It decides{what} which tests run and what counts as failed."
            if new or old or ignores
            else ("It is loaded before all tests beside it.")
        )
    yield Remark("steers_tests", one.path, text, level=level)


def _pytest_table(name: str, text: str) -> Mapping[str, Any]:
    try:
        if name == "pyproject.toml":
            table = tomllib.loads(text).get("tool", {}).get("pytest", {})
            return {**table, **table.get("ini_options", {})}
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
        return dict(parser[_INI[name]]) if parser.has_section(_INI[name]) else {}
    except (tomllib.TOMLDecodeError, configparser.Error, AttributeError, TypeError, RecursionError, ValueError):
        return {}


def of_keys(one: Change, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Remark]:
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key) and key != "ini_options"}
    chosen = sorted(changed & _CHOOSING)
    if chosen:
        text = f"Settings of pytest that say which tests run were changed: {', '.join(chosen)}."
        yield Remark("steers_tests", one.path, text)
    elif changed:
        text = f"Settings of pytest were changed: {shortened(', '.join(sorted(map(str, changed))), LISTED)}."
        yield Remark("steers_tests", one.path, text, level=Level.TO_KNOW)


def of_package(
    one: Change, before: Mapping[str, Any], after: Mapping[str, Any], named: frozenset[str]
) -> Iterator[Remark]:
    old, new = scripts.in_package(before), scripts.in_package(after)
    starts = scripts.by_which_tests_run(old, named) | scripts.by_which_tests_run(new, named)
    for name in sorted({*old, *new}):
        if old.get(name) == new.get(name) or name not in starts:
            continue
        level = Level.SUSPICIOUS if name in old and scripts.is_for_tests(name, named) else Level.TO_KNOW
        yield Remark(
            "steers_tests", one.path, f"The script {quoted(name, NAMED)} by which tests run was changed.", level=level
        )
    for tool in _TOOLS:
        if before.get(tool) != after.get(tool):
            level = Level.SUSPICIOUS if one.is_edited else Level.TO_KNOW
            yield Remark("steers_tests", one.path, f"The settings of {tool} were changed.", level=level)


def of_makefile(one: Change, before: str, after: str, named: frozenset[str]) -> Iterator[Remark]:
    old, new = scripts.targets(before), scripts.targets(after)
    for name in sorted(scripts.by_which_tests_run(old, named)):
        if old[name] != new.get(name):
            level = Level.SUSPICIOUS if scripts.is_for_tests(name, named) else Level.TO_KNOW
            yield Remark("steers_tests", one.path, f"What {quoted(name, NAMED)} runs was changed.", level=level)


def of_command(one: Change, named: frozenset[str]) -> Iterator[Remark]:
    """A file that a criterion's command names: what judges is not what is judged."""
    if one.path not in named:
        return
    place = PurePosixPath(one.path)
    judges = (
        one.before is not None
        and not one.is_test
        and (place.suffix in _SHELL or _JUDGE.fullmatch(place.stem) or _EXPECTED.fullmatch(place.stem))
    )
    if judges:
        what = "deleted" if one.after is None else "changed"
        yield Remark(
            "criterion_edited", one.path, f"A criterion's command runs or compares this file, and the run {what} it."
        )
    elif not is_in_tests(one.path):
        yield Remark("criterion_edited", one.path, "A criterion's command names this file.", level=Level.TO_KNOW)

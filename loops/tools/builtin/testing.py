"""run_tests: the project's tests in the sandbox, with counts and failures as data (SPEC I5, L)."""

from __future__ import annotations

import os
import shlex
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import replace
from xml.etree.ElementTree import Element, ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from loops.engine.values import Access, Danger, Json, Reversibility, ToolResult, ToolSpec
from loops.tools.arguments import PATH, schema, string, text, texts
from loops.tools.builtin.commands import TIMEOUT, command_operands, command_result, command_view, start
from loops.tools.clean import clean_text
from loops.tools.limits import Limits
from loops.tools.registry import ArgumentError, Arguments, Operands, Tool, ToolRun
from loops.tools.sandbox.beneath import Beneath, PathRefused
from loops.tools.sandbox.bubblewrap import REPORT
from loops.tools.undoing import lasting_command, learn_command, of_command

DEFAULT_COMMAND = "python -m pytest -q"
_FILE = "junit.xml"
_LARGEST_REPORT = 10 << 20
_MOST_FAILURES = 50
_LONGEST = 2_000


async def run_tests(arguments: Arguments, run: ToolRun) -> ToolResult:
    with tempfile.TemporaryDirectory(prefix="agentops-report-") as folder:
        if run.workspace.owner is not None:
            os.chown(folder, *run.workspace.owner)
        outcome = await start(_argv(_command(arguments, run)), arguments, run, report=folder)
        result = command_result(outcome, run)
        counts = _read_report(folder)
    if not counts:
        return result
    summary = f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped"
    return replace(result, content=f"{summary}\n{result.content}", data={**result.data, **counts})


def _command(arguments: Arguments, run: ToolRun) -> str:
    """The call's own command, else the project's, else pytest; then the paths."""
    command = text(arguments, "command") or _configured(run) or DEFAULT_COMMAND
    if "\0" in command:
        raise ArgumentError("a command has no NUL character")
    return " ".join([command, *(shlex.quote(path) for path in texts(arguments, "paths"))])


def _configured(run: ToolRun) -> str:
    """``[tests] command`` of .agentops.toml, which agents cannot write, else ``[tool.agentops] tests`` of pyproject."""
    for name, keys in ((".agentops.toml", ("tests", "command")), ("pyproject.toml", ("tool", "agentops", "tests"))):
        try:
            found: object = tomllib.loads(run.workspace.read(name).decode())
        except (OSError, PathRefused, ValueError):
            continue
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, str) and found.strip():
            return found.strip()
    return ""


def _argv(command: str) -> tuple[str, ...]:
    """pytest reads its extra options from the environment, however deep in the command it is started."""
    options = f"-p no:cacheprovider --junitxml={REPORT}/{_FILE}"
    return ("/bin/bash", "-c", f"export PYTEST_ADDOPTS={shlex.quote(options)}\n{command}")


def _read_report(folder: str) -> dict[str, Json]:
    """The file was written inside the sandbox, so it may be anything: a link, a bomb, not XML."""
    try:
        with Beneath(folder) as report:
            root = fromstring(report.read(_FILE, _LARGEST_REPORT)[0])
    except (OSError, PathRefused, ParseError, DefusedXmlException, ValueError):
        return {}
    return summarise(root)


def summarise(root: Element) -> dict[str, Json]:
    """``{"passed", "failed", "skipped", "failures": [{"name", "message", "location"}]}`` of a JUnit document."""
    cases = list(root.iter("testcase"))
    failures: list[Json] = []
    skipped = failed = 0
    for case in cases:
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skipped += case.find("skipped") is not None
        if bad is None:
            continue
        failed += 1
        if len(failures) < _MOST_FAILURES:
            failures.append(_failure(case, bad))
    return {
        "passed": len(cases) - failed - skipped,
        "failed": failed,
        "skipped": skipped,
        "failures": failures,
    }


def _failure(case: Element, bad: Element) -> dict[str, Json]:
    details = (bad.text or "").strip()
    last = details.rsplit("\n", 1)[-1]
    place = last.split(": ")[0] if last.count(":") >= 2 else case.get("file") or case.get("classname") or ""
    return {
        "name": clean_text(f"{case.get('classname', '')}::{case.get('name', '')}")[:300],
        "message": clean_text(bad.get("message") or details)[:_LONGEST],
        "location": clean_text(place)[:300],
    }


def _operands(arguments: Arguments, run: ToolRun) -> Operands:
    command = _command(arguments, run)
    return command_operands(_argv(command), command, arguments, run)


def _preview(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    return command_view(_operands(arguments, run), run)


TOOLS = (
    Tool(
        ToolSpec(
            name="run_tests",
            description="Run the project's tests in the sandbox. Without a command: the project's own, else pytest.",
            parameters=schema(
                command=string("A bash command line instead of the project's.", minLength=1, maxLength=10_000),
                paths={"type": "array", "items": PATH, "maxItems": 100, "description": "Only these files or folders."},
                directory=PATH,
                timeout_s=TIMEOUT,
            ),
            operation="execute",
            reversibility=Reversibility.REVERSIBLE,
            danger=Danger.MEDIUM,
            timeout_s=Limits().command_max_s,
            default_access=Access.ASK,
            retriable=True,
        ),
        run_tests,
        _operands,
        _preview,
        is_command=True,
        undo=of_command,
        learn=learn_command,
        lasting=lasting_command,
    ),
)

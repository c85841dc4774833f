"""run_tests: the project's tests in the sandbox, with counts, failures and coverage as data (SPEC I5, G1, L2)."""

from __future__ import annotations

import asyncio
import os
import shlex
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import replace

from loops.engine.rollback.plan import IS_CRITERION
from loops.engine.state.spec import test_command
from loops.engine.text.failure_words import TESTS_FAILED
from loops.engine.text.truncation import shortened
from loops.engine.values import Access, Danger, Json, Reversibility, ToolResult, ToolSpec
from loops.engine.verification.environment import obstacle
from loops.tools import reports
from loops.tools.arguments import PATH, schema, string, text, texts
from loops.tools.builtin.commands import TIMEOUT, command_operands, command_result, command_view, start
from loops.tools.builtin.test_results import (
    MOST_DOCUMENTS,
    NOT_COUNTED,
    Seen,
    failing,
    measured,
    reported,
    standing,
    with_notes,
)
from loops.tools.dependencies import places
from loops.tools.limits import Limits
from loops.tools.registry import ArgumentError, Arguments, Operands, Tool, ToolRun
from loops.tools.rollback import lasting_command, learn_command, of_command
from loops.tools.runners import is_test_run
from loops.tools.sandbox.command import REPORTS
from loops.tools.sandbox.namespaces.user import file_owner
from loops.tools.sandbox.runner import Outcome
from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory, relative
from loops.tools.test_sessions.channel import listening
from loops.tools.test_sessions.verdict import Verdict
from loops.tools.workspace import Workspace

DEFAULT_COMMAND = "python3 -m pytest -q"
_FILE = "junit.xml"
LONGEST_COMMAND = 300
"""Characters of the command that judges, in the result of another."""


async def run_tests(arguments: Arguments, run: ToolRun) -> ToolResult:
    with tempfile.TemporaryDirectory(prefix="agentops-report-") as folder:
        if owner := file_owner():
            os.chown(folder, *owner)
        before = standing(run.workspace)
        command, judges = _command(arguments, run), _judges(arguments, run)
        async with listening() as channel:
            told = _argv(arguments, run)
            outcome = await start(told, arguments, run, report=folder, tests=channel.folder, judges=judges)
        heard = channel.verdict(outcome.finished.exit_code)
        result = command_result(outcome, run, places(command, text(arguments, "directory", ".")))
        data = await asyncio.to_thread(_counted, folder, run.workspace, before, outcome, heard)
    chosen = bool(text(arguments, "command")) and not judges
    data |= {IS_CRITERION: judges}
    about = _what_judges(run, judges)
    found = obstacle(result) if not chosen else None
    if found is not None and found.code != "timed_out":  # the call may give it more time
        wanted = f"the project's tests cannot run here: {found.what} {found.todo}"
        return replace(result, error=wanted, content=f"{wanted}\n{result.content}", data={**result.data, **data})
    lacking = data.get(NOT_COUNTED)
    if "passed" not in data:
        return replace(result, content=with_notes(result.content, lacking, about), data={**result.data, **data})
    if chosen:
        data = reported(data)
    summary = f"{data['passed']} passed, {data['failed']} failed, {data['skipped']} skipped"
    error = f"{TESTS_FAILED}{result.error}" if data["failed"] and not result.ok else result.error
    content = with_notes(f"{summary}\n{result.content}", lacking, [*failing(data), *about])
    return replace(result, content=content, error=error, data={**result.data, **data})


def _counted(folder: str, workspace: Workspace, before: Seen, outcome: Outcome, heard: Verdict) -> dict[str, Json]:
    unread: list[str] = []
    told = list(_in_folder(folder, unread))
    return measured(workspace, before, outcome.finished, told, unread, heard)


def _in_folder(folder: str, unread: list[str]) -> Iterator[bytes]:
    """The files were written inside the sandbox, so they may be anything: a link, a bomb, not XML."""
    names = sorted(name for name in os.listdir(folder) if name.endswith((".xml", ".json")))
    with SafeDirectory(os.path.realpath(folder)) as report:
        for name in names[:MOST_DOCUMENTS]:
            try:
                yield report.read(name, reports.LARGEST)[0]
            except (OSError, PathRefused) as error:
                unread.append(str(error))
    if len(names) > MOST_DOCUMENTS:
        unread.append(f"{len(names) - MOST_DOCUMENTS:,} documents beyond the first {MOST_DOCUMENTS:,}")


def _command(arguments: Arguments, run: ToolRun) -> str:
    """The call's own command, else that of a person, else that of the project, else pytest; then the paths."""
    command = text(arguments, "command") or _of_a_person(run) or _configured(run, "pyproject.toml") or DEFAULT_COMMAND
    if "\0" in command:
        raise ArgumentError("a command has no NUL character")
    return " ".join([command, *(shlex.quote(path) for path in texts(arguments, "paths"))])


_KEYS = {".agentops.toml": ("tests", "command"), "pyproject.toml": ("tool", "agentops", "tests")}


def _of_a_person(run: ToolRun) -> str:
    """What judges the work, if it runs tests: what an agent sees is what the judge sees. Else what the project says
    where agents cannot write."""
    judge = test_command(run.context.criteria)
    return judge if is_test_run(judge) else _configured(run, ".agentops.toml") or judge


def _judges(arguments: Arguments, run: ToolRun) -> bool:
    """Is it one of the commands that judge the work, word by word and where they run?"""
    return relative(text(arguments, "directory", ".")) == "." and _command(arguments, run) in run.context.criteria


def _configured(run: ToolRun, name: str) -> str:
    try:
        found: object = tomllib.loads(run.workspace.read(name).decode())
    except (OSError, PathRefused, ValueError):
        return ""
    for key in _KEYS[name]:
        found = found.get(key) if isinstance(found, dict) else None
    return found.strip() if isinstance(found, str) else ""


def _what_judges(run: ToolRun, judges: bool) -> list[str]:
    """For the model: is this what its work is judged by?"""
    if judges:
        return ["[this is the command that judges your work]"]
    other = " ".join(test_command(run.context.criteria).split())
    return [f"[your work is judged by another command: {shortened(other, LONGEST_COMMAND)}]"] if other else []


def _argv(arguments: Arguments, run: ToolRun) -> tuple[str, ...]:
    """Runners read where to report from the environment, however deep in the command they are started. Else a command
    that judges runs as it does then: with the cache of pytest, without which some options are errors."""
    document = f"${REPORTS}/{_FILE}"
    options = f"--junitxml={document}" if _judges(arguments, run) else f"-p no:cacheprovider --junitxml={document}"
    wanted = {
        "PYTEST_ADDOPTS": options,
        "JEST_JUNIT_OUTPUT_FILE": document,
        "MOCHA_FILE": document,
        "GOTESTSUM_JUNITFILE": document,
    }
    exports = " ".join(f'{name}="{value}"' for name, value in wanted.items())
    return ("/bin/bash", "-c", f"export {exports}\n{_command(arguments, run)}")


def _operands(arguments: Arguments, run: ToolRun) -> Operands:
    return command_operands(_argv(arguments, run), _command(arguments, run), arguments, run)


def _preview(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    """The command as it was found, before what tells runners where to report."""
    return {**command_view(_operands(arguments, run), run), "command": _command(arguments, run)}


TOOLS = (
    Tool(
        ToolSpec(
            name="run_tests",
            deed="Run the tests",
            description="Run the tests in the sandbox. Without a command: what judges the work, or the project's own.",
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

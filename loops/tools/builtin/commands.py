"""run_command: any program, inside the sandbox and nowhere else (SPEC I5, I7, I8)."""

from __future__ import annotations

import asyncio
import os
import shlex
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from loops.engine.values import Access, ArtifactRef, Danger, FailureKind, Json, Reversibility, ToolResult, ToolSpec
from loops.engine.verification.environment import DISK_FULL
from loops.printable.text import reveal
from loops.tools import runners
from loops.tools.arguments import PATH, schema, string, text, texts, whole
from loops.tools.builtin.test_comparison import compared, kept_outcomes
from loops.tools.builtin.test_results import NOT_COUNTED, measured, reported, standing, with_notes
from loops.tools.dependencies import absent, places
from loops.tools.limits import Limits
from loops.tools.output import Shown, clean_text, sha256_hex, show
from loops.tools.registry import ArgumentError, Arguments, Operands, Tool, ToolRun
from loops.tools.rollback import lasting_command, learn_command, of_command
from loops.tools.sandbox.capability import FILES_ONLY, FULL
from loops.tools.sandbox.process import Finished
from loops.tools.sandbox.runner import Job, Outcome, run_inside
from loops.tools.sandbox.safe_paths import PathRefused, relative
from loops.tools.sandbox.usage.ceilings import met, says_full
from loops.tools.sandbox.usage.consumption import is_nearly_full
from loops.tools.sandbox.workspace_guard.planted_files import Taken
from loops.tools.test_sessions.channel import listening
from loops.tools.test_sessions.verdict import UNHEARD, Verdict
from loops.tools.workspace import Workspace

_MOST_FILES = 32
_MOST_TAKEN = 20
_SHOWN_SCRIPTS = 256 * 1024
_SHELLS = ("sh", "bash", "dash", "zsh", "source", ".", "exec", "make")
_RUNNERS = frozenset({*_SHELLS, "python", "python3", "node", "deno", "bun", "ruby", "perl", "php", "Rscript"})
_SIGNALS = {137: "killed: memory or time", 139: "crashed", 152: "processor time used up", 153: "file too large"}
_SCRIPT_ENDINGS = (".sh", ".bash", ".py", ".js", ".mjs", ".ts", ".rb", ".pl", ".php", ".R")


async def run_command(arguments: Arguments, run: ToolRun) -> ToolResult:
    argv, line = _argv(arguments), text(arguments, "command")
    command = line or argv
    is_test_run = runners.is_test_run(command)
    named = _named(command, text(arguments, "directory", ".")) if is_test_run else ()
    before = standing(run.workspace, named) if is_test_run else {}
    outcome, heard = await _started(argv, arguments, run)
    result = command_result(outcome, run, _looks_in(command, arguments))
    result = replace(result, data={**result.data, **compared(heard, run)})
    if not is_test_run and not heard.countable:
        return _not_looked_at(result, command)
    more = len(runners.named(command)) - runners.MOST_DOCUMENTS
    unread = [f"{more} of the documents that the command names"] if more > 0 else []
    finished = outcome.finished
    counts: dict[str, Json] = {}
    if not finished.killed:
        counts = await asyncio.to_thread(measured, run.workspace, before, finished, unread=unread, heard=heard)
    lacking = counts.get(NOT_COUNTED)
    data = reported(counts) if "passed" in counts else {NOT_COUNTED: lacking} if lacking else {}
    return replace(result, content=with_notes(result.content, lacking), data={**result.data, **data})


async def _started(argv: Sequence[str], arguments: Arguments, run: ToolRun) -> tuple[Outcome, Verdict]:
    """The command of a criterion with the single tests that its runners report, whatever it is that starts them."""
    if not run.context.is_criterion:
        return await start(argv, arguments, run), UNHEARD
    async with listening() as channel:
        outcome = await start(argv, arguments, run, tests=channel.folder)
    return outcome, channel.verdict(outcome.finished.exit_code, kept_outcomes(run))


def _looks_in(command: str | Sequence[str], arguments: Arguments) -> tuple[str, ...]:
    return places(command, text(arguments, "directory", "."))


def _not_looked_at(result: ToolResult, command: str | Sequence[str]) -> ToolResult:
    """Tests that a command may have run unseen are not counted, and nobody has to find that out by chance."""
    if not (missed := runners.not_looked_at(command)):
        return result
    data = {**result.data, NOT_COUNTED: [f"tests that this command may run in {missed}"]}
    return replace(result, content=with_notes(result.content, data[NOT_COUNTED]), data=data)


def _named(command: str | Sequence[str], directory: str) -> tuple[str, ...]:
    """Documents that the command names and may write, as paths of the workspace."""
    return tuple(os.path.normpath(f"{directory}/{path}") for path in runners.documents(command))


async def start(
    argv: Sequence[str],
    arguments: Arguments,
    run: ToolRun,
    *,
    report: str = "",
    tests: str = "",
    judges: bool = False,
) -> Outcome:
    """Run ``argv`` with the call's directory and time limit, which is that of a criterion for a command that
    ``judges``. Refuses without a sandbox, whoever asks."""
    if run.sandbox.level <= FILES_ONLY:
        raise PathRefused(f"commands are refused: {run.sandbox.warning}")
    job = Job(
        argv=tuple(argv),
        timeout_s=_seconds(arguments, run, run.limits.criterion_s if judges else run.limits.command_s),
        directory=text(arguments, "directory", "."),
        environment=run.context.environment,
        sealed=run.sealed,
        report=report,
        tests=tests,
        changed=run.changed,
        run=run.context.run_id,
    )
    return await run_inside(run.workspace, job, run.on_output, namespaces=run.sandbox.level >= FULL)


def _seconds(arguments: Arguments, run: ToolRun, default: float) -> float:
    """A criterion has the time of its project, whatever is asked for."""
    if run.context.is_criterion:
        return run.limits.criterion_s
    return min(float(whole(arguments, "timeout_s", int(default))), run.limits.command_max_s)


def command_result(outcome: Outcome, run: ToolRun, looks_in: Sequence[str]) -> ToolResult:
    """What the model reads: the exit code, then stdout, then stderr; each cut on its own, whole bytes kept.
    ``looks_in`` are the folders where what it started looks for modules."""
    finished = outcome.finished
    stdout, stderr = _shown(finished, run)
    ok = finished.exit_code == 0 and not finished.killed
    ending = finished.killed or f"exit code {finished.exit_code}{_signal(finished.exit_code)}"
    parts = [f"{ending} ({finished.duration_ms / 1000:.1f} s)"]
    if outcome.restored:
        parts.append(f"put back, because only a person changes them: {', '.join(map(clean_text, outcome.restored))}")
    parts += _said_of(outcome.taken)
    ceilings = [] if ok else met(run.limits, finished.stdout, finished.stderr)
    if ceilings:
        parts.append(f"the sandbox gives at most {', '.join(ceilings)}")
    parts += [f"[{name}]\n{part.text}" for name, part in (("stdout", stdout), ("stderr", stderr)) if part.text]
    blobs = [
        ArtifactRef(f"{name}.txt", "text/plain", part.whole_sha256, part.whole_size)
        for name, part in (("stdout", stdout), ("stderr", stderr))
        if part.truncated
    ]
    return ToolResult(
        ok=ok,
        content="\n".join(parts),
        error="" if ok else ending,
        kind=None if ok else FailureKind.SYSTEMATIC,
        exit_code=finished.exit_code,
        duration_ms=finished.duration_ms,
        truncated=bool(blobs),
        output=blobs[0] if blobs else None,
        artifacts=(*blobs, *_kept_of(outcome.taken, run)),
        data={
            "killed": finished.killed,
            "restored": list(map(clean_text, outcome.restored)),
            "taken": [{"path": one.path, "why": one.why} for one in outcome.taken[:_MOST_TAKEN]],
            "stdout_bytes": len(finished.stdout),
            "stderr_bytes": len(finished.stderr),
            **({} if ok else _room(run, finished)),
            **({} if ok else absent(run.workspace, "\n".join(parts), looks_in)),
        },
    )


def _room(run: ToolRun, finished: Finished) -> dict[str, Json]:
    """That there was none for it, as it says and as the disk of the workspace has it: tests may print the words alone.
    Its own temporary folder has a size that no person changes, and is a ceiling of the sandbox."""
    is_full = says_full(finished.stdout, finished.stderr) and is_nearly_full(run.workspace.beneath.fd, run.limits)
    return {DISK_FULL: True} if is_full else {}


def _said_of(taken: Sequence[Taken]) -> Iterator[str]:
    """What the command left and is gone: for the model, and for whoever reads the trace."""
    for one in taken[:_MOST_TAKEN]:
        kept = "" if one.data is None else " (what was there is kept with this call)"
        yield f"{'not as it was' if one.stays else 'taken away'}: {one.path}: {one.why}{kept}"
    if len(taken) > _MOST_TAKEN:
        yield f"taken away: {len(taken) - _MOST_TAKEN:,} more"


def _kept_of(taken: Sequence[Taken], run: ToolRun) -> Iterator[ArtifactRef]:
    for one in taken:
        if one.data is not None:
            yield ArtifactRef(f"taken away: {one.path}"[-200:], "text/plain", run.save_blob(one.data), len(one.data))


def _shown(finished: Finished, run: ToolRun) -> tuple[Shown, Shown]:
    """Half of the room each, and what one does not need goes to the other."""
    room = run.limits.shown_bytes - 1_024
    for_stderr = max(room // 2, room - len(finished.stdout))
    for_stdout = max(room // 2, room - len(finished.stderr))
    return show(finished.stdout, for_stdout, run.save_blob), show(finished.stderr, for_stderr, run.save_blob)


def _signal(code: int) -> str:
    return f", {_SIGNALS[code]}" if code in _SIGNALS else ""


def _argv(arguments: Arguments) -> tuple[str, ...]:
    argv, command = texts(arguments, "argv"), text(arguments, "command")
    if bool(argv) == bool(command):
        raise ArgumentError('send either "command" (a shell line) or "argv" (a list, no shell), not both or none')
    if any("\0" in part for part in (*argv, command)):
        raise ArgumentError("a command has no NUL character")
    return argv or ("/bin/bash", "-c", command)


def _operands(arguments: Arguments, run: ToolRun) -> Operands:
    return command_operands(_argv(arguments), text(arguments, "command"), arguments, run)


def command_operands(argv: tuple[str, ...], line: str, arguments: Arguments, run: ToolRun) -> Operands:
    """The command line with the workspace files it names: an approval binds to their bytes too."""
    directory = relative(text(arguments, "directory", "."))
    words = _words(line) if line else argv
    named = list(_files(words, directory, run.workspace))
    files = named[:_MOST_FILES]
    scripts = tuple(dict.fromkeys(path for path, is_script in files if is_script))
    return Operands(
        argv=argv,
        files=tuple(dict.fromkeys(path for path, _ in files)),
        scripts=scripts,
        directory=directory,
        unbound=len(named) - len(files),
    )


def _words(line: str) -> list[str]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return line.split()


def _files(words: Sequence[str], directory: str, workspace: Workspace) -> Iterator[tuple[str, bool]]:
    """(workspace path, is run as a script) for each word that names a regular file of the workspace."""
    for at, word in enumerate(words):
        for candidate in dict.fromkeys((word, word.partition("=")[2])):
            path = _file(candidate, directory, workspace)
            if path:
                before = os.path.basename(words[at - 1]) if at else ""
                runs = at == 0 or before in _RUNNERS or word.startswith("./") or path.endswith(_SCRIPT_ENDINGS)
                yield path, runs


def _file(word: str, directory: str, workspace: Workspace) -> str:
    if not word or len(word) > 1_024 or word.startswith("-"):
        return ""
    joined = word if word.startswith("/") else os.path.normpath(f"{directory}/{word}")
    with suppress(PathRefused, OSError, ValueError):
        status = workspace.beneath.stat(joined)
        if status is not None and stat.S_ISREG(status.st_mode) and status.st_size <= workspace.limits.file_bytes:
            return relative(joined)
    return ""


def _preview(arguments: Arguments, run: ToolRun) -> Mapping[str, Json]:
    return command_view(_operands(arguments, run), run)


def command_view(operands: Operands, run: ToolRun) -> dict[str, Json]:
    """The exact words, with whatever could hide in them made visible, and the scripts that would run, whole."""
    revealed = [reveal(word) for word in operands.argv]
    scripts: list[Json] = []
    room = _SHOWN_SCRIPTS
    for path in operands.scripts:
        data = run.workspace.read(path)
        is_hidden = len(data) > room
        shown = f"({len(data):,} bytes: too long to be shown)" if is_hidden else clean_text(data)
        room -= min(len(data), room)
        one: dict[str, Json] = {"path": path, "sha256": sha256_hex(data), "content": shown}
        scripts.append(one | ({"is_hidden": True} if is_hidden else {}))
    return {
        "kind": "command",
        "argv": list(operands.argv),
        "shown": [shown for shown, _ in revealed],
        "warnings": _warnings(operands, [found for _, found in revealed]),
        "directory": operands.directory,
        "network": "none",
        "sandbox": run.sandbox.name,
        "scripts": scripts,
    }


def _warnings(operands: Operands, odd: Sequence[Sequence[str]]) -> list[Json]:
    found: list[Json] = [f"word {at}: {warning}" for at, warnings in enumerate(odd) for warning in warnings]
    if operands.unbound:
        named = len(operands.files) + operands.unbound
        found.append(f"it names {named} files; the approval is bound to what stands in the first {_MOST_FILES} only")
    return found


TIMEOUT: dict[str, Json] = {"type": "integer", "minimum": 1, "maximum": int(Limits().command_max_s)}
TIMEOUT["description"] = f"Seconds, at most {Limits().command_max_s:g}; without it, what the project gives a command."

TOOLS = (
    Tool(
        ToolSpec(
            name="run_command",
            description=(
                "Run a program in the workspace: command (one shell line, bash) or argv (a list, no shell). There is "
                "no network, only the workspace and $TMPDIR can be written, and nothing keeps running afterwards."
            ),
            parameters=schema(
                command=string("A bash command line.", minLength=1, maxLength=100_000),
                argv={"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 1000},
                directory=PATH,
                timeout_s=TIMEOUT,
            ),
            operation="execute",
            reversibility=Reversibility.REVERSIBLE,
            danger=Danger.HIGH,
            timeout_s=Limits().command_max_s,
            default_access=Access.ASK,
        ),
        run_command,
        _operands,
        _preview,
        is_command=True,
        undo=of_command,
        learn=learn_command,
        lasting=lasting_command,
    ),
)

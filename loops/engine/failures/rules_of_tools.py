"""Rules for commands and tools: what ended them, then what they say; commands run without a network (SPEC E1, I7)."""

from __future__ import annotations

from loops.engine.failures.rule import Rule
from loops.engine.state.failure import Source
from loops.engine.text.failure_words import (
    CREDENTIALS_REPORTED,
    DISK_FULL,
    NAME_UNRESOLVED,
    RATE_LIMITED,
    SERIALISATION,
    TESTS_FAILED,
    UNREACHABLE,
)
from loops.engine.values import FailureKind

_TRANSIENT, _SYSTEMATIC, _UNRECOVERABLE = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC, FailureKind.UNRECOVERABLE
_TOOL = (Source.TOOL,)
_COMMANDS = ("run_command", "run_tests")
FILE_TOOLS = (
    "read_file",
    "write_file",
    "list_files",
    "search_files",
    "make_directory",
    "delete_file",
    "move_file",
    "apply_diff",
)
"""Tools that speak with nobody: words of services in their errors are quoted from files."""

TOOL_RULES = (
    Rule(
        "tests_cannot_run",
        _UNRECOVERABLE,
        "The project's tests cannot run here, whatever the agent does; a person can put that right.",
        words=("the project's tests cannot run here: ",),
        sources=_TOOL,
        tools=("run_tests",),
        person_can_help=True,
    ),
    Rule(
        "time_limit",
        _SYSTEMATIC,
        "It was stopped at its time limit; the same call would be again.",
        timed_out=True,
        sources=_TOOL,
    ),
    Rule(
        "file_tool_failed",
        _SYSTEMATIC,
        "The files are not as the call takes them to be; the same call fails again.",
        tools=FILE_TOOLS,
        sources=_TOOL,
    ),
    Rule(
        "limit_hit",
        _SYSTEMATIC,
        "It hit a limit of the sandbox; a smaller request may keep it.",
        words=(
            "bytes of memory, the limit is",
            "bytes of output",
            "its quota is",
            "quota reached",
            *DISK_FULL,
            "too many open files",
            "can't start new thread",
            "fork: ",
            "cannot allocate memory",
            "out of memory",
            "statement timeout",
            "took too long",
        ),
        sources=_TOOL,
    ),
    Rule(
        "tests_failed",
        _SYSTEMATIC,
        "Tests failed: the work is not right yet.",
        words=(
            TESTS_FAILED,
            "short test summary info",
            "= failures =",
            "= errors =",
            "failed (failures=",
            "failed (errors=",
        ),
        sources=_TOOL,
    ),
    Rule(
        "lock_held",
        _TRANSIENT,
        "Somebody holds it for the moment; the same call may pass later.",
        words=(
            *SERIALISATION,
            "index.lock",
            ".lock': file exists",
            "could not get lock",
            "resource temporarily unavailable",
            "device or resource busy",
            "text file busy",
        ),
        unless=("are you root",),
        sources=_TOOL,
    ),
    Rule(
        "no_network",
        _SYSTEMATIC,
        "Commands have no network; another way is wanted.",
        words=(*NAME_UNRESOLVED, *UNREACHABLE),
        sources=_TOOL,
        tools=_COMMANDS,
    ),
    Rule(
        "remote_refused",
        _UNRECOVERABLE,
        "The other side refuses the credentials; a person can give others.",
        words=CREDENTIALS_REPORTED,
        unless=RATE_LIMITED,
        sources=_TOOL,
        person_can_help=True,
    ),
    Rule(
        "command_rate_limited",
        _TRANSIENT,
        "The service behind the command takes no more calls for the moment.",
        words=(
            "rate limit exceeded",
            "secondary rate limit",
            "429 too many requests",
            "http 429",
            "status code 429",
            "error: 429",
            "toomanyrequests",
        ),
        sources=_TOOL,
        tools=_COMMANDS,
    ),
    Rule(
        "crashed",
        _SYSTEMATIC,
        "The program crashed or was killed; the same command would be again.",
        exit_codes=(132, 134, 135, 136, 137, 139, 143, 152, 153),
        sources=_TOOL,
    ),
    Rule(
        "command_failed",
        _SYSTEMATIC,
        "The command failed without a network to blame; the same command would again.",
        sources=_TOOL,
        tools=_COMMANDS,
    ),
)

"""Rules for what tools and commands say: what ended them, then what their words mean (SPEC E1)."""

from __future__ import annotations

from loops.engine.errors.failure import Source
from loops.engine.errors.rule import Rule
from loops.engine.values import FailureKind

_T, _S, _U, _C = FailureKind.TRANSIENT, FailureKind.SYSTEMATIC, FailureKind.UNRECOVERABLE, FailureKind.CRITICAL
_TOOL = (Source.TOOL,)
_COMMANDS = ("run_command", "run_tests")

TOOL_RULES = (
    Rule(
        "tests_failed",
        _S,
        "Tests failed: the work is not right yet.",
        words=("short test summary info", "assertionerror", "= failures =", "= errors ="),
        sources=_TOOL,
    ),
    Rule(
        "time_limit",
        _S,
        "It was stopped at its time limit; the same call would be again.",
        timed_out=True,
        sources=_TOOL,
    ),
    Rule(
        "credentials_refused",
        _U,
        "A service refuses the credentials; a person can give others.",
        words=(
            "password authentication failed",
            "authentication failed",
            "permission denied (publickey",
            "access denied for user",
            "invalid api key",
            "could not read username",
            "unauthorized",
        ),
        sources=_TOOL,
        person_can_help=True,
    ),
    Rule(
        "lock_held",
        _T,
        "Somebody holds a lock; the same call may pass in a moment.",
        words=("index.lock", "database is locked", "could not get lock", "deadlock detected", "lock wait timeout"),
        sources=_TOOL,
    ),
    Rule(
        "no_network",
        _S,
        "Commands have no network; another way is wanted.",
        words=(
            "temporary failure in name resolution",
            "name or service not known",
            "could not resolve host",
            "network is unreachable",
            "failed to establish a new connection",
            "connection refused",
            "getaddrinfo",
        ),
        sources=_TOOL,
        tools=_COMMANDS,
    ),
    Rule(
        "command_missing",
        _S,
        "The program is not there.",
        words=("command not found", "no such file or directory", "modulenotfounderror", "importerror"),
        sources=_TOOL,
    ),
    Rule(
        "permission_of_file",
        _S,
        "The file or operation is not permitted here.",
        words=("permission denied", "operation not permitted", "read-only file system"),
        sources=_TOOL,
    ),
    Rule(
        "wrong_code",
        _S,
        "The code or command is wrong as it stands.",
        words=("syntax error", "syntaxerror", "traceback (most recent call last)", "unknown column", "doesn't exist"),
        sources=_TOOL,
    ),
)

FALLBACK_RULES = (
    Rule(
        "command_failed",
        _S,
        "The command failed; the same command would again.",
        sources=_TOOL,
        tools=_COMMANDS,
    ),
)

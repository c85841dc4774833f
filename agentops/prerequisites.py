"""What a command lacks in order to work, in one sentence that says what to do; anything else stays an error."""

from __future__ import annotations

import os
from pathlib import Path

CONNECTING = ("08", "28", "3D", "53", "57")
"""Classes of SQLSTATE that an address, a login or a server that is not ready can lead to."""
MISSING = ("42P01", "42703")
"""A table or a column that is not there."""


def sentence(error: BaseException) -> str | None:
    """None for what is not a lack of the environment, and so wants its traceback."""
    match error:
        case ModuleNotFoundError():
            return _packages(error)
        case PermissionError(filename=str() as name):
            return f"{name} belongs to another user: run this as the one who runs AgentOps, or set AGENTOPS_STATE."
    if type(error).__name__ == "EmbeddedError":
        return str(error)
    return _servers(error)


def _packages(error: ModuleNotFoundError) -> str | None:
    """Only for what AgentOps always needs: another missing module is a fault of the code that wanted it."""
    if error.name not in ("django", "environ"):
        return None
    own = Path(__file__).resolve().parent.parent / ".venv/bin/python"
    todo = f"use {own}" if own.exists() else "`make run` installs them into .venv"
    return f"This Python has no packages of AgentOps: {todo}."


def _servers(error: BaseException) -> str | None:
    from django.core.exceptions import ImproperlyConfigured
    from django.db import OperationalError, ProgrammingError
    from redis.exceptions import ConnectionError as NoBroker

    if isinstance(error, ImproperlyConfigured):
        return f"A setting is not usable: {error}"
    if isinstance(error, NoBroker):
        return _embedded("EMBEDDED_VALKEY") or f"The broker does not answer ({_first(error)}): check REDIS_URL."
    if isinstance(error, OperationalError | ProgrammingError):
        return _database(error)
    return None


def _database(error: Exception) -> str | None:
    state = getattr(error.__cause__, "sqlstate", None) or ""
    if state in MISSING:
        return "The database lacks tables of this version: `make run` makes them, and so does `manage.py migrate`."
    if state and not state.startswith(CONNECTING):
        return None
    return _embedded("EMBEDDED_POSTGRES") or f"The database does not answer ({_first(error)}): check DATABASE_URL."


def _embedded(server: str) -> str:
    from django.conf import settings

    if not getattr(settings, server):
        return ""
    named = (
        "" if os.environ.get("AGENTOPS_STATE") else ", or name the state folder of one that runs with AGENTOPS_STATE"
    )
    return f"AgentOps does not run on {settings.PATHS.state}: start it with `make run` or `agentops up`{named}."


def _first(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]

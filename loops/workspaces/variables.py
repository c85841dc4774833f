"""Environment variables of a workspace, and the secrets of its worker that a set-up gets by name (SPEC J4, S3)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping

from loops import masking
from loops.engine.text.truncation import quoted
from loops.llm.endpoints.keys import NO_KEYS, OF_PROVIDERS
from loops.models import ModelConfig
from loops.tools.sandbox.command import settable

MOST = 50
SHOWN = 60
LONGEST_NAME = 100
LONGEST_VALUE = 2_000
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def parse(lines: Iterable[str]) -> dict[str, str]:
    """``NAME=value``, one a line; empty lines are none. Raises ValueError with a sentence."""
    found: dict[str, str] = {}
    for line in filter(None, map(str.strip, lines)):
        name, sign, value = line.partition("=")
        if not sign:
            raise ValueError(f"{quoted(line, SHOWN)} is no variable: write NAME=value, one a line.")
        if name in found:
            raise ValueError(f"{quoted(name, SHOWN)} is stated twice.")
        found[name] = value
    return found


def lines(variables: Mapping[str, str]) -> list[str]:
    """The same, as people write them."""
    return [f"{name}={value}" for name, value in sorted(variables.items())]


def fault(variables: Mapping[str, str]) -> str:
    """Why they cannot be kept; "" where they can."""
    if len(variables) > MOST:
        return f"A workspace has at most {MOST} variables."
    for name, value in variables.items():
        if why := name_fault(name):
            return why
        if len(value) > LONGEST_VALUE or not value.isprintable():
            return f"The value of {name} is one line of printable characters, at most {LONGEST_VALUE:,}."
    return ""


def name_fault(name: str) -> str:
    """Why no command can be given a variable of this name."""
    if not NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        return f"{quoted(name, SHOWN)} is no name of a variable: write letters, digits and underscores, such as CI."
    return "" if settable(name) else f"{name} cannot be set: the sandbox sets it, or it changes which programs run."


def secret_faults(names: Iterable[str]) -> list[str]:
    """Why a set-up gets no variable of such a name from its worker, of the ones it does not get."""
    names = list(names)
    keys = {*OF_PROVIDERS, *ModelConfig.objects.filter(api_key_env__in=names).values_list("api_key_env", flat=True)}
    found = [f"A set-up gets at most {MOST} secrets."] if len(names) > MOST else []
    for name in names:
        if why := name_fault(name):
            found.append(why)
        elif name in keys or NO_KEYS.fullmatch(name):
            found.append(f"{name} is AgentOps' own or the key of a model: name another variable of the worker.")
    return found


def secret_values(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Their values in this process, which masks them from now on. Raises ValueError with a sentence."""
    if faults := secret_faults(names := list(names)):
        raise ValueError(faults[0])
    values = {name: environ.get(name, "").strip() for name in names}
    if missing := sorted(name for name, value in values.items() if not value):
        raise ValueError(f"Its worker has no {' and no '.join(missing)}: set it where AgentOps is started.")
    masking.learn(values, configured=True)
    for name, value in values.items():
        if value in masking.known().text(value):
            raise ValueError(f"The value of {name} is too short or too common to be kept out of the log.")
    return values

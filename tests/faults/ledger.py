"""What really happened in the world: an append-only file for each run, outside the database.

One line for each effect, written by one ``write`` with O_APPEND, so that a process that dies leaves a whole line or
none. A server that drops repeated keys is a file too: it says when it was asked again, and does nothing.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Effect:
    """``again`` is a repeated request that a server with keys dropped: it changed nothing."""

    tool: str
    label: str
    key: str
    pid: int
    again: bool = False


def _file(run_id: object) -> Path:
    from django.conf import settings

    return Path(settings.PATHS.state) / "ledger" / f"{run_id}.jsonl"


def append(run_id: str, *, tool: str, label: str, key: str, drops_repeated_keys: bool = False) -> Effect:
    """Let it happen."""
    again = drops_repeated_keys and any(effect.key == key for effect in of(run_id))
    line = {"tool": tool, "label": label, "key": key, "pid": os.getpid(), "again": again, "at": time.time()}
    file = _file(run_id)
    file.parent.mkdir(exist_ok=True)
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
    finally:
        os.close(descriptor)
    return _effect(line)


def of(run_id: object) -> list[Effect]:
    """Everything that happened for a run, in order."""
    file = _file(run_id)
    if not file.exists():
        return []
    return [_effect(json.loads(line)) for line in file.read_text().splitlines()]


def done(run_id: object, label: str) -> int:
    """How often an effect with that label really happened."""
    return sum(effect.label == label and not effect.again for effect in of(run_id))


def keys(effects: Iterable[Effect]) -> set[str]:
    return {effect.key for effect in effects}


def _effect(line: dict[str, Any]) -> Effect:
    return Effect(line["tool"], line["label"], line["key"], line["pid"], line["again"])

"""Two tools over a folder that stands for a booking service: one file for each reservation."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from agentops.sdk import ArgumentError, Danger, Reversibility, ToolRun, tool

Room = Annotated[Literal["blue", "green"], Field(description="Which room.")]
Hours = Annotated[int, Field(ge=1, le=8, description="For how long, from now.")]


def _service() -> Path:
    return Path(os.environ["ACME_ROOMS"])


@tool(operation="read", reversibility=Reversibility.PURE, danger=Danger.LOW, idempotent=True)
def room_status(run: ToolRun, room: Room) -> str:
    """Say whether a meeting room is free."""
    taken = list(_service().glob(f"{room}.*"))
    return f"{room} is reserved" if taken else f"{room} is free"


@tool(
    operation="reserve",
    reversibility=Reversibility.COMPENSABLE,
    danger=Danger.MEDIUM,
    idempotent=True,
    deed="Reserve the {room} room",
)
def reserve_room(run: ToolRun, room: Room, hours: Hours = 1) -> str:
    """Reserve a meeting room."""
    mine = _service() / f"{room}.{run.context.idempotency_key}"
    if any(other != mine for other in _service().glob(f"{room}.*")):
        raise ArgumentError(f"{room} is taken: ask for another room")
    mine.write_text(f"{hours} hours")  # the same file, however often this very call runs
    return f"{room} is yours for {hours} hours"


@reserve_room.undo
def cancel_reservation(run: ToolRun, room: Room, hours: Hours = 1) -> str:
    """Cancel what the call reserved, if it did."""
    (_service() / f"{room}.{run.context.idempotency_key}").unlink(missing_ok=True)
    return f"{room} is free again"

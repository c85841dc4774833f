"""A provider that is overloaded every time."""

from __future__ import annotations

from loops.engine.ports import ModelError
from loops.engine.values import FailureKind, ModelRequest
from loops.llm.scripted.adapter import Script, Turn


def _play(request: ModelRequest, number: int) -> Turn:
    error = ModelError("Overloaded", kind=FailureKind.TRANSIENT, code="overloaded_error", status=529)
    return Turn(error=error)


SCRIPT = Script(
    name="endpoint_down",
    summary="Fails with an overloaded error at every call.",
    play=_play,
    goal="Any task: the model never answers.",
)

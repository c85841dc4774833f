"""The endpoint that stands in for the one of ``endpoint_outage``."""

from __future__ import annotations

from loops.engine.values import ModelRequest
from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import endpoint_outage


def _play(request: ModelRequest, number: int) -> Turn:
    return endpoint_outage.steady(number)


SCRIPT = Script(
    name="stand_in",
    summary="Goes on with what another model began.",
    play=_play,
    goal=endpoint_outage.SCRIPT.goal,
)

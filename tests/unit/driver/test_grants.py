"""A grant goes with the one call that a person let through although it is denied, and with no other (SPEC I4)."""

from __future__ import annotations

from typing import Any

import pytest

from loops.engine import ports as p
from loops.engine.state.thresholds import OFF
from loops.engine.values import Access
from tests.fakes import Tools, World, done, says


class Watched(Tools):
    """Remembers which call came with a grant."""

    def __init__(self) -> None:
        functions = {"wipe": lambda arguments: "gone", "send": lambda arguments: "sent"}
        super().__init__(functions, {"wipe": Access.DENY, "send": Access.ASK})
        self.granted: list[tuple[str, bool]] = []

    async def execute(self, call: Any, context: p.CallContext, on_output: p.OnOutput) -> Any:
        self.granted.append((call.name, bool(context.grant)))
        return await super().execute(call, context, on_output)


@pytest.mark.spec("I4", "Q5")
def test_an_approval_is_no_grant() -> None:
    """What was only asked about, and is denied by the time it runs, does not run."""
    tools = Watched()
    answers = [*(says("", ("wipe", {"path": path})) for path in "ab"), says("", ("send", {})), done()]
    world = World(answers, tools, limits={"max_failures": 9, "circles": OFF})
    for gate in ("permission_blocked", "tool_approval"):
        assert world.drive() == f"gate:{gate}"
        world.decide("approve")
    assert world.drive() == "ended"
    assert tools.granted == [("wipe", True), ("send", False)]

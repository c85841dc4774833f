"""Commands of criteria in checkouts of the work, within bounds; a stop and a pause are heard meanwhile (SPEC L2)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from loops.driver.interrupts import STOP_OR_PAUSE, Interrupts, TookTooLong
from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import ports as p
from loops.engine.state.spec import Criterion
from loops.engine.values import ToolCall, ToolResult

MADE_WITHIN_S = 300.0
AGAIN_AT_LEAST_S, AGAIN_AT_MOST = 30.0, 5
"""Seconds that a command has once more, and how many times as long as before: broken work may try for ever."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """The command of a criterion that is to be measured."""

    criterion: Criterion
    call: ToolCall
    context: p.CallContext
    held_before: bool | None = None
    """The work; None where that was not found out."""
    failed_on_same_files: bool = False
    """At an earlier check."""
    seen_at_start: bool = False
    """The tests that its context has of an earlier check are those of the time before the work."""


class CheckoutRuns:
    def __init__(self, session: RunSession, calls: ToolCalls, interrupts: Interrupts) -> None:
        self._session, self._calls, self._interrupts = session, calls, interrupts

    async def checkout_of(self, making: Coroutine[Any, Any, p.Checkout]) -> p.Checkout:
        try:
            return await self.heeding(making, "checkout", MADE_WITHIN_S)
        except TookTooLong:
            return p.Checkout(why_not=f"no copy of it was made within {MADE_WITHIN_S:g} s")

    async def heeding(self, work: Coroutine[Any, Any, T], what: str, within_s: float) -> T:
        return await self._interrupts.interruptible(work, STOP_OR_PAUSE, what=what, within_s=within_s)

    async def run(self, asked: Asked, place: p.Checkout | None = None) -> ToolResult:
        """In a checkout, or in the folder of the run."""
        context = replace(asked.context, workspace=place.path) if place else asked.context
        return await self._calls.execute(asked.call, context, STOP_OR_PAUSE)

    async def again(self, asked: Asked, place: p.Checkout, name: str, took_ms: int) -> ToolResult | None:
        """Once more there, compared with no earlier check; None where it takes much longer than the ``took_ms`` of
        before."""
        call, context = replace(asked.call, id=f"{asked.call.id}_{name}"), replace(asked.context, tests_before="")
        try:
            async with asyncio.timeout(max(AGAIN_AT_LEAST_S, AGAIN_AT_MOST * took_ms / 1000)):
                return await self.run(replace(asked, call=call, context=context), place)
        except TimeoutError:
            return None

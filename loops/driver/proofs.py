"""Run the command of a criterion where its result proves the most: in a clean checkout, with what judges as it was when
the run began; and in the folder of the run, where that is another (SPEC L2, ADR 0079)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence, Set
from dataclasses import replace
from typing import Any

from loops.driver.interrupts import STOP_OR_PAUSE, Interrupts, TookTooLong
from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.rollback import plan as rb
from loops.engine.state.evidence import Evidence
from loops.engine.state.spec import Criterion
from loops.engine.values import ToolCall, ToolResult
from loops.engine.verification import proof

MADE_WITHIN_S = 300.0
DOUBTED_S = 300.0
"""What takes longer is not run once more to see it fail."""
TRIED_TWICE_S = 30.0
"""What takes longer to fail is not run once more to see whether it fails again."""
AGAIN_AT_LEAST_S, AGAIN_AT_MOST = 30.0, 5
"""Seconds that it has then, and how many times as long as before: broken work may try for ever."""
AS_LEFT = p.Checkout()
CheckOf = Callable[[Criterion, ToolResult], f.Check]


class Proofs:
    """Of one verification. ``check_of`` says what a result means for its criterion."""

    def __init__(self, session: RunSession, calls: ToolCalls, interrupts: Interrupts, check_of: CheckOf) -> None:
        self._session, self._calls, self._check_of = session, calls, check_of
        self._interrupts = interrupts
        self._checkout = AS_LEFT
        self._whole: dict[str, tuple[Criterion, ToolCall, p.CallContext]] = {}
        """By their words, commands that hold in the checkout by the whole report of their tests, and soon."""

    async def begin(self) -> None:
        """A checkout of the folder as it is now, where there can be one."""
        checkouts = self._session.ports.checkouts
        if checkouts is None or not any(criterion.command for criterion in self._session.state.spec.criteria):
            return
        history = self._session.ports.journal.history(("RunStarted",))
        starts = (fact.began or fact.snapshot for fact in reversed(history) if isinstance(fact, f.RunStarted))
        start = next(starts, "")
        self._checkout = await self._made(checkouts.make(self._calls.context(ToolCall("checkout", rb.RESTORE)), start))

    async def end(self) -> None:
        if self._session.ports.checkouts is not None:
            await self._session.ports.checkouts.leave()

    async def check(self, criterion: Criterion, call: ToolCall, context: p.CallContext, before: bool | None) -> f.Check:
        """``before``: did the command hold before the work began?"""
        checkout, left = self._checkout, None
        if not checkout.path:
            left = self._check_of(criterion, await self._run(call, context))
            return _claimed(left, proof.unsealed(checkout.why_not)) if checkout.why_not else left
        if checkout.changed:
            left = self._check_of(criterion, await self._run(call, context))
            if not left.holds:
                return left
        result = await self._run(call, replace(context, workspace=checkout.path))
        sealed = self._check_of(criterion, result)
        if sealed.holds:
            self._may_be_doubted(criterion, call, context, result)
            evidence, why = proof.of_checkout(result.data, before)
            return replace(sealed, evidence=evidence, why=why)
        if not sealed.obstacle and (flaky := await self._flaky(criterion, call, context, result)):
            return flaky
        if left is None and not sealed.obstacle:
            return sealed
        if left is None:  # it may be the checkout that lacks what the folder has
            left = self._check_of(criterion, await self._run(call, context))
        return _claimed(left, self._unlike(sealed, result)) if left.holds else left

    async def _flaky(
        self, criterion: Criterion, call: ToolCall, context: p.CallContext, failed: ToolResult
    ) -> f.Check | None:
        """Where the command holds once more, on the same files. That was chance, so it is claimed at best: what fails
        at random, and may be tried twice, proves less than what is tried once."""
        if failed.duration_ms > TRIED_TWICE_S * 1000:
            return None
        again = replace(call, id=f"{call.id}_again")
        result = await self._run(again, replace(context, workspace=self._checkout.path))
        check = self._check_of(criterion, result)
        if not check.holds:
            return None
        self._may_be_doubted(criterion, call, context, result)
        return _claimed(check, proof.flaky(failed.data, result.data))

    def _may_be_doubted(self, criterion: Criterion, call: ToolCall, context: p.CallContext, result: ToolResult) -> None:
        if proof.is_whole(result.data) and result.duration_ms <= DOUBTED_S * 1000:
            self._whole[criterion.command] = criterion, call, context

    async def doubted(self, checks: Sequence[f.Check]) -> list[f.Check]:
        """The same, and what holds by the report of its tests once more where it has to fail: with the work broken on
        purpose, and where nothing of it can be broken, without the work."""
        checkouts = self._session.ports.checkouts
        if checkouts is None or not self._whole or not all(check.holds for check in checks):
            return [*checks]
        place = await self._made(checkouts.make_broken())
        doubted: Set[str] = self._whole.keys()
        if not place.path and not place.why_not:
            doubted = {check.command for check in checks if check.evidence is Evidence.PROVED} & doubted
            place = await self._made(checkouts.make_without_work()) if doubted else AS_LEFT
        if not place.path:
            return [*checks]
        return [await self._doubted(check, place) if check.command in doubted else check for check in checks]

    async def _doubted(self, check: f.Check, place: p.Checkout) -> f.Check:
        criterion, call, context = self._whole[check.command]
        again = replace(call, id=f"{call.id}_broken")
        try:
            async with asyncio.timeout(max(AGAIN_AT_LEAST_S, AGAIN_AT_MOST * check.duration_ms / 1000)):
                result = await self._run(again, replace(context, workspace=place.path, tests_before=""))
        except TimeoutError:  # it says nothing
            return check
        if result.ok:
            return replace(check, evidence=Evidence.CONTRADICTED, why=proof.holds_without(place))
        if self._check_of(criterion, result).obstacle or check.evidence is Evidence.CLAIMED:
            return check
        return replace(check, evidence=Evidence.PROVED, why="")

    async def _made(self, making: Coroutine[Any, Any, p.Checkout]) -> p.Checkout:
        try:
            return await self._interrupts.interruptible(making, STOP_OR_PAUSE, what="checkout", within_s=MADE_WITHIN_S)
        except TookTooLong:
            return p.Checkout(why_not=f"no copy of it was made within {MADE_WITHIN_S:g} s")

    def _unlike(self, sealed: f.Check, result: ToolResult) -> str:
        if self._checkout.changed:
            return proof.fails_as_it_was(self._checkout.changed, result.error)
        return f"It cannot run in a clean checkout: {sealed.wanted}"

    async def _run(self, call: ToolCall, context: p.CallContext) -> ToolResult:
        return await self._calls.execute(call, context, STOP_OR_PAUSE)


def _claimed(check: f.Check, why: str) -> f.Check:
    return replace(check, evidence=Evidence.CLAIMED, why=why) if check.holds else check

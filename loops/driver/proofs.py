"""Run the command of a criterion where its result proves the most: in a clean checkout, with what judges as it was when
the run began; and in the folder of the run, where that is another (SPEC L2, ADR 0079)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from loops.driver.interrupts import STOP_OR_PAUSE, Interrupts
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
AS_LEFT = p.Checkout()
CheckOf = Callable[[Criterion, ToolResult], f.Check]


class Proofs:
    """Of one verification. ``check_of`` says what a result means for its criterion."""

    def __init__(self, session: RunSession, calls: ToolCalls, interrupts: Interrupts, check_of: CheckOf) -> None:
        self._session, self._calls, self._check_of = session, calls, check_of
        self._interrupts = interrupts
        self._checkout = AS_LEFT

    async def begin(self) -> None:
        """A checkout of the folder as it is now, where there can be one."""
        checkouts = self._session.ports.checkouts
        if checkouts is None or not any(criterion.command for criterion in self._session.state.spec.criteria):
            return
        history = self._session.ports.journal.history(("RunStarted",))
        start = next((fact.snapshot for fact in reversed(history) if isinstance(fact, f.RunStarted)), "")
        making = checkouts.make(self._calls.context(ToolCall("checkout", rb.RESTORE)), start)
        self._checkout = await self._interrupts.interruptible(
            making, STOP_OR_PAUSE, what="checkout", within_s=MADE_WITHIN_S
        )

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
            evidence, why = proof.of_checkout(result.data, before)
            return replace(sealed, evidence=evidence, why=why)
        if left is None and not sealed.obstacle:
            return sealed
        if left is None:  # it may be the checkout that lacks what the folder has
            left = self._check_of(criterion, await self._run(call, context))
        return _claimed(left, self._unlike(sealed, result)) if left.holds else left

    def _unlike(self, sealed: f.Check, result: ToolResult) -> str:
        if self._checkout.changed:
            return proof.fails_as_it_was(self._checkout.changed, result.error)
        return f"It cannot run in a clean checkout: {sealed.wanted}"

    async def _run(self, call: ToolCall, context: p.CallContext) -> ToolResult:
        return await self._calls.execute(call, context, STOP_OR_PAUSE)


def _claimed(check: f.Check, why: str) -> f.Check:
    return replace(check, evidence=Evidence.CLAIMED, why=why) if check.holds else check

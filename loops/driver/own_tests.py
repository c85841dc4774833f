"""Find out what the tests that a run wrote are worth: without its work, and with small faults in it (SPEC L2, X4)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from loops.driver.checkout_runs import Asked, CheckoutRuns
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.state.evidence import Evidence
from loops.engine.state.own_tests import OwnTests
from loops.engine.values import ToolResult
from loops.engine.verification import own_tests, proof
from loops.engine.verification.report import outcomes

TRIED_S = 60.0
"""What takes longer with these tests is not tried."""
BUDGET_S = 120.0
"""Of all criteria together."""
MUTANTS = 8
"""Of each criterion."""


@dataclass(frozen=True, slots=True)
class Written:
    """Tests of the run, and how long their command took with them."""

    asked: Asked
    names: Sequence[str]
    took_ms: int


class OwnTestsTrial:
    """Of one verification."""

    def __init__(self, runs: CheckoutRuns) -> None:
        self._runs = runs
        self._until = 0.0
        self._written: dict[str, Written] = {}
        """By the words of their command."""

    def learn(self, asked: Asked, left: ToolResult, sealed: ToolResult) -> None:
        """What the command said in the folder of the run, where it held, and in the clean checkout."""
        names = own_tests.written(left.data, sealed.data, seen_at_start=asked.seen_at_start)
        if names and left.duration_ms <= TRIED_S * 1000:
            self._written[asked.criterion.command] = Written(asked, names, left.duration_ms)

    async def tried(
        self, checks: Sequence[f.Check], before: Sequence[f.Check], checkouts: p.Checkouts
    ) -> list[f.Check]:
        """``before``: the same checks, before they were doubted."""
        self._until = asyncio.get_running_loop().time() + BUDGET_S
        return [await self._tried(*both, checkouts) for both in zip(checks, before, strict=True)]

    async def _tried(self, check: f.Check, before: f.Check, checkouts: p.Checkouts) -> f.Check:
        written = self._written.get(check.command)
        if written is None:
            return check
        own = own_tests.begun(written.names)
        with suppress(TimeoutError):  # what was found until then is told
            async with asyncio.timeout_at(self._until):
                if before.evidence is Evidence.SUPPORTED and check.evidence is Evidence.CONTRADICTED:
                    check = await self._shown_by_them(check, written, checkouts)
                async for better in self._worth(own, written, checkouts):
                    own = better
        return own_tests.judged(check, own)

    async def _shown_by_them(self, check: f.Check, written: Written, checkouts: p.Checkouts) -> f.Check:
        """Tests of the start held before the work and hold without it: they do not look at what changed. These may."""
        place = await self._runs.checkout_of(checkouts.make_broken(own_tests=True))
        result = await self._again(written, place, "own") if place.path else None
        if result is None or result.ok or not own_tests.of_outcome(own_tests.FAILED, written.names, result.data):
            return check
        return replace(check, evidence=Evidence.SUPPORTED, why=proof.shown_by_own_tests(place))

    async def _worth(self, own: OwnTests, written: Written, checkouts: p.Checkouts) -> AsyncIterator[OwnTests]:
        """More of it each time."""
        place = await self._runs.checkout_of(checkouts.make_without_work(own_tests=True))
        result = await self._again(written, place, "without") if place.path else None
        if result is not None and outcomes(result.data):
            own = own_tests.without_work(own, written.names, result.data)
            yield own
        naming = checkouts.mutants(MUTANTS)
        for number, what in enumerate(await self._runs.heeding(naming, "mutants", BUDGET_S)):
            place = await self._runs.checkout_of(checkouts.make_mutated(number))
            if not place.path:
                return
            result = await self._again(written, place, f"mutant_{number}")
            own = own_tests.mutated(own, what, noticed=result is None or not result.ok)
            yield own

    async def _again(self, written: Written, place: p.Checkout, name: str) -> ToolResult | None:
        return await self._runs.again(written.asked, place, name, written.took_ms)

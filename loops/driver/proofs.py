"""Run the command of a criterion where its result proves the most: in a clean checkout, with what judges as it was when
the run began; and in the folder of the run, where that is another (SPEC L2, ADR 0079)."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace

from loops.driver.checkout_runs import Asked, CheckoutRuns
from loops.driver.interrupts import Interrupts
from loops.driver.own_tests import OwnTestsTrial
from loops.driver.session import RunSession
from loops.driver.tool_calls import ToolCalls
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.rollback import plan as rb
from loops.engine.rollback.result import leftovers, with_forked
from loops.engine.state.evidence import Evidence
from loops.engine.state.spec import Criterion
from loops.engine.values import ToolCall, ToolResult
from loops.engine.verification import proof

DOUBTED_S = 300.0
"""What takes longer is not run once more to see it fail."""
TRIED_TWICE_S = 30.0
"""What takes longer to fail is not run once more to see whether it fails again."""
AS_LEFT = p.Checkout()
CheckOf = Callable[[Criterion, ToolResult], f.Check]


class Proofs:
    """Of one verification. ``check_of`` says what a result means for its criterion."""

    def __init__(self, session: RunSession, calls: ToolCalls, interrupts: Interrupts, check_of: CheckOf) -> None:
        self._session, self._calls, self._check_of = session, calls, check_of
        self._runs = CheckoutRuns(session, calls, interrupts)
        self._own_tests = OwnTestsTrial(self._runs)
        self._checkout = AS_LEFT
        self._whole: dict[str, Asked] = {}
        """By their words, commands that hold in the checkout by the whole report of their tests, and soon."""

    async def begin(self) -> None:
        """A checkout of the folder as it is now, where there can be one."""
        checkouts = self._session.ports.checkouts
        if checkouts is None or not any(criterion.command for criterion in self._session.state.spec.criteria):
            return
        history = self._session.ports.journal.history(("RunStarted", *rb.LEDGER))
        starts = (fact.began or fact.snapshot for fact in reversed(history) if isinstance(fact, f.RunStarted))
        context = self._calls.context(ToolCall("checkout", rb.RESTORE))
        making = checkouts.make(context, next(starts, ""), leftovers(with_forked(history)))
        self._checkout = await self._runs.checkout_of(making)

    async def end(self) -> None:
        if self._session.ports.checkouts is not None:
            await self._session.ports.checkouts.leave()

    async def check(self, asked: Asked) -> f.Check:
        """In the checkout, and in the folder of the run where that is another or the checkout lacks something."""
        checkout, in_folder = self._checkout, None
        if not checkout.path:
            left = self._check_of(asked.criterion, await self._runs.run(asked))
            return _claimed(left, proof.unsealed(checkout.why_not)) if checkout.why_not else left
        if checkout.changed:
            in_folder = await self._runs.run(asked)
            left = self._check_of(asked.criterion, in_folder)
            if not left.holds:
                return left
        result = await self._runs.run(asked, checkout)
        sealed = self._check_of(asked.criterion, result)
        if not sealed.holds and not sealed.obstacle:
            if (flaky := await self._flaky(asked, result)) is not None:
                return flaky
            if in_folder is None:
                return sealed
        if in_folder is not None:
            self._own_tests.learn(asked, in_folder, result)
        if sealed.holds:
            self._may_be_doubted(asked, result)
            evidence, why = proof.of_checkout(result.data, asked.held_before, asked.failed_on_same_files)
            return replace(sealed, evidence=evidence, why=why)
        if in_folder is None:  # it may be the checkout that lacks what the folder has
            left = self._check_of(asked.criterion, await self._runs.run(asked))
        return _claimed(left, self._unlike(sealed, result)) if left.holds else left

    async def _flaky(self, asked: Asked, failed: ToolResult) -> f.Check | None:
        """Where the command holds once more, on the same files. That was chance, so it is claimed at best: what fails
        at random, and may be tried twice, proves less than what is tried once."""
        if failed.duration_ms > TRIED_TWICE_S * 1000:
            return None
        again = replace(asked, call=replace(asked.call, id=f"{asked.call.id}_again"))
        result = await self._runs.run(again, self._checkout)
        check = self._check_of(asked.criterion, result)
        if not check.holds:
            return None
        self._may_be_doubted(asked, result)
        return _claimed(check, proof.flaky(failed.data, result.data))

    def _may_be_doubted(self, asked: Asked, result: ToolResult) -> None:
        if proof.is_whole(result.data) and result.duration_ms <= DOUBTED_S * 1000:
            self._whole[asked.criterion.command] = asked

    async def doubted(self, checks: Sequence[f.Check]) -> list[f.Check]:
        """The same, and what holds by the report of its tests once more where it has to fail: with the work broken on
        purpose, and where nothing of it can be broken, without the work. Then what the tests of the run are worth."""
        checkouts = self._session.ports.checkouts
        if checkouts is None or not all(check.holds for check in checks):
            return [*checks]
        doubted = await self._doubted(checks, checkouts) if self._whole else [*checks]
        return await self._own_tests.tried(doubted, checks, checkouts)

    async def _doubted(self, checks: Sequence[f.Check], checkouts: p.Checkouts) -> list[f.Check]:
        place = await self._runs.checkout_of(checkouts.make_broken())
        commands: Set[str] = self._whole.keys()
        if not place.path and not place.why_not:
            commands = {check.command for check in checks if check.evidence is Evidence.PROVED} & commands
            place = await self._runs.checkout_of(checkouts.make_without_work()) if commands else AS_LEFT
        if not place.path:
            return [*checks]
        return [await self._doubted_in(place, check) if check.command in commands else check for check in checks]

    async def _doubted_in(self, place: p.Checkout, check: f.Check) -> f.Check:
        asked = self._whole[check.command]
        result = await self._runs.again(asked, place, "broken", check.duration_ms)
        if result is None:  # it says nothing
            return check
        if result.ok:
            return replace(check, evidence=Evidence.CONTRADICTED, why=proof.holds_without(place))
        if self._check_of(asked.criterion, result).obstacle or check.evidence is Evidence.CLAIMED:
            return check
        return replace(check, evidence=Evidence.PROVED, why="")

    def _unlike(self, sealed: f.Check, result: ToolResult) -> str:
        if self._checkout.changed:
            return proof.fails_as_it_was(self._checkout.changed, result.error)
        return f"It cannot run in a clean checkout: {sealed.wanted}"


def _claimed(check: f.Check, why: str) -> f.Check:
    return replace(check, evidence=Evidence.CLAIMED, why=why) if check.holds else check

"""With the INTENT of a call: how it will be undone; with its outcome: what it really changed (SPEC O1, O2)."""

from __future__ import annotations

from dataclasses import replace

from loops.driver.session import RunSession
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.progress.score import CHANGED, FILES_REMEMBERED
from loops.engine.rollback import plan as rb
from loops.engine.values import Compensation, Json, Reversibility, ToolCall, ToolResult, ToolSpec


def with_changed_files(result: ToolResult, learnt: Compensation | None) -> ToolResult:
    """A result that says which files its call changed, where only the world could tell: they count as progress."""
    changes = rb.files(learnt) if learnt is not None else []
    written: list[Json] = [one.path for one in changes if one.after.startswith("file:")][:FILES_REMEMBERED]
    return replace(result, data={**result.data, CHANGED: written}) if written else result


class UndoPlans:
    """Of the calls of one run. A call that changes nothing costs nothing here."""

    def __init__(self, session: RunSession) -> None:
        self._session = session
        self._planned: dict[str, Compensation] = {}

    async def plan(self, call: ToolCall, context: p.CallContext, attempt: int) -> Compensation | None:
        """Right before INTENT. What is begun again goes back to before its first attempt."""
        spec = self._spec(call)
        if spec is not None and spec.reversibility is Reversibility.PURE:
            return None
        tools = self._session.ports.tools
        planned = self._first(call) if attempt > 1 else await tools.plan_undo(call, context)
        if planned is not None:
            self._planned = {call.id: planned}
        return planned

    async def learn(self, call: ToolCall, context: p.CallContext) -> Compensation | None:
        """Right after the call, however it ended; None when the plan said it all."""
        planned = self._planned.pop(call.id, None)
        return await self._session.ports.tools.learn_undo(call, context, planned) if planned is not None else None

    async def learn_after_loss(self, call: ToolCall, context: p.CallContext) -> None:
        """What stands in the workspace now is what the lost worker's call left, as long as nothing else has run."""
        planned = self._first(call)
        if planned is None:
            return
        learnt = await self._session.ports.tools.learn_undo(call, context, planned)
        if learnt is not None:
            self._session.note(f.UndoLearnt(call_id=call.id, compensation=learnt))

    def reversibility(self, call: ToolCall, planned: Compensation | None) -> str:
        """Of this very call, for its INTENT."""
        if planned is not None and not planned.tool:
            return Reversibility.IRREVERSIBLE.value
        spec = self._spec(call)
        return spec.reversibility.value if spec is not None else ""

    def _first(self, call: ToolCall) -> Compensation | None:
        intents = self._session.ports.journal.history(("ToolIntended",))
        return next((i.compensation for i in intents if isinstance(i, f.ToolIntended) and i.call_id == call.id), None)

    def _spec(self, call: ToolCall) -> ToolSpec | None:
        return next((spec for spec in self._session.specs if spec.name == call.name), None)

"""Ask the orchestrator who may do what this agent may not (SPEC I4)."""

from __future__ import annotations

from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine import ports as p


async def find_specialist(session: RunSession, context: p.CallContext, effect: e.FindSpecialist) -> None:
    """Which agent of the project may do what this one may not; the answer goes before a person next."""
    orchestrator, call = session.ports.orchestrator, effect.call
    found = orchestrator.find_specialist(call, context) if orchestrator is not None else p.Specialist()
    session.note(
        f.PermissionDenied(
            call_id=call.id,
            tool=call.name,
            operation=effect.operation,
            times=effect.times,
            rung="specialist",
            alternatives=session.state.call(call.id).alternatives,
            specialist=f"{found.name} ({found.agent_type})" if found.name else "",
            looked_at=found.looked_at,
        )
    )

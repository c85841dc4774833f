"""Which model is asked while some cannot be reached, and when a run that waits for one goes on (SPEC E5, E6).

The wanted model comes first, then the fallbacks of its chain; one whose breaker is open, or on which this run gave up
since the latest answer, is passed over. When none is left the run is parked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from loops.driver.session import RunSession
from loops.engine import effects as e
from loops.engine import facts as f
from loops.engine.failures.breakers import MODEL, Refusal, model_is_at_fault
from loops.engine.ports import ModelError
from loops.engine.values import ModelRole

SPREAD_S = 5.0
"""Runs that wait for the same moment do not all come at once."""
WHILE_PROBED_S = 20.0
"""Until a run looks again that another one's probe keeps waiting; a good probe wakes it sooner."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The model to ask. ``instead_of`` is the wanted one when it is another, ``because`` why."""

    model: str
    probe: bool = False
    instead_of: str = ""
    because: str = ""


def choose(session: RunSession, role: ModelRole) -> Chosen | f.ModelAwaited:
    """The first model of the chain that may be asked; it may take a probe. The fact of being parked without one."""
    wanted = session.state.spec.model_for(role.value)
    refused: list[Refusal] = []
    for model in _left(session, wanted):
        answer = session.ports.breakers.admit(MODEL, model)
        if isinstance(answer, Refusal):
            refused.append(answer)
        elif model == wanted:
            return Chosen(model, answer.probe)
        else:
            why = refused[0].why if refused else session.state.outage.why
            return Chosen(model, answer.probe, wanted, why)
    return _parked(session, role, refused)


def next_after(session: RunSession, role: ModelRole, model: str) -> str:
    """The model of the chain that is asked when ``model`` is given up; "" when none is left."""
    wanted = session.state.spec.model_for(role.value)
    return next((other for other in _left(session, wanted) if other != model), "")


def may_go_on(session: RunSession, effect: e.AwaitModel) -> bool:
    """Time has come, or a breaker was closed before its time."""
    if session.now() >= effect.until:
        return True
    return session.ports.breakers.refuses(MODEL, session.state.outage.model) is None


def heard(session: RunSession, model: str, error: ModelError, probe: bool) -> None:
    """Tell the breaker of a failed request. A request refused for what it says shows that the model works."""
    breakers = session.ports.breakers
    if model_is_at_fault(error.kind):
        status = f" (HTTP {error.status})" if error.status else ""
        breakers.failed(MODEL, model, f"{error.code}{status}", error.retry_after_s or 0.0)
    elif probe:
        breakers.succeeded(MODEL, model)


def _left(session: RunSession, wanted: str) -> Sequence[str]:
    given_up = session.state.outage.given_up
    return [model for model in session.ports.fallbacks(wanted) if model not in given_up] or [wanted]


def _parked(session: RunSession, role: ModelRole, refused: Sequence[Refusal]) -> f.ModelAwaited:
    now = session.now()
    first = min(refused, key=lambda refusal: refusal.until or now + WHILE_PROBED_S * 1e6)
    earliest = first.until if first.until else now + int(WHILE_PROBED_S * 1e6)
    until = max(earliest, now + 1_000_000) + int(_share(f"{session.state.spec.run_id}:{earliest}") * SPREAD_S * 1e6)
    return f.ModelAwaited(role=role, model=first.name, until=until, reason=first.why)


def _share(seed: str) -> float:
    """From 0 to 1. Another one each time, so that it is not always the same run that comes first and tries."""
    return hashlib.sha256(seed.encode()).digest()[0] / 256

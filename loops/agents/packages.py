"""Agents of installed packages, by the entry point ``agentops.agents``, and how a worker has one lead a run (SPEC B6).

An entry point has the name that people choose for an agent of their project, and names a subclass of ``BaseAgent``.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable
from typing import Any

from loops.agents import AgentContext, BaseAgent
from loops.agents.stepped_driver import SteppedDriver
from loops.engine import packages
from loops.engine import ports as p
from loops.engine.packages import Broken, UnfitError
from loops.orchestrator import Orchestrator

log = logging.getLogger(__name__)
ENTRY_POINTS = "agentops.agents"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_found: dict[str, type[BaseAgent]] = {}
_broken: list[Broken] = []
_loaded = False
_lock = threading.RLock()


class UnknownAgent(Exception):
    """No agent of this name can be used; the message says which can, or what is wrong with it."""


def get(name: str) -> type[BaseAgent]:
    """The class of this name. Raises UnknownAgent."""
    _load()
    if name in _found:
        return _found[name]
    if broken := next((each for each in _broken if each.name == name), None):
        raise UnknownAgent(str(broken))
    raise UnknownAgent(f"no package brings the agent {name!r}; there are: {', '.join(names()) or 'none'}")


def names() -> tuple[str, ...]:
    """Those that can be used."""
    _load()
    return tuple(sorted(_found))


def broken() -> tuple[Broken, ...]:
    """Those that an installed package should have brought."""
    _load()
    return tuple(_broken)


def forget() -> None:
    """Read what is installed anew, the next time somebody asks; for tests."""
    global _loaded
    with _lock:
        _loaded = False
        _found.clear()


async def lead(name: str, context: AgentContext, orchestrator: Orchestrator) -> str:
    """Have the agent ``name`` lead the run of ``context``; why it stopped, in the words of ``Driver.drive``.

    What the agent gets wrong ends the run with a report (``loop_failed``): it would get it wrong in every worker.
    """
    assert context.state is not None
    assert context.transcript is not None
    agent: BaseAgent | None = None
    try:
        agent = get(name)(context, orchestrator, context.state.spec.loop)
        await agent.run_task(context.state.spec)
        if agent.hand is None:
            raise UnfitError("it returned without working on the task")
        return agent.why
    except (Exception, SystemExit) as error:
        hand = agent.hand if agent is not None else None
        if isinstance(error, p.LeaseLost) or (hand is not None and error is hand.error):
            raise
        log.exception("the agent %r failed in the run %s", name, context.state.spec.run_id)
        hand = hand or SteppedDriver(
            context.ports, context.state, context.transcript, sandbox_level=context.sandbox_level, shared=True
        )
        return await hand.fail(f"the agent {name!r} failed: {type(error).__name__}: {error}")


def _load() -> None:
    global _loaded
    with _lock:
        if not _loaded:
            _loaded = True
            _broken[:] = packages.load(ENTRY_POINTS, "agent", _take)


def _take(name: str, load: Callable[[], Any]) -> None:
    if not _NAME.fullmatch(name):
        raise UnfitError("its name takes 1 to 40 of a-z 0-9 _ -, a letter first")
    found = load()
    if not (isinstance(found, type) and issubclass(found, BaseAgent)):
        raise UnfitError(f"it names {getattr(found, '__name__', type(found).__name__)!r}, which is no BaseAgent")
    if missing := sorted(getattr(found, "__abstractmethods__", ())):
        raise UnfitError(f"it has no method {', '.join(missing)}")
    if name in _found:
        raise UnfitError(f"the name {name!r} is taken")
    _found[name] = found

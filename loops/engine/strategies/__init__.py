"""Execution loops by name (SPEC B1). One file per loop; another package adds one by the entry point ``agentops.loops``.

A loop says what to do in the phases that differ between loops: how it plans and how it acts. Everything else (limits,
verification, repair, commit) is the lifecycle's and the same for all.
``agentops/docs/guides/execution-loop.md`` has an example.
"""

from __future__ import annotations

import pkgutil
import re
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.resources.abc import Traversable
from typing import Any, Protocol

from loops.engine import packages
from loops.engine import prompts as engine_prompts
from loops.engine.effects import Effect
from loops.engine.packages import Broken, UnfitError
from loops.engine.prompts import Template
from loops.engine.state.run import RunState


class LoopStrategy(Protocol):
    """The pure half of an execution loop: both methods decide from the state alone, the same way each time.

    ``name`` is what people choose, and the name of the entry point. ``prompts`` is the folder where the loop's system
    prompt lies as ``<name>.md``, such as ``importlib.resources.files(__package__) / "prompts"``: a template whose
    places may be those of ``PLACES``. None: AgentOps has the prompt itself; that is for its own loops.
    """

    name: str
    prompts: Traversable | None

    def plan(self, state: RunState) -> Effect:
        """What to do in PLAN, DECOMPOSE and RETRIEVE."""
        ...

    def act(self, state: RunState) -> Effect:
        """What to do in ACT and REPAIR until a result is proposed."""
        ...


class UnknownLoop(Exception):
    """No execution loop of this name can be used; the message says which can, or what is wrong with it."""


PLACES = frozenset({"agent_name", "instructions"})
"""What a system prompt may leave open."""
ENTRY_POINTS = "agentops.loops"
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_registered: dict[str, LoopStrategy] = {}
_broken: list[Broken] = []
_loaded = False
_lock = threading.RLock()


def register(factory: Callable[[], LoopStrategy]) -> Callable[[], LoopStrategy]:
    """Class decorator: make one instance available under its ``name``. Raises UnfitError."""
    strategy = factory()
    if fault := _fault(strategy):
        raise UnfitError(fault)
    _registered[strategy.name] = strategy
    return factory


def get(name: str) -> LoopStrategy:
    """The loop with this name. Raises UnknownLoop naming the ones there are, or what is wrong with this one."""
    _load()
    if name in _registered:
        return _registered[name]
    if found := next((each for each in _broken if each.name == name), None):
        raise UnknownLoop(str(found))
    raise UnknownLoop(f"no execution loop {name!r}; registered: {', '.join(sorted(_registered))}")


def names() -> tuple[str, ...]:
    """Those that can be used."""
    _load()
    return tuple(sorted(_registered))


def broken() -> tuple[Broken, ...]:
    """Those that an installed package should have brought."""
    _load()
    return tuple(_broken)


def is_ours(strategy: LoopStrategy) -> bool:
    """Does it come with AgentOps?"""
    return type(strategy).__module__.startswith(f"{__name__}.")


def prompt(name: str) -> Template | None:
    """The template of the system prompt that the loop brings; None for a loop of ours. Raises UnknownLoop."""
    strategy = get(name)
    return None if is_ours(strategy) else _template(strategy)


def _load() -> None:
    global _loaded
    with _lock:
        if _loaded:
            return
        _loaded = True
        for module in pkgutil.iter_modules(__path__):  # loops of ours register themselves
            import_module(f"{__name__}.{module.name}")
        _broken[:] = packages.load(ENTRY_POINTS, "execution loop", _take)


def _take(name: str, load: Callable[[], Any]) -> None:
    """Register what an entry point names, all of it or nothing."""
    before = dict(_registered)
    try:
        strategy = _strategy(load())
        if strategy.name != name:
            raise UnfitError(f"the entry point is called {name!r}, its loop {strategy.name!r}: give both one name")
    except BaseException:
        _registered.clear()
        _registered.update(before)
        raise


def _strategy(found: Any) -> LoopStrategy:
    """That of a class, a function or an instance, registered unless it did so itself while it was imported."""
    for known in _registered.values():
        if found is type(known) or found is known:
            return known
    strategy: LoopStrategy = found if hasattr(found, "plan") and not isinstance(found, type) else found()
    register(lambda: strategy)
    return strategy


def _fault(strategy: Any) -> str:
    """What keeps it from being a loop; "" when nothing does."""
    name = getattr(strategy, "name", None)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return f"its name is {name!r}: it takes 1 to 40 of a-z 0-9 _ -, a letter first"
    if missing := [part for part in ("plan", "act") if not callable(getattr(strategy, part, None))]:
        return f"it has no method {' and no method '.join(missing)}"
    taken = _registered.get(name)
    if taken is not None and type(taken) is not type(strategy):
        return f"the name {name!r} is taken by {type(taken).__module__}"
    return "" if is_ours(strategy) else _fault_of_prompt(strategy)


def _fault_of_prompt(strategy: LoopStrategy) -> str:
    try:
        unknown = _template(strategy).places - PLACES
    except UnfitError as error:
        return str(error)
    return f"{strategy.name}.md has places that nobody fills: {', '.join(sorted(unknown))}" if unknown else ""


def _template(strategy: LoopStrategy) -> Template:
    folder = getattr(strategy, "prompts", None)
    if folder is None:
        raise UnfitError(f"it names no folder of prompts: set `prompts` to the one with {strategy.name}.md")
    try:
        found = engine_prompts.read(folder).templates.get(strategy.name)
    except (OSError, ValueError, AttributeError) as error:
        raise UnfitError(f"its prompts cannot be read: {type(error).__name__}: {error}") from error
    if found is None or not found.text.strip():
        raise UnfitError(f"its folder of prompts has no {strategy.name}.md, or an empty one")
    return found

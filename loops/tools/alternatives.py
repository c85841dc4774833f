"""What an agent may use instead of a call that was denied to it, and which other agent may do it (SPEC I4). Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from loops.engine.ports import Specialist
from loops.engine.values import Access, ToolSpec
from loops.tools.policy import AccessRule, evaluate

RANK = {"read": 0, "write": 1, "delete": 2, "execute": 3, "network": 4}
"""Operations by how much they can do. One that is not here compares with nothing but itself."""
MOST = 5
_HOW = {Access.ALLOW: "allowed", Access.ASK: "a person is asked"}


def alternatives(
    offered: Iterable[ToolSpec],
    rules: Sequence[AccessRule],
    denied: ToolSpec,
    agent_type: str,
    paths: Sequence[str] = (),
) -> tuple[str, ...]:
    """Tools that do the same or less and are not denied for these paths, nearest first, each with how it is allowed;
    then the denied tool itself where only these paths are denied."""
    near = [spec for spec in offered if spec.name != denied.name and _does_no_more(spec, denied)]
    near.sort(key=lambda spec: (-RANK.get(spec.operation, 0), spec.name))
    judged = [(spec, evaluate(rules, spec, agent_type, paths=paths).access) for spec in near]
    found = [f"{spec.name} ({_HOW[access]})" for spec, access in judged if access is not Access.DENY]
    more = len(found) - MOST
    found = [*found[:MOST], *([f"and {more} more"] if more > 0 else [])]
    elsewhere = evaluate(rules, denied, agent_type).access
    if paths and elsewhere is not Access.DENY:
        found.append(f"{denied.name} on other paths ({_HOW[elsewhere]})")
    return tuple(found)


def specialist_for(
    colleagues: Sequence[tuple[str, str]], agent_type: str, access_of: Callable[[str], Access]
) -> Specialist:
    """The first of ``colleagues`` (name, agent type) whose type is not denied the call; one that needs to ask nobody
    comes before one that does. Colleagues of the same type may do no more than the agent itself."""
    others = [(name, kind) for name, kind in colleagues if kind != agent_type]
    known = {kind: access_of(kind) for kind in dict.fromkeys(kind for _, kind in others)}
    for wanted in (Access.ALLOW, Access.ASK):
        for name, kind in others:
            if known[kind] is wanted:
                return Specialist(name, kind, len(others))
    return Specialist(looked_at=len(others))


def _does_no_more(spec: ToolSpec, denied: ToolSpec) -> bool:
    if spec.loop_breaking:
        return False
    if spec.operation == denied.operation:
        return True
    return spec.operation in RANK and denied.operation in RANK and RANK[spec.operation] < RANK[denied.operation]

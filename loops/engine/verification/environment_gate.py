"""The question to a person when checks cannot run for what surrounds the work (SPEC E1, X5)."""

from __future__ import annotations

from loops.engine.effects import OpenGate
from loops.engine.encoding.codec import to_plain
from loops.engine.facts import Check
from loops.engine.measures.extensions import extensions_left, extensions_of
from loops.engine.state.run import RunState
from loops.engine.values import Json

_SHOWN = ("text", "command", "status", "detail", "method")
TITLE, BEFORE = "The checks cannot run here", "Before the work begins: the checks cannot run here"


def environment_gate(state: RunState, checks: tuple[Check, ...]) -> OpenGate:
    """No repair puts this right, so none is spent: a person does, and has the checks run again."""
    lacking = [check for check in checks if check.obstacle]
    wanted = tuple(dict.fromkeys(check.wanted for check in lacking))
    before: dict[str, Json] = {"before_work": True} if state.tried else {}
    return OpenGate(
        kind="checks_not_run",
        title=f"{BEFORE if before else TITLE}: {wanted[0]}",
        reasons=wanted,
        risk="medium",
        recommended="approve" if extensions_left(state) else "respond",
        view={
            **extensions_of(state),
            **before,
            "failure": "\n".join(wanted),
            "rule": lacking[0].obstacle,
            "criteria": [check_view(check) for check in checks],
        },
    )


def check_view(check: Check) -> dict[str, Json]:
    """For people and programs; what an earlier version measured has no evidence."""
    view: dict[str, Json] = {name: str(getattr(check, name)) for name in _SHOWN}
    own: dict[str, Json] = {"own_tests": to_plain(check.own_tests)} if check.own_tests else {}
    return view | own | ({"evidence": check.evidence.value, "why": check.why} if check.evidence else {})

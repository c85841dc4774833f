"""What the buttons of a card say, kind by kind: what will happen, not what the verdict is called (SPEC Q3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gates.policy.kinds import Labels, Verdict, of


@dataclass(frozen=True, slots=True)
class Key:
    """What a reviewer presses for some verdicts, and what the list of keys says of it."""

    key: str
    said: str
    verdicts: tuple[Verdict, ...]


KEYS = (
    Key("a", "Approve, or continue the run", (Verdict.APPROVE, Verdict.EXTEND)),
    Key("y", "Yes, after a: for high risk", ()),
    Key("u", "Take back an approval of high risk, for five seconds", ()),
    Key("e", "Edit, then approve", (Verdict.APPROVE_WITH_EDITS,)),
    Key("r", "Reject, or end the run: with a reason", (Verdict.REJECT,)),
    Key("w", "Write an answer, guidance, or what came of it", (Verdict.RESPOND,)),
    Key("p", "Keep what a run left", (Verdict.KEEP,)),
    Key("c", "Continue a run that ended", (Verdict.CONTINUE,)),
    Key("b", "Roll back: press it twice", (Verdict.ROLL_BACK,)),
)
"""A key for every verdict that a person can give; no kind of gate offers two of one key."""


def key_of(verdict: str) -> str:
    """The key of a verdict. Raises StopIteration for one that no person gives."""
    return next(one.key for one in KEYS if verdict in one.verdicts)


_CHECKS_NOT_RUN = Labels(
    approve="Fixed: run the checks again",
    icon="rotate-ccw",
    reject="End the run",
    rejected="The run ends here, with a report. It can be tried again later, when the checks can run.",
    answer="What the agent is to do instead; this uses one of its repairs",
    send="Return it to the agent",
)


def of_kind(kind: str, view: Mapping[str, object] = MappingProxyType({})) -> Labels:
    """The words of a kind of gate; of one about checks that could not run they say what a decision does there."""
    if view.get("checks_not_run"):
        return _CHECKS_NOT_RUN
    row = of(kind)
    return row.labels if row else Labels()


def advised(kind: str, verdict: str, view: Mapping[str, object] = MappingProxyType({})) -> str:
    """What the run recommends, by the name of the button that does it."""
    words = of_kind(kind, view)
    named: dict[str, str] = {
        Verdict.APPROVE: words.approve,
        Verdict.REJECT: words.reject,
        Verdict.RESPOND: words.send,
        Verdict.EXTEND: "Extend and continue",
    }
    return named.get(verdict, verdict)

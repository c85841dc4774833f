"""What the buttons of a card say, kind by kind: what will happen, not what the verdict is called (SPEC Q3)."""

from __future__ import annotations

from dataclasses import dataclass

from gates.policy.kinds import Labels, of
from gates.policy.verdicts import SAID
from loops.engine.values import Verdict


@dataclass(frozen=True, slots=True)
class Key:
    """What a reviewer presses for some verdicts, and what the list of keys says of it."""

    key: str
    said: str
    verdicts: tuple[Verdict, ...]


KEYS = (
    Key("a", "Approve, or continue the run", (Verdict.APPROVE, Verdict.EXTEND)),
    Key("y", "Yes, where it asks once more: high risk, or a rollback", ()),
    Key("u", "Take back an approval of high risk, for five seconds", ()),
    Key("e", "Edit, then approve", (Verdict.APPROVE_WITH_EDITS,)),
    Key("r", "Reject, or end the run: with a reason", (Verdict.REJECT,)),
    Key("w", "Write an answer, guidance, or the outcome", (Verdict.RESPOND,)),
    Key("p", "Keep the changes of a run", (Verdict.KEEP,)),
    Key("c", "Continue a run that ended", (Verdict.CONTINUE,)),
    Key("b", "Roll back", (Verdict.ROLL_BACK,)),
)
"""A key for every verdict that a person can give; no kind of gate offers two of one key."""


def key_of(verdict: str) -> str:
    """The key of a verdict. Raises StopIteration for one that no person gives."""
    return next(one.key for one in KEYS if verdict in one.verdicts)


def of_kind(kind: str) -> Labels:
    """The words of a kind of gate."""
    row = of(kind)
    return row.labels if row else Labels()


def advised(kind: str, verdict: str) -> str:
    """What the run recommends, by the name of the button that does it."""
    words = of_kind(kind)
    named: dict[str, str] = {
        Verdict.APPROVE: words.approve,
        Verdict.REJECT: words.reject,
        Verdict.RESPOND: words.send,
        Verdict.EXTEND: "Extend and continue",
    }
    return named.get(verdict, verdict)


def pressed(kind: str, verdict: Verdict) -> str:
    """What was done, in the verb of the button that did it."""
    words = of_kind(kind)
    named = {
        Verdict.APPROVE: words.approved,
        Verdict.REJECT: words.declined,
        Verdict.RESPOND: words.sent,
        Verdict.EXTEND: "Extended and continued",
        Verdict.KEEP: "Changes kept",
        Verdict.CONTINUE: "Continued the run",
    }
    return named.get(verdict) or SAID[verdict].capitalize()

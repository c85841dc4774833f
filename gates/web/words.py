"""What the buttons of a card say, kind by kind: what will happen, not what the verdict is called (SPEC Q3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from gates.policy.verdicts import Kind, Verdict


@dataclass(frozen=True, slots=True)
class Words:
    """Of one kind of gate. ``rejected`` says under the reason what a rejection does."""

    approve: str = "Approve"
    icon: str = "check"
    reject: str = "Reject"
    rejected: str = "The agent reads this and tries to do better."
    answer: str = "Guidance"
    send: str = "Send guidance"


@dataclass(frozen=True, slots=True)
class Key:
    """What a reviewer presses for some verdicts, and what the list of keys says of it."""

    key: str
    said: str
    verdicts: tuple[Verdict, ...]


KEYS = (
    Key("a", "Approve, or let it go on", (Verdict.APPROVE, Verdict.EXTEND)),
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


_ENDS = "The run ends here, with a report. What it has done stays until somebody rolls it back."
_OF_KIND: Mapping[str, Words] = {
    Kind.QUESTION: Words(
        reject="Do not answer",
        rejected="The agent reads this and goes on without an answer.",
        answer="Answer",
        send="Send answer",
    ),
    Kind.LIMIT_REACHED: Words(reject="End the run", rejected=_ENDS),
    Kind.LOOP_DETECTED: Words(reject="End the run", rejected=_ENDS),
    Kind.LOW_CONFIDENCE: Words(approve="Let it go on", icon="play", reject="End the run", rejected=_ENDS),
    Kind.ESCALATION: Words(
        approve="Go on",
        icon="play",
        reject="End the run",
        rejected=_ENDS,
        answer="What was put right, or what to do instead",
        send="Send and go on",
    ),
    Kind.LONG_TASK: Words(
        approve="Go on",
        icon="play",
        reject="Halt the run",
        rejected="The run stops where it is. It can be resumed.",
    ),
    Kind.PERMISSION_BLOCKED: Words(
        approve="Grant this one call",
        reject="Leave it refused",
        rejected="The agent reads this and goes on without the call.",
    ),
    Kind.IN_DOUBT: Words(
        approve="It was not done: run it again",
        icon="rotate-ccw",
        reject="Nobody can tell",
        rejected="The agent is told this, and that the outcome is unknown. The call is not run again.",
    ),
    Kind.IRREVERSIBLE_ACTION: Words(approve="Approve for good"),
}


_CHECKS_NOT_RUN = Words(
    approve="Put right: run the checks again",
    icon="rotate-ccw",
    reject="End the run",
    rejected="The run ends here, with a report. It can be tried again later, when the checks can run.",
    answer="What the agent is to do instead; this uses one of its repairs",
    send="Give it back to the agent",
)


def of_kind(kind: str, view: Mapping[str, object] = MappingProxyType({})) -> Words:
    """The words of a kind of gate; of one about checks that could not run they say what a decision does there."""
    if view.get("checks_not_run"):
        return _CHECKS_NOT_RUN
    return _OF_KIND.get(kind, Words())


def advised(kind: str, verdict: str, view: Mapping[str, object] = MappingProxyType({})) -> str:
    """What the run recommends, by the name of the button that does it."""
    words = of_kind(kind, view)
    named: dict[str, str] = {
        Verdict.APPROVE: words.approve,
        Verdict.REJECT: words.reject,
        Verdict.RESPOND: words.send,
        Verdict.EXTEND: "Extend and go on",
    }
    return named.get(verdict, verdict)

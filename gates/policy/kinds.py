"""THE table of kinds of gates (SPEC Q1, Q3, Q4, Q6): what a person may say to each, who may, how it looks, and in which
words. Verdicts, roles, cards, icons, labels in the database and the admin are derived from it.

What is particular to the card of a kind is the template ``templates/gates/kinds/<kind>.html``, where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from loops.engine.values import Verdict


class Kind(StrEnum):
    TOOL_APPROVAL = "tool_approval"
    IRREVERSIBLE_ACTION = "irreversible_action"
    QUESTION = "question"
    FINAL_REVIEW = "final_review"
    LIMIT_REACHED = "limit_reached"
    NO_PRICE = "no_price"
    LOOP_DETECTED = "loop_detected"
    IN_DOUBT = "in_doubt"
    ROLLBACK_CHOICE = "rollback_choice"
    LOW_CONFIDENCE = "low_confidence"
    PERMISSION_BLOCKED = "permission_blocked"
    ESCALATION = "escalation"
    CHECKS_NOT_RUN = "checks_not_run"
    LONG_TASK = "long_task"


class By(StrEnum):
    """Who may decide a kind."""

    REVIEWERS = "reviewers"
    REQUESTER = "reviewers, and whoever submitted the task while they may still operate the project"
    OPERATORS = "operators and reviewers"


@dataclass(frozen=True, slots=True)
class Labels:
    """What the buttons of a card say: what will happen, not what the verdict is called. ``rejected`` says under the
    reason what a rejection does. ``approved``, ``declined`` and ``sent`` say that the button was pressed."""

    approve: str = "Approve"
    icon: str = "check"
    reject: str = "Reject"
    rejected: str = "The agent reads this and tries to do better."
    answer: str = "Guidance"
    send: str = "Send guidance"
    approved: str = "Approved"
    declined: str = "Rejected"
    sent: str = "Guidance sent"


@dataclass(frozen=True, slots=True)
class GateKind:
    """``awaits`` completes "waits for"; ``extends`` is the verdict that uses up one of a run's extensions; ``shows``
    names what of the view the card lays out in a part of its own."""

    label: str
    awaits: str
    icon: str
    verdicts: tuple[Verdict, ...]
    labels: Labels = Labels()
    by: By = By.REVIEWERS
    extends: Verdict | None = None
    shows: frozenset[str] = frozenset()


_ENDED = "Ended the run"
_ENDS = "The run ends here, with a report. Its changes are kept until somebody rolls them back."

GATE_KINDS: Mapping[Kind, GateKind] = MappingProxyType(
    {
        Kind.TOOL_APPROVAL: GateKind(
            "Tool approval",
            "an approval of a tool call",
            "wrench",
            (Verdict.APPROVE, Verdict.APPROVE_WITH_EDITS, Verdict.REJECT),
        ),
        Kind.IRREVERSIBLE_ACTION: GateKind(
            "Irreversible action",
            "an approval of an irreversible action",
            "octagon-x",
            (Verdict.APPROVE, Verdict.APPROVE_WITH_EDITS, Verdict.REJECT),
            Labels(approve="Approve (irreversible)"),
        ),
        Kind.QUESTION: GateKind(
            "Question",
            "an answer to its question",
            "circle-help",
            (Verdict.RESPOND, Verdict.REJECT),
            Labels(
                reject="Do not answer",
                rejected="The agent reads this and continues without an answer.",
                answer="Answer",
                send="Send answer",
                declined="Left unanswered",
                sent="Answer sent",
            ),
            By.REQUESTER,
        ),
        Kind.FINAL_REVIEW: GateKind(
            "Final review",
            "a review of its result",
            "flag",
            (Verdict.APPROVE, Verdict.REJECT),
            Labels(
                reject="Ask for changes",
                rejected="The agent reads this and continues.",
                declined="Asked for changes",
            ),
            shows=frozenset(
                {"changed", "more_changed", "unrecorded", "more_unrecorded", "by_others", "remarks"}
                | {"workspace_tree", "workspace_why_not"}
            ),
        ),
        Kind.LIMIT_REACHED: GateKind(
            "Limit reached",
            "a decision on a limit",
            "gauge",
            (Verdict.EXTEND, Verdict.REJECT),
            Labels(reject="End the run", rejected=_ENDS, declined=_ENDED),
            extends=Verdict.EXTEND,
            shows=frozenset({"label"}),
        ),
        Kind.NO_PRICE: GateKind(
            "No price known",
            "a decision on a model without a price",
            "coins",
            (Verdict.APPROVE, Verdict.REJECT),
            Labels(
                approve="Continue without a known price",
                icon="play",
                reject="End the run",
                rejected=_ENDS,
                approved="Continued without a known price",
                declined=_ENDED,
            ),
            shows=frozenset({"label"}),
        ),
        Kind.LOOP_DETECTED: GateKind(
            "Loop detected",
            "guidance out of a loop",
            "refresh-cw",
            (Verdict.RESPOND, Verdict.REJECT),
            Labels(reject="End the run", rejected=_ENDS, declined=_ENDED),
            By.REQUESTER,
            extends=Verdict.RESPOND,
            shows=frozenset({"evidence", "method", "steps"}),
        ),
        Kind.IN_DOUBT: GateKind(
            "Outcome in doubt",
            "a decision on an interrupted call",
            "triangle-alert",
            (Verdict.RESPOND, Verdict.APPROVE, Verdict.REJECT),
            Labels(
                approve="Not done: run it again",
                icon="rotate-ccw",
                reject="Outcome unknown",
                rejected="The agent is informed that the outcome is unknown. The call is not run again.",
                approved="Run again",
                declined="Marked as outcome unknown",
                sent="Marked as done",
            ),
            shows=frozenset({"evidence", "attempt", "begun_at", "again_after_s"}),
        ),
        Kind.ROLLBACK_CHOICE: GateKind(
            "Roll back or keep",
            "a choice to roll back or keep its changes",
            "rotate-ccw",
            (Verdict.ROLL_BACK, Verdict.KEEP, Verdict.CONTINUE),
            by=By.OPERATORS,
        ),
        Kind.LOW_CONFIDENCE: GateKind(
            "Low confidence",
            "a decision on its low confidence",
            "gauge",
            (Verdict.RESPOND, Verdict.APPROVE, Verdict.REJECT),
            Labels(
                approve="Continue the run",
                icon="play",
                reject="End the run",
                rejected=_ENDS,
                approved="Continued the run",
                declined=_ENDED,
            ),
            shows=frozenset(
                {
                    "band",
                    "calibrated",
                    "score",
                    "threshold",
                    "why",
                    "method",
                    "features",
                    "weights",
                    "version",
                    "latest_steps",
                }
            ),
        ),
        Kind.PERMISSION_BLOCKED: GateKind(
            "Blocked by policy",
            "a decision on a blocked call",
            "lock",
            (Verdict.RESPOND, Verdict.APPROVE, Verdict.REJECT),
            Labels(
                approve="Allow once",
                reject="Keep blocked",
                rejected="The agent reads this and continues without the call.",
                approved="Allowed once",
                declined="Kept blocked",
            ),
            shows=frozenset({"alternatives", "specialist"}),
        ),
        Kind.ESCALATION: GateKind(
            "Escalation",
            "help with a failure",
            "circle-arrow-up",
            (Verdict.RESPOND, Verdict.APPROVE, Verdict.REJECT),
            Labels(
                approve="Continue",
                icon="play",
                reject="End the run",
                rejected=_ENDS,
                answer="What was fixed, or what to do instead",
                send="Send and continue",
                approved="Continued",
                declined=_ENDED,
                sent="Sent and continued",
            ),
            extends=Verdict.APPROVE,
            shows=frozenset({"failure", "rule", "tried", "files_changed"}),
        ),
        Kind.CHECKS_NOT_RUN: GateKind(
            "Checks could not run",
            "a fix, so that its checks can run",
            "triangle-alert",
            (Verdict.RESPOND, Verdict.APPROVE, Verdict.REJECT),
            Labels(
                approve="Fixed: run the checks again",
                icon="rotate-ccw",
                reject="End the run",
                rejected="The run ends here, with a report. It can be tried again later, when the checks can run.",
                answer="What the agent is to do instead",
                send="Send to the agent",
                approved="Checks run again",
                declined=_ENDED,
                sent="Sent to the agent",
            ),
            extends=Verdict.APPROVE,
            shows=frozenset({"failure", "rule", "before_work"}),
        ),
        Kind.LONG_TASK: GateKind(
            "Long task",
            "a confirmation to continue",
            "timer",
            (Verdict.APPROVE, Verdict.RESPOND, Verdict.REJECT),
            Labels(
                approve="Continue",
                icon="play",
                reject="Stop the run",
                rejected="The run stops where it is. It can be resumed.",
                approved="Continued",
                declined="Stopped the run",
            ),
            shows=frozenset(
                {"steps", "steps_since", "asks_again_after", "progress", "spent_usd", "tokens", "failures_in_row"}
            ),
        ),
    }
)


def of(kind: str) -> GateKind | None:
    """The row of a kind; None for one that nobody knows."""
    return GATE_KINDS[Kind(kind)] if kind in set(Kind) else None

"""What a failure leads to, given how often it has happened (SPEC E1, E2, E4)."""

from __future__ import annotations

from loops.engine.state.failure import Recovery
from loops.engine.values import FailureKind


def decide_recovery(
    kind: FailureKind,
    *,
    attempts: int,
    attempts_at_most: int,
    person_can_help: bool = False,
    corrections_at_most: int = 0,
) -> Recovery:
    """``attempts`` counts the failures in a row of the present approach, this one included. How many approaches may be
    given up is a limit (``max_backtracks``), and stops the run by itself.

    RVRB's table, with three differences. A transient failure whose attempts are used up is a BACKTRACK: what keeps
    failing is no longer transient. One that a person can put right goes to a person instead (``person_can_help``), and
    so does an unrecoverable one, because RVRB's partial answer would waste work that a new key could save. And RVRB
    lets the model see an error and correct itself only when it is transient; ``corrections_at_most`` gives a systematic
    one that many failures in a row before the approach is given up, because agents often see the same error several
    times and still win. With 0, the default, the first systematic failure is a BACKTRACK, as RVRB has it.
    """
    match kind:
        case FailureKind.CRITICAL:
            return Recovery.ESCALATE
        case FailureKind.UNRECOVERABLE:
            return Recovery.ESCALATE if person_can_help else Recovery.FAIL_GRACEFULLY
        case FailureKind.TRANSIENT:
            patience = attempts_at_most
        case FailureKind.SYSTEMATIC:
            patience = corrections_at_most + 1
    if attempts < patience:
        return Recovery.CONTINUE
    if kind is FailureKind.TRANSIENT and person_can_help:
        return Recovery.ESCALATE
    return Recovery.BACKTRACK

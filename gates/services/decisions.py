"""Decide a gate: exactly one decision wins, over exactly what was shown, by somebody who may (SPEC Q5, Q6)."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import connection, transaction
from django.db.models import Q

from gates.feed import publish_queue_on_commit
from gates.models import Decision, Gate
from gates.policy import digests, payloads
from gates.policy.disclosure import repeated_arguments
from gates.policy.take_back import held
from gates.policy.verdicts import RESULT, again_from, allowed, lets
from gates.services import disclosure
from gates.services.edits import judged_edit
from gates.services.extensions import check_extension
from gates.services.people import objections_of
from gates.services.refusals import (
    DecisionRefused,
    GateChanged,
    GateExpired,
    GateNotFound,
    InvalidDecision,
    NotAllowed,
    NotShown,
    already_decided,
    audit,
)
from loops.crash_points import CrashPoint, reach
from loops.engine.encoding import canonical
from loops.engine.state.limits import Limits
from loops.engine.values import Verdict
from loops.masking import known
from loops.models import Run
from loops.storage import inbox

LONGEST_REASON = 10_000


@dataclass(frozen=True, slots=True)
class _Asked:
    """One request to decide, before anything was checked."""

    actor: Any
    verdict: str
    digest: str
    reason: str
    payload: Mapping[str, Any]
    shown: str
    """Evidence that the whole was shown."""


def decide(  # noqa: PLR0913 - a decision, and the proof
    *,
    actor: Any,
    gate_id: uuid.UUID | str,
    verdict: str,
    digest: str,
    shown: str,
    reason: str = "",
    payload: Mapping[str, Any] | None = None,
) -> Decision:
    """Take one decision, or raise a DecisionRefused and change nothing: page, fragment, several at once, API.

    ``digest`` is the one the page showed. ``shown`` is the proof that came with the whole gate
    (``gates.services.disclosure``): a verdict that lets something happen needs it, saying no does not. Edited arguments
    are judged again before the transaction, because that may take a while; who, when and what are checked inside it,
    under the lock.
    """
    asked = _Asked(actor, verdict, digest, canonical.clean(reason).strip(), payload or {}, shown)
    gate: Gate | None = None
    try:
        gate = visible_gate(actor, gate_id)
        _check(gate, asked)
        cleaned = _cleaned(gate, asked)
        check_extension(actor, gate, verdict, cleaned)
        subject = judged_edit(gate, cleaned["arguments"]) if verdict == Verdict.APPROVE_WITH_EDITS else None
        return _decide(gate, asked, cleaned, subject)
    except DecisionRefused as refusal:
        audit(refusal, actor=actor, gate=gate, gate_id=gate_id, verdict=verdict)
        raise


def visible_gate(actor: Any, gate_id: uuid.UUID | str) -> Gate:
    """The gate, or GateNotFound for what does not exist and for what ``actor`` may not see."""
    try:
        key = gate_id if isinstance(gate_id, uuid.UUID) else uuid.UUID(str(gate_id))
    except ValueError:
        raise GateNotFound from None
    around = ("project", "claimed_by", "run__agent", "run__task__created_by", "run__task__workspace")
    gate = Gate.objects.visible_to(actor).select_related(*around).filter(pk=key).first()
    if gate is None:
        raise GateNotFound
    return gate  # type: ignore[no-any-return]


def locked_gate(gate: Gate) -> tuple[Gate, datetime]:
    """The gate as it is now, locked, and the database's time. The run is locked first, as its journal does."""
    Run.objects.select_for_update(no_key=True).only("pk").get(pk=gate.run_id)
    fresh = Gate.objects.select_for_update(of=("self",)).select_related("run__task").get(pk=gate.pk)
    with connection.cursor() as cursor:
        cursor.execute("SELECT clock_timestamp()")
        return fresh, cursor.fetchone()[0]


@transaction.atomic
def _decide(gate: Gate, asked: _Asked, payload: dict[str, Any], subject: bytes | None) -> Decision:
    gate, now = locked_gate(gate)
    _check(gate, asked)
    if now >= gate.expires_at:
        raise GateExpired("The time for this decision has passed. It was not approved and not rejected.")
    begins_again = asked.verdict == Verdict.APPROVE or payload.get("outcome") == "not_done"
    if begins_again and (since := again_from(gate.kind, gate.view, gate.opened_at, now)) is not None:
        text = f"Not before {since:%H:%M:%S} UTC: until then the lost worker may still be running the call."
        raise InvalidDecision({"verdict": [text]})
    decision = Decision.objects.create(
        gate=gate,
        verdict=asked.verdict,
        reason=known().text(asked.reason),
        payload=known().value(payload),
        digest=asked.digest,
        decided_by=asked.actor,
    )
    if subject is not None:
        gate.subject = subject
        gate.digest = digests.digest(
            subject=subject,
            view=gate.view_hash,
            expires_at=gate.expires_at,
            nonce=gate.nonce,
        )
    settle(gate, decision, now)
    return decision


def settle(gate: Gate, decision: Decision, now: datetime) -> None:
    """Write the outcome on the locked gate and leave it for the run, which hears of a grave approval a little later."""
    gate.status = RESULT[Verdict(decision.verdict)]
    gate.decided_at = now
    gate.save(update_fields=["status", "decided_at", "subject", "digest"])
    by = decision.decided_by
    message = {
        "gate": str(gate.pk),
        "kind": gate.kind,
        "verdict": decision.verdict,
        "reason": decision.reason,
        "payload": decision.payload,
        "call_id": gate.call_id,
        "by": by.get_username() if by else "",
        "digest": gate.digest,
    }
    transaction.on_commit(lambda: reach(CrashPoint.DECIDED))
    after = held(gate.kind, gate.risk, decision.verdict, settings.TAKE_BACK_S)
    inbox.put(gate.run_id, "decision", message, actor=by, after=after)
    publish_queue_on_commit(gate.project_id, gate.run_id)


def _check(gate: Gate, asked: _Asked) -> None:
    """Everything that can forbid the decision, in the order people should hear it. Raises DecisionRefused."""
    if reasons := objections_of(asked.actor, gate, asked.verdict):
        raise NotAllowed(" ".join(reasons))
    if not gate.is_open:
        raise already_decided(gate)
    possible = allowed(gate.kind, view_bytes(gate))
    if asked.verdict not in possible:
        raise InvalidDecision({"verdict": [f"Not possible at this gate. Choose one of: {', '.join(possible)}."]})
    if len(asked.reason) > LONGEST_REASON:
        said = f"It has {len(asked.reason):,} characters; at most {LONGEST_REASON:,} are possible."
        raise InvalidDecision({"reason": [said]})
    if asked.digest != gate.digest:
        raise GateChanged("This changed since the page was loaded. Look at it again before you decide.")
    if asked.digest != _held(gate):
        raise GateChanged("This gate was changed in the database after it opened: it cannot be decided. Tell an admin.")
    if not lets(gate.kind, asked.verdict):
        return
    files = disclosure.outline(gate)
    if hidden := disclosure.unshowable(gate, files):
        text = f"It cannot be approved, because not all of it can be shown. {' '.join(hidden)}"
        raise InvalidDecision({"verdict": [text]})
    if not disclosure.was_shown(asked.actor, gate, asked.shown, files):
        raise NotShown


def _held(gate: Gate) -> str:
    """The digest of what the row holds now: differs when anybody rewrote the action or the view."""
    return digests.digest(
        subject=bytes(gate.subject),
        view=digests.view_hash(gate.view),
        expires_at=gate.expires_at,
        nonce=gate.nonce,
    )


def view_bytes(gate: Gate) -> int:
    """Size of what a person has to read on the card; the changed files of a result are shown one by one."""
    view = gate.view
    if repeated := repeated_arguments(view):
        view = view | {"arguments": {name: one for name, one in view["arguments"].items() if name not in repeated}}
    return len(json.dumps(view, ensure_ascii=False).encode())


def _counted(gate: Gate) -> Mapping[str, Any]:
    """The view with the extensions of its run: gates of earlier versions do not say how many there were."""
    view: Mapping[str, Any] = gate.view
    always_counted = gate.kind in {Gate.Kind.LIMIT_REACHED, Gate.Kind.LOOP_DETECTED}
    if payloads.extensions_left(view) is not None or not always_counted:
        return view
    extended = Q(kind=Gate.Kind.LIMIT_REACHED, status=Gate.Status.EXTENDED)
    let_on = Q(kind=Gate.Kind.LOOP_DETECTED, status=Gate.Status.ANSWERED)
    used = Gate.objects.filter(extended | let_on, run_id=gate.run_id).count()
    return {**view, "extensions_used": used, "extensions_allowed": Limits().max_extensions}


def _cleaned(gate: Gate, asked: _Asked) -> dict[str, Any]:
    try:
        cleaned = payloads.cleaned(
            kind=gate.kind,
            verdict=asked.verdict,
            tool=gate.tool,
            reason=asked.reason,
            payload=asked.payload,
            view=_counted(gate),
        )
    except payloads.Invalid as invalid:
        raise InvalidDecision(invalid.errors) from invalid
    stored: dict[str, Any] = canonical.clean_json(cleaned)
    return stored

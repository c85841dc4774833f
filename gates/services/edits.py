"""Edited arguments are a new proposal: schema, matrix and policy judge them as if the model had made it."""

from __future__ import annotations

import json
from typing import Any

from django.core.exceptions import ObjectDoesNotExist

from gates.models import Gate
from gates.policy import digests
from gates.policy.payloads import FORM, Errors
from gates.policy.queue import risk_rank
from gates.services.refusals import InvalidDecision
from loops.engine.encoding import canonical
from loops.engine.ports import Judgement
from loops.engine.values import Access


def judged_edit(gate: Gate, arguments: dict[str, Any]) -> bytes:
    """Canonical bytes of the action with ``arguments``, which the approval then binds to. Raises InvalidDecision."""
    from loops.runs.composition import rejudge

    try:
        judgement: Judgement = rejudge(str(gate.run_id), gate.call_id, gate.tool, arguments)
    except ObjectDoesNotExist as gone:
        raise InvalidDecision.of("The call behind this gate is not known any more.") from gone
    if judgement.invalid or judgement.access == Access.DENY:
        raise InvalidDecision(_by_field(judgement.reasons, gate.view))
    if judgement.gate_kind not in ("", gate.kind) or risk_rank(judgement.risk) > risk_rank(gate.risk):
        raise InvalidDecision.of(
            "With these arguments the action is riskier than the one this gate is about. "
            "Reject it with a reason, and let the agent propose it."
        )
    try:
        return _as_shown(digests.subject_bytes(judgement.subject), bytes(gate.subject))
    except digests.TooDeep as error:
        raise InvalidDecision.of(str(error)) from error


def _as_shown(edited: bytes, shown: bytes) -> bytes:
    """``edited`` with all that the call would find as it stood when the card was made: whoever edited the words of a
    call has not seen what became of its files and variables meanwhile, and is asked again."""
    new, old = json.loads(edited), json.loads(shown)
    new |= {part: old[part] for part in ("workspace", "environment_sha256") if part in new and part in old}
    new["operands"] |= {name: state for name, state in old.get("operands", {}).items() if name in new["operands"]}
    return canonical.encode(new)


def _by_field(reasons: tuple[str, ...], view: dict[str, Any]) -> Errors:
    """Reasons of the form "name: message" go to the field of that name, all others to the form."""
    schema = view.get("parameters_schema")
    fields = schema.get("properties", {}) if isinstance(schema, dict) else {}
    errors: Errors = {}
    for reason in reasons or ("These arguments are not allowed.",):
        name, _, message = reason.partition(": ")
        known = message and name in fields
        errors.setdefault(f"arguments.{name}" if known else FORM, []).append(message if known else reason)
    return errors

"""What people do with gates. Each function is one use case and one transaction; refusals are audited."""

from gates.services.bulk import BulkItem, BulkResult, Preview, decide_many, preview_many
from gates.services.claims import claim, release
from gates.services.decisions import decide
from gates.services.expiry import expire_due
from gates.services.people import objections_of, standing_of
from gates.services.refusals import (
    AlreadyDecided,
    DecisionRefused,
    GateChanged,
    GateExpired,
    GateNotFound,
    InvalidDecision,
    NotAllowed,
    NotShown,
    TooLate,
    audit,
)
from gates.services.take_back import seconds_left, take_back

__all__ = [
    "AlreadyDecided",
    "BulkItem",
    "BulkResult",
    "DecisionRefused",
    "GateChanged",
    "GateExpired",
    "GateNotFound",
    "InvalidDecision",
    "NotAllowed",
    "NotShown",
    "Preview",
    "TooLate",
    "audit",
    "claim",
    "decide",
    "decide_many",
    "expire_due",
    "objections_of",
    "preview_many",
    "release",
    "seconds_left",
    "standing_of",
    "take_back",
]

"""Evidence that somebody was shown the whole of a gate (SPEC Q5).

The proof is made where the whole is given out and nowhere else: on a card, in the preview of several, in the API's
answer about one gate. Lists give the digest, and a digest says which gate is meant, not that anybody has read it.
"""

from __future__ import annotations

import uuid
from typing import Any

from django.utils.crypto import constant_time_compare, salted_hmac

from gates.models import Gate


def proof(actor: Any, gate: Gate) -> str:
    """Hex text that only who was shown ``gate`` as it is now can send back; another person's is worth nothing."""
    return _made(actor.pk, gate.pk, gate.digest)


def was_shown(actor: Any, gate: Gate, sent: str) -> bool:
    """Is ``sent`` the proof of ``actor`` for what ``gate`` holds now?"""
    return constant_time_compare(sent, proof(actor, gate))


def _made(person: Any, gate: uuid.UUID, digest: str) -> str:
    return salted_hmac("gates.shown", f"{person}:{gate}:{digest}", algorithm="sha256").hexdigest()

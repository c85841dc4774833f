"""The facts of some kinds, read on the journal's own connection: no ORM, since it is asked inside an event loop."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from loops.engine.facts import Fact
from loops.storage.encoding import decode_fact, references

_FACTS = "SELECT body FROM loops_fact WHERE run_id = %s AND kind = ANY(%s) ORDER BY seq"
_BLOBS = "SELECT sha256, body FROM loops_blob WHERE sha256 = ANY(%s)"


def read(connection: Any, run_id: uuid.UUID | str, kinds: Sequence[str]) -> list[Fact]:
    """In order and whole. Raises KeyError naming bytes that are not stored: the journal is damaged."""
    bodies = [bytes(body) for (body,) in connection.execute(_FACTS, [run_id, list(kinds)]).fetchall()]
    names = sorted({name for body in bodies for name in references(body)})
    found = dict(connection.execute(_BLOBS, [names]).fetchall()) if names else {}
    return [decode_fact(body, lambda sha256: bytes(found[sha256])) for body in bodies]

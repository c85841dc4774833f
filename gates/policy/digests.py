"""The digest that ties an approval to exactly what was shown (SPEC Q5, reliability#approvals).

    SHA-256 over the RFC 8785 bytes of {"expires_at", "nonce", "subject", "view"}

``subject`` is the complete action (the 14-field binding), ``view`` the hash of what the reviewer saw. Values that
JSON cannot carry are mapped so that two different values never share bytes: ``loops.engine.encoding.canonical`` tags
them ({"$int": "..."}), and keys that could imitate a tag are escaped here first.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from loops.engine.encoding import canonical

DEEPEST = 100
_EXACT = 2**53


class TooDeep(ValueError):
    """A value nested deeper than anybody can review."""


def subject_bytes(subject: Mapping[str, Any]) -> bytes:
    """Canonical bytes of the action, stored with the gate. Injective: other values, other bytes."""
    return canonical.encode(_distinct(subject, DEEPEST))


def shown(view: Any) -> Any:
    """``view`` as the database returns it, so that its hash survives the round trip through jsonb."""
    return _storable(canonical.clean_json(view), DEEPEST)


def view_hash(view: Any) -> str:
    """Hex hash of what the reviewer is shown; ``view`` comes from ``shown`` or from the database."""
    return hashlib.sha256(canonical.encode(_distinct(view, DEEPEST))).hexdigest()


def digest(*, subject: bytes, view: str, expires_at: datetime, nonce: str) -> str:
    """Hex digest of one approval. ``subject`` comes from ``subject_bytes``, ``view`` from ``view_hash``.

    The envelope is written by hand because its keys are in order already and the subject is canonical: this is
    the RFC 8785 form, without reading the subject again.
    """
    head = f'{{"expires_at":{json.dumps(_moment(expires_at))},"nonce":{json.dumps(nonce)},"subject":'
    tail = f',"view":{json.dumps(view)}}}'
    return hashlib.sha256(head.encode() + subject + tail.encode()).hexdigest()


def _moment(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _distinct(value: Any, depth: int) -> Any:
    """``value`` with keys escaped that imitate a tag, or that cleaning would make equal to another key."""
    if depth < 0:
        raise TooDeep("nested deeper than can be reviewed")
    if isinstance(value, Mapping):
        return {_key(str(key)): _distinct(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_distinct(item, depth - 1) for item in value]
    return value


def _key(key: str) -> str:
    if canonical.clean(key) != key:
        return f"$hex:{key.encode('utf-8', 'surrogatepass').hex()}"
    return f"${key}" if key.startswith("$") else key


def _storable(value: Any, depth: int) -> Any:
    """jsonb keeps numbers, not their spelling: a whole float comes back as an integer."""
    if depth < 0:
        raise TooDeep("nested deeper than can be reviewed")
    if isinstance(value, float) and math.isfinite(value) and value.is_integer() and abs(value) >= _EXACT:
        return int(value)
    if isinstance(value, Mapping):
        return {key: _storable(item, depth - 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_storable(item, depth - 1) for item in value]
    return value

"""Facts as stored bytes: hashed, chained, with long parts moved to blobs (architecture#journal, SPEC J7, N1)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loops.engine.encoding import canonical
from loops.engine.facts import KINDS, Fact
from loops.engine.facts.encoding import LABEL, fact_bytes, keep, labelled, read_fact

INLINE_BYTES = 4096
"""A fact up to this size is stored whole; above it, heavy fields move to blobs."""
BLOB_FROM = 1024
_MOVED = b'"#blob":'


@dataclass(frozen=True, slots=True)
class Encoded:
    kind: str
    body: bytes
    hash: bytes
    blobs: Mapping[str, bytes]


def encode_fact(fact: Fact, prev: bytes) -> Encoded:
    """Canonical bytes of ``fact`` and its link: SHA-256(prev || body)."""
    body = fact_bytes(fact)
    blobs: dict[str, bytes] = {}
    if len(body) > INLINE_BYTES:
        body, blobs = _without_heavy_parts(fact)
    return Encoded(type(fact).__name__, body, link(prev, body), blobs)


def _without_heavy_parts(fact: Fact) -> tuple[bytes, dict[str, bytes]]:
    plain, blobs = labelled(fact), {}
    for name in type(fact).HEAVY:
        if name in plain:
            part = canonical.encode(plain[name])
            if len(part) >= BLOB_FROM:
                sha256 = hashlib.sha256(part).hexdigest()
                blobs[sha256] = part
                plain[name] = {"#blob": sha256, "#size": len(part)}
    return canonical.encode(plain), blobs


def link(prev: bytes, body: bytes) -> bytes:
    return hashlib.sha256(prev + body).digest()


def plain_fact(body: bytes, blob: Callable[[str], bytes]) -> dict[str, Any]:
    """The stored JSON with references resolved."""
    plain: dict[str, Any] = canonical.decode(body)
    heavy = KINDS[plain[LABEL]].HEAVY
    for name, value in plain.items():
        if name in heavy and _is_reference(value):
            plain[name] = canonical.decode(blob(value["#blob"]))
    return plain


def references(body: bytes) -> list[str]:
    """Blobs that a stored fact names."""
    if _MOVED not in body:
        return []
    plain = canonical.decode(body)
    heavy = KINDS[plain[LABEL]].HEAVY
    return [value["#blob"] for name, value in plain.items() if name in heavy and _is_reference(value)]


def _is_reference(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"#blob", "#size"}


def decode_fact(body: bytes, blob: Callable[[str], bytes]) -> Fact:
    """The fact itself. Raises KeyError for a kind this version does not know."""
    fact = read_fact(plain_fact(body, blob))
    if _MOVED not in body:
        keep(fact, body)
    return fact

"""Facts as bytes: canonical, hashed, with long parts moved to blobs (ARCHITECTURE 3, SPEC J7, N1)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from loops.engine import canonical
from loops.engine.codec import from_plain, to_plain
from loops.engine.facts import KINDS, Fact

VERSION = 1
LABEL = "fact"
"""Key that names the kind of a stored fact; no fact has a field of that name."""
INLINE_BYTES = 4096
"""A fact up to this size is stored whole; above it, heavy fields move to blobs."""
BLOB_FROM = 1024


@dataclass(frozen=True, slots=True)
class Encoded:
    kind: str
    body: bytes
    hash: bytes
    blobs: Mapping[str, bytes]


def encode_fact(fact: Fact, prev: bytes) -> Encoded:
    """Canonical bytes of ``fact`` and its link: SHA-256(prev || body)."""
    kind = type(fact).__name__
    plain = to_plain(fact) | {LABEL: kind, "v": VERSION}
    body = canonical.encode(plain)
    blobs: dict[str, bytes] = {}
    if len(body) > INLINE_BYTES:
        for name in type(fact).HEAVY:
            if name in plain:
                part = canonical.encode(plain[name])
                if len(part) >= BLOB_FROM:
                    sha256 = hashlib.sha256(part).hexdigest()
                    blobs[sha256] = part
                    plain[name] = {"#blob": sha256, "#size": len(part)}
        body = canonical.encode(plain)
    return Encoded(kind, body, link(prev, body), blobs)


def link(prev: bytes, body: bytes) -> bytes:
    return hashlib.sha256(prev + body).digest()


def plain_fact(body: bytes, blob: Callable[[str], bytes]) -> dict[str, Any]:
    """The stored JSON with references resolved."""
    plain: dict[str, Any] = canonical.decode(body)
    for name, value in plain.items():
        if isinstance(value, dict) and value.keys() == {"#blob", "#size"} and name in KINDS[plain[LABEL]].HEAVY:
            plain[name] = canonical.decode(blob(value["#blob"]))
    return plain


def references(body: bytes) -> list[str]:
    """Blobs that a stored fact names."""
    if b'"#blob":' not in body:
        return []
    plain = canonical.decode(body)
    return [v["#blob"] for v in plain.values() if isinstance(v, dict) and v.keys() == {"#blob", "#size"}]


def decode_fact(body: bytes, blob: Callable[[str], bytes]) -> Fact:
    """The fact itself. Raises KeyError for a kind this version does not know."""
    plain = plain_fact(body, blob)
    return from_plain(KINDS[plain[LABEL]], plain)

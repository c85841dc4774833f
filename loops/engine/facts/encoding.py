"""Facts as canonical bytes: what the journal hashes and stores, and what identifies a conversation."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any, cast, get_args, get_origin, get_type_hints

from loops.engine.encoding import canonical
from loops.engine.encoding.codec import from_plain, to_plain
from loops.engine.facts import KINDS, Fact

VERSION = 1
LABEL = "fact"
"""Key that names the kind of a recorded fact; no fact has a field of that name."""

_KEPT_AT_MOST = 256
_kept: dict[int, tuple[Fact, bytes]] = {}
"""Bytes of the latest facts: the conversation and the journal both ask for them, within one step."""


def fact_bytes(fact: Fact) -> bytes:
    """Canonical bytes (RFC 8785) of the whole fact, its kind and the version of the form."""
    kept = _kept.get(id(fact))
    if kept is not None and kept[0] is fact:
        return kept[1]
    plain = labelled(fact)
    body = canonical.encode(plain) if _holds_foreign_values(cast(type, type(fact))) else canonical.encode_plain(plain)
    keep(fact, body)
    return body


def keep(fact: Fact, body: bytes) -> None:
    """Spare ``fact_bytes`` its work: ``body`` are the bytes of the whole fact."""
    if len(_kept) >= _KEPT_AT_MOST:
        _kept.clear()
    _kept[id(fact)] = (fact, body)


def labelled(fact: Fact) -> dict[str, Any]:
    """The fact as plain JSON values with its label."""
    plain: dict[str, Any] = to_plain(fact)
    plain[LABEL], plain["v"] = type(fact).__name__, VERSION
    return plain


def read_fact(plain: Mapping[str, Any]) -> Fact:
    """Inverse of ``labelled``. Raises KeyError for a kind this version does not know."""
    return from_plain(KINDS[plain[LABEL]], plain)


@cache
def _holds_foreign_values(kind: type) -> bool:
    """Does it hold JSON or numbers from outside, whose parts have to be looked at one by one?"""
    hints = get_type_hints(kind)
    return any(_is_foreign(hints[field.name]) for field in dataclasses.fields(kind))


def _is_foreign(hint: Any) -> bool:
    if hint in (str, bool, int, type(None)) or (isinstance(hint, type) and issubclass(hint, str)):
        return False
    if get_origin(hint) in (tuple, frozenset):
        return any(_is_foreign(arg) for arg in get_args(hint) if arg is not Ellipsis)
    return True

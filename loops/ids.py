"""Identifiers: UUID version 7 (RFC 9562), so that keys sort by time and keyset pagination works on them."""

from __future__ import annotations

import uuid

from uuid_utils.compat import uuid7


def new_id() -> uuid.UUID:
    return uuid7()


def new_key() -> str:
    """A uuid7 as text, for tables whose key D83 types VARCHAR(100)."""
    return str(uuid7())

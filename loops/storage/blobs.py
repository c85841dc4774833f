"""Bytes by their hash: whole tool outputs and file contents (SPEC C5)."""

from __future__ import annotations

import hashlib

from django.db import connection

_INSERT = "INSERT INTO loops_blob (sha256, size, body) VALUES (%s, %s, %s) ON CONFLICT DO NOTHING"


def save(data: bytes) -> str:
    """Store ``data`` once; returns its SHA-256 in hex. Safe from any thread."""
    sha256 = hashlib.sha256(data).hexdigest()
    with connection.cursor() as cursor:
        cursor.execute(_INSERT, [sha256, len(data), data])
    return sha256

"""Reads of the journal: histories to resume, conversations, raw facts. Primary only (reliability#lease)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding import canonical
from loops.engine.facts import Fact
from loops.models import Artifact, Blob, Tombstone
from loops.models import Fact as FactRow
from loops.storage.encoding import decode_fact, plain_fact, references

UNREADABLE = "journal_unreadable"


class MissingBlob(Exception):
    """A fact names bytes that are not stored: the journal is damaged."""


class Pruned(MissingBlob):
    """Retention took the bytes away; the run's tombstone says when."""


class Blobs:
    """The blobs of a batch of facts of one run, read in one query."""

    def __init__(self, run_id: uuid.UUID | str, bodies: Sequence[bytes]) -> None:
        self._run_id = run_id
        names = {name for body in bodies for name in references(body)}
        self._found = dict(Blob.objects.filter(pk__in=names).values_list("sha256", "body")) if names else {}

    def __call__(self, sha256: str) -> bytes:
        try:
            return bytes(self._found[sha256])
        except KeyError:
            raise (Pruned if is_pruned(self._run_id) else MissingBlob)(sha256) from None

    def or_nothing(self, sha256: str) -> bytes:
        """For people: what was pruned shows as such. Raises MissingBlob."""
        try:
            return self(sha256)
        except Pruned:
            self._found.setdefault(sha256, PRUNED)
            return PRUNED


PRUNED = b'"(pruned)"'


def is_pruned(run_id: uuid.UUID | str) -> bool:
    """Have long texts of this run been taken away?"""
    return Tombstone.objects.filter(run_id=run_id).exists()


def history(run_id: uuid.UUID | str, after: int = 0, until: int | None = None) -> list[Fact]:
    """The facts after sequence number ``after``, up to ``until`` (None: all), in order, whole."""
    return list(stream(run_id, after, until))


def stream(run_id: uuid.UUID | str, after: int = 0, until: int | None = None) -> Iterator[Fact]:
    """``history``, one fact at a time as it is decoded."""
    rows = FactRow.objects.filter(run_id=run_id, seq__gt=after)
    if until is not None:
        rows = rows.filter(seq__lte=until)
    bodies = [bytes(body) for body in rows.order_by("seq").values_list("body", flat=True)]
    blobs = Blobs(run_id, bodies)
    for body in bodies:
        yield decode_fact(body, blobs)


def raw(run_id: uuid.UUID | str, after: int = 0, limit: int = 100) -> list[dict[str, Any]]:
    """Stored facts for people: seq, kind, step, at, hash, and the fact as JSON, clean for display."""
    rows = list(FactRow.objects.filter(run_id=run_id, seq__gt=after).order_by("seq")[:limit])
    blobs = Blobs(run_id, [bytes(row.body) for row in rows])
    return [
        {
            "seq": row.seq,
            "kind": row.kind,
            "step": row.step,
            "at": row.at,
            "epoch": row.epoch,
            "hash": bytes(row.hash).hex(),
            "fact": canonical.clean_json(plain_fact(bytes(row.body), blobs.or_nothing)),
        }
        for row in rows
    ]


def conversation(run_id: uuid.UUID | str) -> list[dict[str, Any]]:
    """What the model saw and said, message by message, the system prompt first (SPEC R4)."""
    transcript = Transcript()
    for fact in history(run_id):
        transcript = extend(transcript, fact)
    system = {"role": "system", "content": [{"type": "text", "text": transcript.system}]}
    return [canonical.clean_json(message) for message in (system, *transcript.messages)]


def report(run_id: uuid.UUID | str) -> dict[str, Any] | None:
    """The latest AgentResult, FailureReport or HaltRecord; None while the run goes on. Where the journal cannot be read
    it stands beside it."""
    if beside := _beside_the_journal(run_id):
        return beside
    row = FactRow.objects.filter(run_id=run_id, kind="RunEnded").order_by("-seq").first()
    if row is None:
        return None
    body = bytes(row.body)
    found: dict[str, Any] = canonical.clean_json(plain_fact(body, Blobs(run_id, [body]))["report"])
    return found


def _beside_the_journal(run_id: uuid.UUID | str) -> dict[str, Any] | None:
    unreadable = Artifact.objects.filter(run=run_id, run__end_reason=UNREADABLE, name=UNREADABLE)
    sha256 = unreadable.order_by("-seq").values_list("sha256", flat=True).first()
    body = Blob.objects.filter(pk=sha256).values_list("body", flat=True).first() if sha256 else None
    return canonical.clean_json(canonical.decode(bytes(body))) if body is not None else None


def blob(sha256: str) -> Iterator[bytes]:
    """The bytes of one blob in pieces. Raises MissingBlob at once, before anybody has begun to answer with them."""
    found = Blob.objects.filter(pk=sha256).values_list("body", flat=True).first()
    if found is None:
        raise MissingBlob(sha256)
    data = bytes(found)
    return (data[start : start + 65_536] for start in range(0, len(data), 65_536))

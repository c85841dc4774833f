"""Is the record of a run whole? Every hash is computed again from the stored bytes (SPEC N1)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from loops.models import Blob, Fact, ProvenanceRecord, Run
from loops.storage.encoding import link, references

BATCH = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """``fault`` is empty when everything fits; otherwise it names the first thing that does not."""

    facts: int
    blobs: int
    fault: str = ""


def check(run: Run) -> Outcome:
    """Walk the journal from its first fact to its head, its blobs, and the record of the result."""
    facts, prev, named, fault = _walk(run)
    if not fault and (facts != run.head_seq or (facts and prev != bytes(run.head_hash))):
        fault = "the journal does not end where the run says it ends"
    blobs, blob_fault = _read_blobs(named)
    return Outcome(facts, blobs, fault or blob_fault or _record_fault(run))


def _walk(run: Run) -> tuple[int, bytes, set[str], str]:
    """(facts, last hash, blobs named, fault)."""
    facts, prev = 0, b""
    named: set[str] = set()
    rows = Fact.objects.filter(run=run).order_by("seq").values_list("seq", "body", "prev", "hash")
    for seq, body, before, stored in rows.iterator(BATCH):
        facts += 1
        if seq != facts:
            return facts, prev, named, f"fact {facts} is missing"
        if facts > 1 and bytes(before) != prev:
            return facts, prev, named, f"fact {seq} does not follow the fact before it"
        prev = link(bytes(before), bytes(body))
        if prev != bytes(stored):
            return facts, prev, named, f"fact {seq} was changed"
        named.update(references(bytes(body)))
    return facts, prev, named, ""


def _read_blobs(named: set[str]) -> tuple[int, str]:
    blobs = 0
    for sha256, body in Blob.objects.filter(pk__in=named).values_list("sha256", "body").iterator(50):
        blobs += 1
        if hashlib.sha256(bytes(body)).hexdigest() != sha256:
            return blobs, f"the bytes of {sha256[:12]} were changed"
    return blobs, f"{len(named) - blobs} stored bodies are missing" if blobs != len(named) else ""


def _record_fault(run: Run) -> str:
    record = ProvenanceRecord.objects.filter(run=run).first()
    if record is None:
        return ""
    fits = link(bytes(record.prev), bytes(record.body)) == bytes(record.hash)
    return "" if fits else "the record of the result was changed"

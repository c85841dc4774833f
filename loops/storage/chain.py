"""Verify what is written: every run's hash chain, every blob, every provenance record (SPEC N1)."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from django.db import connection, transaction

from loops.engine.encoding import canonical
from loops.models import Artifact, Blob, Fact, ProvenanceRecord, Run, Tombstone
from loops.storage import lineage
from loops.storage.blob_references import REPORTS
from loops.storage.encoding import link, references

BATCH = 2000


@dataclass(slots=True)
class ChainReport:
    """What was checked and what was found wrong; ``problems`` empty means intact."""

    runs: int = 0
    facts: int = 0
    blobs: int = 0
    records: int = 0
    pruned: int = 0
    """Bodies that retention took away, with a tombstone that explains it."""
    gone: set[str] = field(default_factory=set)
    """Their names."""
    problems: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.problems


def verify(run_id: uuid.UUID | str | None = None) -> ChainReport:
    """Check one run, or everything there is. Reads, never writes."""
    report = ChainReport()
    runs = Run.objects.order_by("id")
    if run_id is not None:
        runs = runs.filter(pk=run_id)
    pruned = set(Tombstone.objects.values_list("run_id", flat=True))
    for run in runs.only("id").iterator(chunk_size=200):
        with _one_moment():
            wanted, final = _verify_facts(run, report)
        report.pruned += _verify_blobs(run, wanted, report, may_be_gone=wanted - final if run.pk in pruned else set())
    _verify_tombstones(report, run_id)
    report.problems.extend(lineage.faults(run_id))
    _verify_records(report, run_id)
    if run_id is None:
        _verify_all_blobs(report)
    return report


@contextmanager
def _one_moment() -> Iterator[None]:
    """A run and its facts as of one moment, for it may be at work; in a caller's transaction, as that has them."""
    if connection.in_atomic_block:
        yield
        return
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        yield


def _verify_facts(run: Run, report: ChainReport) -> tuple[set[str], set[str]]:
    """Bodies that have to be there, and those of them that are never pruned."""
    report.runs += 1
    prev, seq, epoch, commits = b"", 0, 0, False
    head_seq, head_hash = Run.objects.values_list("head_seq", "head_hash").get(pk=run.pk)
    wanted, final = _artifacts(run)
    for fact in Fact.objects.filter(run_id=run.pk).order_by("seq").iterator(chunk_size=BATCH):
        seq += 1
        body = bytes(fact.body)
        if fact.seq != seq:
            report.problems.append(f"run {run.pk}: fact {seq} is missing (found {fact.seq})")
            seq = fact.seq
        if bytes(fact.prev) != prev or bytes(fact.hash) != link(prev, body):
            report.problems.append(f"run {run.pk}: fact {fact.seq} does not fit the chain")
        if fact.epoch < epoch:
            report.problems.append(f"run {run.pk}: fact {fact.seq} was written by an older owner")
        if b'"fact":"%s"' % fact.kind.encode() not in body:
            report.problems.append(f"run {run.pk}: fact {fact.seq} is labelled {fact.kind} but is something else")
        commits = commits or (fact.kind == "RunEnded" and b'"phase":"COMMIT"' in body)
        wanted.update(named := _references(fact, body, report))
        final.update(named if fact.kind == "RunEnded" else ())
        prev, epoch = bytes(fact.hash), fact.epoch
    report.facts += seq
    if seq != head_seq or prev != bytes(head_hash):
        report.problems.append(f"run {run.pk}: the journal ends at {seq}, the run says {head_seq}")
    if commits and not ProvenanceRecord.objects.filter(run_id=run.pk).exists():
        report.problems.append(f"run {run.pk}: the provenance of its result is missing")
    return wanted, final


def _references(fact: Fact, body: bytes, report: ChainReport) -> set[str]:
    """Bodies that a fact names; none where somebody made it unreadable, which is told."""
    try:
        return set(references(body))
    except ValueError:
        report.problems.append(f"run {fact.run_id}: fact {fact.seq} is unreadable")
        return set()


def _artifacts(run: Run) -> tuple[set[str], set[str]]:
    """Bodies of everything the run left, and of what it left at its end, which is never pruned."""
    artifacts = Artifact.objects.filter(run_id=run.pk).values_list("sha256", "kind")
    return {sha256 for sha256, _ in artifacts}, {sha256 for sha256, kind in artifacts if kind in REPORTS}


def _verify_blobs(run: Run, wanted: set[str], report: ChainReport, may_be_gone: set[str]) -> int:
    """How many bodies are gone that may be."""
    for sha256, body in Blob.objects.filter(pk__in=wanted).values_list("sha256", "body").iterator(chunk_size=50):
        report.blobs += 1
        wanted.discard(sha256)
        if hashlib.sha256(bytes(body)).hexdigest() != sha256:
            report.problems.append(f"run {run.pk}: blob {sha256} was changed")
    report.problems.extend(f"run {run.pk}: blob {sha256} is missing" for sha256 in sorted(wanted - may_be_gone))
    report.gone |= wanted & may_be_gone
    return len(wanted & may_be_gone)


def _verify_all_blobs(report: ChainReport) -> None:
    """Those that no fact names too; and that no more are gone than tombstones say, since runs share bodies."""
    with connection.cursor() as cursor:
        cursor.execute(_MISNAMED)
        report.problems.extend(f"loops_blob: {sha256} is not what its name says" for (sha256,) in cursor.fetchall())
    explained = sum(Tombstone.objects.values_list("blobs", flat=True))
    if len(report.gone) > explained:
        report.problems.append(
            f"loops_blob: {len(report.gone)} bodies of pruned runs are gone, tombstones say {explained}"
        )


_MISNAMED = """
    SELECT sha256 FROM loops_blob WHERE encode(sha256(body), 'hex') <> sha256 OR size <> length(body) ORDER BY sha256
"""


def _verify_tombstones(report: ChainReport, run_id: uuid.UUID | str | None) -> None:
    """The journal that a tombstone speaks of is the one that is there."""
    with connection.cursor() as cursor:
        cursor.execute(_TOMBSTONES, [run_id, run_id])
        report.problems.extend(f"run {run}: its tombstone is of another journal" for (run,) in cursor.fetchall())


_TOMBSTONES = """
    SELECT t.run_id FROM loops_tombstone t LEFT JOIN loops_fact f ON f.run_id = t.run_id AND f.seq = t.head_seq
    WHERE f.hash IS DISTINCT FROM t.head_hash AND (%s::uuid IS NULL OR t.run_id = %s::uuid)
"""


def _verify_records(report: ChainReport, run_id: uuid.UUID | str | None) -> None:
    prev = b""
    for record in ProvenanceRecord.objects.order_by("number").iterator(chunk_size=BATCH):
        body = bytes(record.body)
        mine = run_id is None or str(record.run_id) == str(run_id)
        if mine:
            report.records += 1
            if bytes(record.prev) != prev or hashlib.sha256(bytes(record.prev) + body).digest() != bytes(record.hash):
                report.problems.append(f"provenance {record.number} (run {record.run_id}) does not fit the chain")
            _verify_anchor(record, body, report)
        prev = bytes(record.hash)


def _verify_anchor(record: ProvenanceRecord, body: bytes, report: ChainReport) -> None:
    """The record names a fact of the run's journal by hash: they vouch for each other."""
    try:
        journal = canonical.decode(body)["journal"]
    except (ValueError, KeyError, TypeError):
        report.problems.append(f"provenance {record.number} (run {record.run_id}) is unreadable")
        return
    found = Fact.objects.filter(run_id=record.run_id, seq=journal["seq"]).values_list("hash", flat=True).first()
    if found is None or bytes(found).hex() != journal["head"]:
        report.problems.append(
            f"provenance {record.number}: the journal of run {record.run_id} is not the one it names"
        )

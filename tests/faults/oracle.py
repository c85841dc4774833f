"""What must hold after any fault, by three witnesses: the journal, the rows made of it, and the ledger outside."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from loops.engine import facts as f
from loops.models import Run
from loops.storage import chain, reader, rebuild
from tests.faults import bank, ledger
from tests.faults.outcome import Found


def unannounced(run: Run) -> Found:
    """Right after a death: an effect in the world whose INTENT is not committed."""
    intents = {fact.idempotency_key for fact in reader.history(run.pk) if isinstance(fact, f.ToolIntended)}
    effects = ledger.of(run.pk)
    return Found(broken=[f"{run.pk}: {e.label} before its INTENT" for e in effects if e.key not in intents])


def examine(run: Run, wanted: dict[str, Any] | None = None) -> Found:
    """Everything about one run that should have ended. ``wanted`` is the end without faults."""
    found = Found()
    run.refresh_from_db()
    found.broken += chain.verify(run.pk).problems
    try:
        facts = reader.history(run.pk)
        found += _facts(run, facts)
        found += _world(run, facts)
        found.broken += [f"{run.pk}: row {name}" for name in rebuild.rebuild(run.pk).differences]
    except Exception as error:  # a journal that cannot be folded is what the fence prevents
        found.broken.append(f"{run.pk}: {type(error).__name__}: {error}")
    if run.completed_at is None:
        found.lost.append(f"{run.pk}: has not ended, {run.status} {run.waiting_on}")
    elif wanted is not None and (is_now := end_of(run)) != wanted:
        found.lost.append(f"{run.pk}: ended as {is_now}, not as {wanted}")
    return found


def end_of(run: Run) -> dict[str, Any]:
    """What a person sees at the end, apart from times and numbers of attempts."""
    report = reader.report(run.pk) or {}
    note = Path(run.workspace_path or "/nowhere") / "note.txt"
    return {
        "status": run.status,
        "reason": run.end_reason,
        "result": report.get("result"),
        "effects": sorted({effect.label for effect in ledger.of(run.pk)}),
        "note": note.read_text() if note.exists() else None,
    }


def _facts(run: Run, facts: Sequence[f.Fact]) -> Found:
    """One row for each (run, step, kind), one INTENT for each attempt, one outcome for each call."""
    found = Found()
    once: list[tuple[Any, ...]] = []
    for fact in facts:
        match fact:
            case f.StepCompleted():
                once.append(("step", fact.step))
            case f.ToolIntended():
                once.append(("intent", fact.call_id, fact.attempt))
            case f.ToolCompleted():
                once.append(("outcome", fact.call_id))
            case f.GateDecided():
                once.append(("decision", fact.gate))
            case f.RunEnded(amends=False):
                once.append(("end",))
    found.doubled += [f"{run.pk}: {what} {times} times" for what, times in Counter(once).items() if times > 1]
    return found


def _world(run: Run, facts: Sequence[f.Fact]) -> Found:
    """The ledger against the WAL."""
    found = Found()
    effects = ledger.of(run.pk)
    intents = [fact for fact in facts if isinstance(fact, f.ToolIntended)]
    calls = {fact.call_id: fact.idempotency_key for fact in intents}
    keys_of: dict[str, set[str]] = {}
    for fact in intents:
        keys_of.setdefault(fact.call_id, set()).add(fact.idempotency_key)
    found.broken += [f"{run.pk}: call {call} had {len(keys)} keys" for call, keys in keys_of.items() if len(keys) > 1]
    known = {fact.idempotency_key for fact in facts if isinstance(fact, f.ToolIntended | f.CompensationIntended)}
    found.broken += [f"{run.pk}: {e.label} has no INTENT" for e in effects if e.key not in known]
    real = Counter((e.tool, e.label) for e in effects if not e.again)
    keyed = Counter(e.label for e in effects if e.tool == "notify_once" and not e.again)
    for (tool, label), times in real.items():
        if times > 1 and tool in bank.AT_MOST_ONCE:
            found.doubled.append(f"{run.pk}: {tool} {label} happened {times} times")
    found.doubled += [f"{run.pk}: {label} passed the server with keys" for label, times in keyed.items() if times > 1]
    happened = ledger.keys(effects)
    for fact in facts:
        ours = isinstance(fact, f.ToolCompleted) and fact.tool in bank.AT_MOST_ONCE | bank.AT_LEAST_ONCE
        if ours and fact.result.ok and calls.get(fact.call_id) not in happened:
            found.lost.append(f"{run.pk}: {fact.tool} has a COMPLETE and no effect")
    return found

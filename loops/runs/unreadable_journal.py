"""End a run whose journal cannot be read: with the report that every end leaves, of what can be read (SPEC A5)."""

from __future__ import annotations

import logging
from typing import Any

from django.db import connection, transaction

from loops.engine import facts as f
from loops.engine.apply import apply, initial
from loops.engine.encoding.canonical import encode
from loops.engine.encoding.codec import from_plain
from loops.engine.encoding.replace import evolve
from loops.engine.ends.reports import REPORT_KINDS, report
from loops.engine.state.lifecycle import Phase
from loops.engine.state.run import RunState
from loops.engine.state.spec import RunSpec
from loops.models import Artifact, Run
from loops.runs.composition import gatekeeper
from loops.services import audit
from loops.services.tasks import run_spec
from loops.storage import blobs, journal, reader

log = logging.getLogger(__name__)
REASON = reader.UNREADABLE


def condemn(held: journal.Claim, run: Run, error: Exception) -> None:
    """Nobody will try again, and what was left stands beside the journal, which nothing can be added to any more."""
    why = f"the journal cannot be read: {type(error).__name__}: {error}"
    body = encode(_report(run, why))
    with transaction.atomic():
        journal.condemn(held, why)
        kept = {"media_type": "application/json", "sha256": blobs.save(body), "size": len(body)}
        kind = REPORT_KINDS[Phase.FAIL]
        Artifact.objects.update_or_create(run=run, seq=held.seq, kind=kind, name=REASON, defaults=kept)
        with connection.cursor() as cursor:
            gatekeeper().withdraw(str(run.pk), REASON)(cursor)
        audit.record("run.condemned", actor=None, run=run, detail={"error": str(error)})


def _report(run: Run, why: str) -> dict[str, Any]:
    """Of the state up to the first fact that cannot be read; of the run's row where not even the first one can."""
    if state := _salvaged(run):
        return report(Phase.FAIL, state, REASON, f"{why}. What stands here is of its facts up to {state.seq}.")
    unknown = {"done": ["what it did is not known: its facts cannot be read"]}
    return report(Phase.FAIL, _by_its_row(run), REASON, why) | unknown


def _by_its_row(run: Run) -> RunState:
    spec = from_plain(RunSpec, run_spec(run))
    state = initial(f.RunStarted(at=0, spec=spec, system="", prompt_version="", tools_sha256=""))
    return evolve(
        state,
        seq=run.head_seq,
        step=run.total_steps,
        tokens=run.total_tokens,
        cost_unknown=True,
        phase=Phase(run.phase),
    )


def _salvaged(run: Run) -> RunState | None:
    state: RunState | None = None
    try:
        for fact in reader.stream(run.pk):
            state = apply(state, fact) if state else initial(fact) if isinstance(fact, f.RunStarted) else None
            if state is None:
                return None
    except Exception as error:  # whatever is wrong with it: what was read until then is what there is
        log.warning("run %s: its journal can be read up to %s: %s", run.pk, state.seq if state else "nothing", error)
    return state

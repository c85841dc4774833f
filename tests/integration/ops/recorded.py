"""What a recorded installation has in it: every demonstration, fifty development runs, forks, a rollback, open gates.

``python -m tests.integration.ops.recorded NAME`` records the installation of this version: an ordinary backup,
``NAME.zip``. What each run was is written beside it as JSON; a later version has to find the same (SPEC J2, J4).
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loops.engine.encoding import canonical

DATA = Path(__file__).resolve().parents[2] / "data" / "installations"
PATIENCE_S = 12.0
ROLLED_BACK = 2
DEMOS = ("open", "decided", "refused")
"""Of each demonstration there is one run whose first gate is open, one whose gates were all agreed to, and one that was
said no to."""
AGREED = ("approve", "respond", "extend", "roll_back")


def record(file: Path) -> dict[str, Any]:
    """Make the installation on the servers of ``tests.bench.stack``, back it up, and tell what is in it."""
    from django.contrib.auth import get_user_model

    from agentops.evidence import rounds
    from agentops.ops.backup import back_up
    from loops.services import demo, people

    people.create_demo_users(demo.seed())
    person = get_user_model().objects.get
    operator, reviewer = person(username="admin"), person(username="reviewer")
    for how in DEMOS:
        for example in demo.EXAMPLES:
            _demonstration(example, how, operator, reviewer)
    _development()
    _forks(operator)
    _rollback(operator)
    rounds.keep()
    file.parent.mkdir(parents=True, exist_ok=True)
    back_up(file)
    found = {str(run.pk): told(run) for run in _runs()}
    file.with_suffix(".json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    return found


def told(run: Any) -> dict[str, Any]:
    """What no later version may find otherwise: where the run stands, its state byte for byte, and all its requests."""
    from gates.models import Gate
    from loops.models import Checkpoint
    from loops.storage import conversations, journal

    loaded = journal.load(run.pk)
    asked = [conversations.told(run.pk, seq) for seq, _ in conversations.requests(run.pk)]
    return {
        "title": run.task.title,
        "status": run.status,
        "end_reason": run.end_reason,
        "seq": run.head_seq,
        "steps": loaded.state.step if loaded else 0,
        "state": canonical.sha256(canonical_state(loaded.state)) if loaded else "",
        "checkpoints": Checkpoint.objects.filter(run=run).count(),
        "requests": [told.matches for told in asked],
        "gates": sorted(Gate.objects.filter(run=run).values_list("kind", "status")),
    }


def canonical_state(state: Any) -> Any:
    """As a checkpoint holds it."""
    from loops.engine.encoding.codec import to_plain

    return to_plain(state)


def go_on(run: Any, patience_s: float = PATIENCE_S) -> str:
    """Drive until nothing is to be done, or for as long as there is patience."""
    from loops.runs.drive import drive

    until, why = time.monotonic() + patience_s, "timer"
    while why in ("timer", "taken"):
        why = drive(run.pk, "recorder")
        if time.monotonic() > until:
            break
        if why in ("timer", "taken"):
            time.sleep(0.1)
    run.refresh_from_db()
    return why


def decide(run: Any, reviewer: Any, *, agree: bool = True) -> bool:
    """Decide the gate that is open. Was there one?"""
    from gates.models import Gate
    from gates.policy.kinds import Kind
    from gates.policy.verdicts import ALLOWED
    from tests import decisions

    gate = Gate.objects.filter(run=run, status="open").first()
    if gate is None:
        return False
    allowed = [str(verdict) for verdict in ALLOWED[Kind(gate.kind)]]
    verdict = next(one for one in AGREED if one in allowed) if agree else "reject"
    if not agree and verdict not in allowed:
        verdict = allowed[-1]
    decisions.decide(
        actor=reviewer, gate_id=gate.pk, verdict=verdict, digest=gate.digest, reason="As recorded.",
        payload=_payload(gate, verdict),
    )  # fmt: skip
    return True


def _payload(gate: Any, verdict: str) -> dict[str, Any]:
    """What has to be written beside the verdict."""
    from gates.policy import payloads

    if verdict == "respond":
        return {"outcome": "done"} if gate.kind == "in_doubt" else {"answer": "Go on, with care."}
    if verdict == "extend":
        name = payloads.limit_name(gate.view)
        bound, least = (payloads.limit_number(gate.view, key) or 0 for key in ("bound", "least"))
        return {name: max(least, bound + 5)}
    word = payloads.confirmation_word(gate.kind, gate.tool) if verdict == "approve" else ""
    return {"confirm": word} if word else {}


def _demonstration(example: Any, how: str, operator: Any, reviewer: Any) -> None:
    from loops.llm.scripted.scripts import find_script
    from loops.models import Agent, Project, Workspace
    from loops.services.steering import STEERING
    from loops.services.tasks import submit_task

    project = Project.objects.get(slug="demo")
    run = submit_task(
        actor=operator,
        project=project,
        agent=Agent.objects.get(project=project, name=example.agent),
        workspace=Workspace.objects.get(project=project, name="Invoices"),
        goal=find_script(example.script).goal,
        criteria=[dict(criterion) for criterion in example.criteria],
        limits=dict(example.limits),
        final_review=example.final_review,
        title=f"{example.agent}, {how}",
    ).run
    if example.then:
        STEERING[example.then](actor=operator, run=run)
    go_on(run)
    decisions = 0
    while how != "open" and decisions < 12 and decide(run, reviewer, agree=how == "decided"):
        decisions += 1
        go_on(run)


def _development() -> None:
    """Runs over the wire, with the faults of ``make eval-recovery``: 50 of them."""
    from tests.evals import recovery
    from tests.evals.recovery_faults import cases

    world = recovery._world()
    for number, case in enumerate(cases()):
        recovery._run(world, number, case)


def _forks(operator: Any) -> None:
    """One that goes on at once, and one whose first own step is still to be made."""
    from loops.services.forks import fork_run

    repaired = next(run for run in _runs() if run.task.title.startswith("Repairs a bug, decided"))
    go_on(fork_run(actor=operator, run=repaired, step=2, message="Look at the tests first.").run)
    fork_run(actor=operator, run=repaired, step=3)


def _rollback(operator: Any) -> None:
    """Of two runs that ended badly after they had changed something."""
    from loops.services import rollback
    from loops.services.steering import NotPossible

    undone = 0
    for run in _runs():
        with contextlib.suppress(NotPossible):
            digest = rollback.preview(run).digest
            rollback.roll_back_run(actor=operator, run=run, digest=digest)
            go_on(run)
            undone += 1
        if undone == ROLLED_BACK:
            return
    raise AssertionError("nothing was to be undone")


def _runs() -> Iterator[Any]:
    from loops.models import Run

    yield from Run.objects.select_related("task").order_by("pk")


def main(name: str) -> int:
    from tests.bench import stack

    with stack.running():
        found = record(DATA / f"{name}.zip")
    print(f"{len(found)} runs, {sum(len(run['requests']) for run in found.values())} requests")
    print("ends:", Counter((run["status"], run["end_reason"]) for run in found.values()))
    print("open gates:", Counter(kind for run in found.values() for kind, status in run["gates"] if status == "open"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

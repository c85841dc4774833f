"""What one run's schema costs the others of its worker: real workers, real leases, nothing scripted but the model."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from loops.models import Fact, Run
from loops.services import steering
from tests.e2e import crew as crews
from tests.e2e import plant
from tests.e2e.crew import UNHURRIED, Crew, facts, owner
from tests.stack import wait_until

pytestmark = pytest.mark.django_db(transaction=True)

STEPS = 20


def doubling(deep: int = 40) -> dict[str, Any]:
    defs: dict[str, Any] = {f"a{n}": {"anyOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(deep)}
    return {"$defs": defs | {f"a{deep}": {"type": "integer"}}, "$ref": "#/$defs/a0"}


HOSTILE = {
    "a pattern": ({"type": "string", "pattern": "^(a+)+$"}, "a" * 64 + "!"),
    "references that double": (doubling(), "x"),
    "all compared with all": ({"uniqueItems": True}, [[n] for n in range(5_000)]),
}


@pytest.fixture
def crew(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Crew]:
    settings.AGENTOPS_CELERY = plant.APP
    with crews.at_work(tmp_path) as crew:
        yield crew


def meanwhile(run: Run, other: Run) -> int:
    """Facts of ``run`` that were written while a result of the other was judged."""
    written = Fact.objects.filter(run=run)
    story = list(Fact.objects.filter(run=other).order_by("seq").values_list("kind", "at"))
    judged = [(at, after) for (kind, at), (_, after) in itertools.pairwise(story) if kind == "ChecksStarted"]
    return sum(written.filter(at__gt=begun, at__lt=ended).count() for begun, ended in judged)


def resting(run: Run) -> bool:
    """At its end, or at a person's question."""
    return owner(run) == 0 and (run.completed_at is not None or run.status == "waiting")


def neighbour(crew: Crew) -> Run:
    steps = [["write_file", {"path": f"a{number}", "content": f"{number}"}] for number in range(STEPS)]
    return crew.submit(*[{"calls": [step], "words": "a b c d", "pace": 0.1} for step in steps])


def hostile(crew: Crew, schema: Any, result: Any) -> Run:
    answer = {"calls": [["task_completion", {"result": json.dumps(result)}]], "pace": 0}
    return crew.submit(answer, answer, answer, criteria=[], output_schema=schema, limits={"max_repairs": 2})


@pytest.mark.spec("J4", "L1")
def test_a_hostile_schema_delays_no_other_run(crew: Crew) -> None:
    crew.start("one", **UNHURRIED)
    beside = neighbour(crew)  # lasts for longer than they are judged
    wait_until(lambda: facts(beside, "ToolCompleted"), "the neighbour")
    attackers = [hostile(crew, *case) for case in HOSTILE.values()]
    wait_until(lambda: resting(beside), "the end of the neighbour")
    wait_until(lambda: all(resting(run) for run in attackers), "the attackers")
    assert len(facts(beside, "ToolCompleted")) > STEPS / 2
    print({name: meanwhile(beside, run) for name, run in zip(HOSTILE, attackers, strict=True)})
    assert any(meanwhile(beside, run) for run in attackers), "it went on while they were judged"


@pytest.mark.spec("K1", "L1")
def test_a_stop_is_obeyed_while_a_schema_is_judged(crew: Crew) -> None:
    crew.start("one", **UNHURRIED)
    run = hostile(crew, *HOSTILE["references that double"])
    wait_until(lambda: facts(run, "ChecksStarted"), "the judgement")
    steering.stop_run(actor=crew.boss, run=run)
    plant.wait_for_runs([run.pk])
    run.refresh_from_db()
    assert run.end_reason == "operator_stop"

"""Workers are killed while a model is asked about a failure: nothing is lost, and nobody is asked or paid twice."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings

from loops.models import ModelCall, ModelConfig, Run
from loops.storage import chain, rebuild
from tests import plonk
from tests.e2e import crew as crews
from tests.e2e import plant
from tests.e2e.crew import Crew, facts, latest, owner, sweeping
from tests.stack import wait_until
from tests.wire.say import Say, Seen, Wire
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True)]
FIRST, SECOND = ["plonk", {"say": "the flange is loose"}], ["plonk", {"say": "no tea left in the pot"}]


@pytest.fixture
def crew(tmp_path: Path, transactional_db: None, settings: Any) -> Iterator[Crew]:
    settings.AGENTOPS_CELERY = plant.APP
    with crews.at_work(tmp_path) as crew:
        yield crew


@pytest.fixture
def path(tmp_path: Path) -> str:
    return f"{plonk.package(tmp_path / 'package')}:{django_settings.BASE_DIR}"


@pytest.mark.spec("E1", "J2", "J4", "N4")
def test_a_worker_that_dies_while_a_model_is_asked_costs_only_that_answer(crew: Crew, path: str) -> None:
    answers = threading.Event()

    def slow(seen: Seen) -> Say:
        silent = Wire(events=1, then="stall")
        return Say(text='{"kind": "transient"}', wire=None if answers.is_set() else silent)

    with WireServer(slow) as server:
        crew.agent.classifier_model = ModelConfig.objects.create(
            name="judge",
            provider="anthropic",
            model_id="claude-test",
            base_url=server.url,
            input_usd_per_mtok=1,
            output_usd_per_mtok=5,
        )
        crew.agent.save()
        old = crew.start("old", PYTHONPATH=path)
        run = crew.submit({"calls": [FIRST]}, {"calls": [FIRST]}, {"calls": [SECOND]}, limits={"max_failures": 20})
        wait_until(lambda: server.seen, "the question")
        assert latest(run) == "ClassificationRequested"
        assert owner(run) == old.pid
        old.send_signal(signal.SIGKILL)
        old.wait()
        answers.set()
        crew.start("new", PYTHONPATH=path)
        sweeping(lambda: Run.objects.get(pk=run.pk).is_ended, "the end")

    asked, given = facts(run, "ClassificationRequested"), facts(run, "ClassificationGiven")
    sorted_ = facts(run, "FailureClassified")
    assert len(server.seen) == len(asked) == 2  # once for each failure
    assert [fact["fingerprint"] for fact in given] == [asked[1]["fingerprint"]]
    assert [(fact["kind"], fact.get("model_kind")) for fact in sorted_ if fact["rule"] == "unknown"] == [
        ("systematic", None),
        ("transient", "transient"),
    ]
    assert "cut short" in sorted_[0]["problem"]
    assert len(facts(run, "RunTakenOver")) == 1
    assert ModelCall.objects.filter(run=run, role="classifier").count() == 1
    assert chain.verify(run.pk).ok
    assert not rebuild.rebuild(run.pk).differences

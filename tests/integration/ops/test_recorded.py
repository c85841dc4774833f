"""Installations that earlier versions left behind: restored, upgraded, folded, shown and resumed by this one."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.utils import timezone

from agentops.evidence import verification
from agentops.ops.restore import restore
from gates.models import Gate
from gates.services import expiry
from loops.engine.apply import replay
from loops.engine.encoding import canonical
from loops.models import Run
from loops.storage import chain, reader
from loops.storage.rebuild import rebuild
from tests.integration.ops import recorded as installation

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J2", "J4", "T5")]
PAGES = ("", "conversation/", "provenance/", "raw/", "lifecycle/")
RECORDED = sorted(installation.DATA.glob("*.zip"))


@pytest.fixture(params=RECORDED, ids=lambda file: file.stem)
def recorded(request: Any, state: Path, elsewhere: Callable[..., Path]) -> Any:
    """What was told of each run when the installation was recorded; it is restored here."""
    elsewhere()
    assert restore(request.param).problems == []
    return json.loads(request.param.with_suffix(".json").read_text())


def test_every_run_is_what_it_was_and_goes_on(recorded: dict[str, Any]) -> None:
    assert len(recorded) > 70, "every demonstration three times, and fifty development runs"
    every_run_is_what_it_was(recorded)
    every_page_is_shown()
    every_open_run_goes_on()
    assert chain.verify().problems == []
    assert verification.verify().problems == []


def every_run_is_what_it_was(recorded: dict[str, Any]) -> None:
    """State and requests byte for byte, from the checkpoint and from the first fact alike; rows as they were made."""
    assert {str(run.pk) for run in Run.objects.all()} == set(recorded)
    for run in Run.objects.select_related("task"):
        told = json.loads(json.dumps(installation.told(run)))
        assert told == recorded[str(run.pk)], run.task.title
        if told["seq"]:
            folded = replay(reader.history(run.pk))
            assert canonical.sha256(installation.canonical_state(folded)) == told["state"], run.task.title
        assert rebuild(run.pk).differences == [], run.task.title


def every_page_is_shown() -> None:
    """One run for each way to stand or to end."""
    client = Client()
    client.force_login(get_user_model().objects.get(username="admin"))
    runs = {(run.status, run.end_reason, hasattr(run, "fork")): run for run in Run.objects.select_related("fork")}
    assert len(runs) > 12
    for run in runs.values():
        for page in PAGES:
            assert client.get(f"/runs/{run.pk}/{page}").status_code == 200, (run, page)


def every_open_run_goes_on() -> None:
    """Every open gate can be decided, and what was decided or queued goes on from there."""
    people = get_user_model().objects.in_bulk(["admin", "reviewer"], field_name="username")
    decided = 0
    for gate in Gate.objects.filter(status="open"):  # each was opened for a week, and the recording stays
        expiry.escalate(gate, timezone.now() + timedelta(days=7))
    for run in Run.objects.select_related("task", "project").filter(completed_at=None):
        before = run.head_seq
        if installation.decide(run, people["reviewer" if run.project.slug == "demo" else "admin"]):
            decided += 1
        elif run.status != "queued":
            continue
        why = installation.go_on(run, patience_s=1.0)
        assert run.head_seq > before, (run.task.title, why)
    assert decided > 12

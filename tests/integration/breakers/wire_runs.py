"""Real runs on Postgres whose models speak over the wire, through the providers' own SDKs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from django.contrib.auth import get_user_model

from loops.models import Agent, Fact, ModelConfig, Run
from loops.runs.drive import drive
from loops.services.tasks import submit_task
from loops.storage import reader
from tests.factories import create_project
from tests.stack import PATIENCE_S
from tests.wire.server import WireServer


def model(server: WireServer, name: str = "main", provider: str = "anthropic", **fields: Any) -> ModelConfig:
    url = server.openai_url if provider == "openai" else server.url
    given = {"model_id": f"{name}-1", "base_url": url, "timeout_s": 60, **fields}
    return ModelConfig.objects.create(name=name, provider=provider, **given)


def submit(chosen: ModelConfig, **task: Any) -> Run:
    boss = get_user_model().objects.create_superuser("ana", password="x")
    project = create_project(actor=boss, name="P", slug="p")
    agent = Agent.objects.create(project=project, name="Agent", actor_model=chosen)
    given = {"goal": "Write it", "final_review": "never", "workspace": None, **task}
    return submit_task(actor=boss, project=project, agent=agent, **given).run


def drive_on(run: Run, until: Callable[[str], bool] = lambda why: why != "timer") -> str:
    """Own the run whenever there is something to do, as workers would."""
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE_S:
        why = drive(run.pk, "test")
        if why != "taken" and until(why):
            run.refresh_from_db()
            return why
        time.sleep(0.1)
    raise AssertionError(f"still {why}")


def facts(run: Run, kind: str) -> list[Any]:
    return [fact for fact in reader.history(run.pk) if type(fact).__name__ == kind]


def kinds(run: Run) -> list[str]:
    return list(Fact.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))

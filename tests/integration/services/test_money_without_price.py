"""A money limit and a model without a price: every door asks, and so does a run that meets one (SPEC D2, X7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from loops.models import Agent, ModelConfig, Run, Task
from loops.services import unpriced_models
from loops.services.forks import fork_run
from loops.services.submission import InvalidTask
from loops.services.tasks import run_spec
from tests.integration.services import world as worlds
from tests.integration.storage import forks

pytestmark = [pytest.mark.django_db, pytest.mark.spec("X7", "D2")]
MONEY = {"max_cost_microusd": 2_000_000}


@pytest.fixture
def world(db: Any) -> worlds.World:
    return worlds.make()


@pytest.fixture
def local(world: worlds.World) -> Agent:
    """An agent whose model nobody knows the price of."""
    model = ModelConfig.objects.create(
        name="local", provider="openai", model_id="my-own", base_url="http://10.0.0.7/v1"
    )
    return Agent.objects.create(project=world.project, name="Local", actor_model=model)


def page(world: worlds.World, agent: Agent, **fields: Any) -> Any:
    client = Client()
    client.force_login(world.operator)
    given = {"project": world.project.pk, "agent": agent.pk, "goal": "Mend it", "max_cost_usd": "2", **fields}
    return client.post(reverse("new-task"), given)


def api(world: worlds.World, agent: Agent, **limits: Any) -> Any:
    client = APIClient()
    client.force_authenticate(world.operator)
    body = {
        "project": world.project.slug,
        "agent": agent.name,
        "goal": "Mend it",
        "limits": {"max_cost_usd": 2, **limits},
    }
    return client.post("/api/v1/tasks/", body, format="json")


def command(world: worlds.World, agent: Agent, *more: str) -> None:
    task = ["submit", "Mend it", "--project", world.project.slug, "--agent", agent.name]
    call_command("agentops", "--as", "operator", *task, "--limit", "max_cost_microusd", "2000000", *more)


def test_every_door_asks(world: worlds.World, local: Agent) -> None:
    with pytest.raises(InvalidTask, match="no price is known of local"):
        world.submit(agent=local, limits=MONEY)
    assert "no price is known of local" in page(world, local).content.decode()
    refused = api(world, local)
    assert refused.status_code in (400, 422)
    assert "no price is known of local" in refused.content.decode()
    with pytest.raises((CommandError, InvalidTask), match="no price is known of local"):
        command(world, local)
    assert not Task.objects.filter(agent=local).exists()


def test_every_door_takes_it_when_it_is_confirmed(world: worlds.World, local: Agent) -> None:
    world.submit(agent=local, limits={**MONEY, "allow_unknown_cost": 1})
    assert page(world, local, allow_unknown_cost="1").status_code == 302
    assert api(world, local, allow_unknown_cost=1).status_code == 201
    command(world, local, "--limit", "allow_unknown_cost", "1")
    assert Task.objects.filter(agent=local).count() == 4
    assert all(run_spec(run)["limits"]["allow_unknown_cost"] == 1 for run in Run.objects.filter(agent=local))


def test_a_fallback_and_any_role_count(world: worlds.World, local: Agent) -> None:
    agent = world.agent
    agent.actor_model = ModelConfig.objects.create(
        name="priced", provider="openai", model_id="x", input_usd_per_mtok=1, output_usd_per_mtok=2
    )
    assert unpriced_models.unpriced(unpriced_models.models_of(agent)) == []
    agent.summariser_model = local.actor_model
    assert unpriced_models.unpriced(unpriced_models.models_of(agent)) == ["local"]
    agent.summariser_model, agent.actor_model.fallback = None, local.actor_model
    assert unpriced_models.unpriced(unpriced_models.models_of(agent)) == ["local"]


def test_who_sets_no_money_limit_is_told_and_not_asked(world: worlds.World, local: Agent) -> None:
    run = world.submit(agent=local).run
    assert run_spec(run)["limits"]["allow_unknown_cost"] == 1
    shown = page(world, local, goal="", max_cost_usd="").content.decode()
    assert "No price is known for local" in shown


def test_a_known_price_binds_and_needs_no_question(world: worlds.World) -> None:
    run = world.submit(limits=MONEY).run
    assert run_spec(run)["limits"]["allow_unknown_cost"] == 0


def test_a_fork_asks_as_well(world: worlds.World, local: Agent, settings: Any, tmp_path: Path) -> None:
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    mine = forks.parent_in(tmp_path / "parent", world.submit(limits=MONEY).run)
    for changed in ({"model": "local"}, {"model": "local", "limits": MONEY}):
        with pytest.raises(InvalidTask, match="no price is known of local"):
            fork_run(actor=world.operator, run=mine.run, step=0, **changed)
    made = fork_run(actor=world.operator, run=mine.run, step=0, model="local", limits={"allow_unknown_cost": 1})
    assert made.run.fork.limits["allow_unknown_cost"] == 1


def test_what_was_confirmed_for_the_parent_is_not_confirmed_for_its_fork(
    world: worlds.World, local: Agent, settings: Any, tmp_path: Path
) -> None:
    """It was said of another model and another limit."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    ModelConfig.objects.create(
        name="priced", provider="openai", model_id="x", input_usd_per_mtok=1, output_usd_per_mtok=2
    )
    submitted = world.submit(limits={**MONEY, "allow_unknown_cost": 1})
    mine = forks.parent_in(tmp_path / "parent", submitted.run)
    made = fork_run(actor=world.operator, run=mine.run, step=0, model="priced", limits={"max_cost_microusd": 9})
    assert made.run.fork.limits == {"max_cost_microusd": 9, "allow_unknown_cost": 0}

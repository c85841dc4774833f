"""The packages of the guides, really installed, in a real worker; only the model is scripted, over the wire."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from agentops.celery import app
from gates.models import Gate
from loops.agents import packages as agents_packages
from loops.engine import strategies
from loops.llm import providers
from loops.models import Agent, ModelConfig, Run
from loops.runs import composition
from loops.services.tasks import submit_task
from tests import stack
from tests.decisions import decide
from tests.factories import create_project
from tests.wire.say import Say, Seen
from tests.wire.server import WireServer

EXAMPLES = Path(__file__).resolve().parents[3] / "agentops/docs/examples"
GUIDES = ("acme-rooms", "acme-models", "acme-careful", "acme-agentops")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder into which the packages of all guides are built and installed, each as its own distribution."""
    target = tmp_path_factory.mktemp("guides") / "site"
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "--quiet", "--offline", "--no-cache", "--target", target]
    subprocess.run([*command, *(EXAMPLES / name for name in GUIDES)], check=True, capture_output=True, text=True)
    return target


@pytest.fixture(scope="session")
def surroundings(site: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What a worker with the packages has in its environment."""
    rooms = tmp_path_factory.mktemp("rooms")
    path = os.pathsep.join([str(site), str(EXAMPLES.parents[2])])
    return {"PYTHONPATH": path, "ACME_ROOMS": str(rooms)}


@pytest.fixture(scope="session")
def rooms(surroundings: dict[str, str]) -> Path:
    return Path(surroundings["ACME_ROOMS"])


@pytest.fixture(scope="module")
def worker_with_packages(django_db_setup: None, surroundings: dict[str, str]) -> Iterator[Any]:
    app.control.purge()  # bells of earlier tests
    with stack.worker(**surroundings) as running:
        yield running


@pytest.fixture
def packages(transactional_db: None, site: Path, surroundings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The packages in this process as well: it is the one that submits."""
    monkeypatch.syspath_prepend(site)
    for name, value in surroundings.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(strategies, "_registered", {"react": strategies.get("react")})
    monkeypatch.setattr(strategies, "_broken", [])
    monkeypatch.setattr(strategies, "_loaded", False)
    composition.tool_registry.cache_clear()
    providers.forget()
    agents_packages.forget()
    yield
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]
    composition.tool_registry.cache_clear()
    monkeypatch.undo()
    providers.forget()
    agents_packages.forget()


class House:
    """A project whose agent has a model at ``server``."""

    def __init__(self, server: WireServer | None, **model: Any) -> None:
        self.boss = get_user_model().objects.create_superuser("ana", password="x")
        self.project = create_project(actor=self.boss, name="P", slug="p")
        given = {"provider": "openai", "model_id": "wire-1", "base_url": server.openai_url if server else ""}
        self.model = ModelConfig.objects.create(name="wire", **{**given, **model})

    def submit(self, goal: str = "Do it.", *, loop: str = "", limits: Any = None, **agent: Any) -> Run:
        made = Agent.objects.create(project=self.project, name="A", actor_model=self.model, **agent)
        task = {
            "goal": goal,
            "execution_loop": loop,
            "limits": limits or {},
            "final_review": "never",
            "workspace": None,
        }
        return submit_task(actor=self.boss, project=self.project, agent=made, **task).run

    def gate(self, run: Run, kind: str) -> Gate:
        """The open gate of this kind, once the worker has opened it."""
        return until(lambda: Gate.objects.filter(run=run, status="open", kind=kind).first(), run, f"a gate {kind}")

    def say(self, gate: Gate, verdict: str, reason: str = "") -> None:
        decide(actor=self.boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, reason=reason)

    def ended(self, run: Run) -> Run:
        return until(lambda: Run.objects.filter(pk=run.pk).exclude(completed_at=None).first(), run, "the end")


def until(look: Callable[[], Any], run: Run, what: str) -> Any:
    deadline = time.monotonic() + stack.PATIENCE_S
    with stack.swept():
        while not (found := look()):
            run.refresh_from_db()
            calls = list(run.tool_calls.values_list("tool", "state", "error"))
            assert time.monotonic() < deadline, f"no {what}: {run.status} {run.end_reason} {calls}"
            time.sleep(0.05)
    return found


@contextlib.contextmanager
def playing(*turns: Say) -> Iterator[WireServer]:
    """A model that says these in turn, by how often it has spoken; after the last it says that again."""

    def play(seen: Seen) -> Say:
        return turns[min(seen.turn, len(turns) - 1)]

    with WireServer(play) as server:
        yield server


def done(result: str = "done") -> Say:
    return Say(calls=[("task_completion", {"result": result})])

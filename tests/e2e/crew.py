"""Several real workers on one database and one broker, with short leases: to be frozen, ended and watched."""

from __future__ import annotations

import contextlib
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import redis
from django.conf import settings
from django.contrib.auth import get_user_model

from agentops.embedded import process, stack
from gates.models import Gate
from loops import jobs
from loops.llm.scripted import scripts
from loops.models import Agent, Fact, ModelConfig, Project, Run, Workspace
from loops.services.tasks import submit_task
from loops.storage import reader
from tests import decisions
from tests.e2e import plant
from tests.e2e.scripts.as_told import goal
from tests.factories import create_project
from tests.stack import PATIENCE_S, wait_until
from tests.stack import _on_test_database as on_test_database

LEASE_S = 10.0
"""Short, so that it soon runs out where it is to. With less, a worker that lives loses it on a machine that starves it
for seconds. Where nothing is to run out, there is ``UNHURRIED``."""
UNHURRIED = {"AGENTOPS_CREW_LEASE_S": "30", "AGENTOPS_CREW_GRACE_S": "120"}
SCRIPTS = str(Path(__file__).parent / "scripts")


class Crew:
    """Workers by name, and the runs of one project whose agent does as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.workers: dict[str, subprocess.Popen[bytes]] = {}
        self.boss = get_user_model().objects.create_superuser("boss")
        self.project: Project = create_project(actor=self.boss, name="Crew")
        self.project.access_rules.exclude(access="deny").update(access="allow")
        model = ModelConfig.objects.create(name="told", provider="scripted", model_id="as_told")
        self.agent = Agent.objects.create(project=self.project, name="Hand", actor_model=model)

    def start(self, name: str, pool: str = "threads", size: int = 8, **environ: str) -> subprocess.Popen[bytes]:
        """Start a worker and wait until it takes jobs."""
        argv = [str(part) for part in stack.worker().argv]
        argv[argv.index("-A") + 1] = "tests.e2e.crew_app"
        argv[argv.index("-P") + 1], argv[argv.index("-c") + 1] = pool, str(size)
        given = {"REDIS_URL": plant.broker(), "AGENTOPS_CREW_LEASE_S": str(LEASE_S), **environ}
        command = on_test_database(process.Command(name, [*argv, "-n", name]), **given)
        with self.log(name).open("wb") as log:
            self.workers[name] = process.start(command, log)
        wait_until(lambda: _answers(name), f"worker {name}")
        return self.workers[name]

    def log(self, name: str) -> Path:
        return Path(settings.PATHS.logs / f"crew-{name}.log")

    def submit(self, *answers: dict[str, Any], files: Mapping[str, str] | None = None, **more: Any) -> Run:
        """A run with a folder of its own."""
        folder = self.folder / f"run{Run.objects.count()}"
        folder.mkdir()
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        workspace = Workspace.objects.create(project=self.project, name=folder.name, path=str(folder))
        whose = {"actor": self.boss, "project": self.project, "agent": self.agent, "workspace": workspace}
        given = whose | {"criteria": [{"text": "nothing is asked for", "command": "true"}], "final_review": "never"}
        return submit_task(**given | {"goal": goal(*answers), "title": folder.name} | more).run

    def file(self, run: Run, name: str) -> Path:
        run.refresh_from_db()
        return Path(run.workspace_path) / name

    def stop(self) -> None:
        for worker in self.workers.values():
            worker.send_signal(signal.SIGCONT)
            worker.send_signal(signal.SIGKILL)
            worker.wait()


def _answers(name: str) -> bool:
    return any(name in str(reply) for reply in plant.app.control.ping(timeout=0.5))


@contextlib.contextmanager
def at_work(folder: Path) -> Iterator[Crew]:
    """An empty crew; its bells ring at its own broker."""
    scripts.__path__.append(SCRIPTS)
    with plant.ringing():
        crew = Crew(folder)
        try:
            yield crew
        finally:
            crew.stop()
            scripts.__path__.remove(SCRIPTS)
            with redis.Redis.from_url(plant.broker()) as client:
                client.flushdb()


def facts(run: Run, kind: str) -> list[dict[str, Any]]:
    return [fact["fact"] for fact in reader.raw(run.pk, 0, 10_000) if fact["kind"] == kind]


def latest(run: Run) -> str:
    return str(Fact.objects.filter(run=run).order_by("-seq").values_list("kind", flat=True).first() or "")


def owner(run: Run) -> int:
    """Process id of whoever owns the run, 0 for nobody."""
    run.refresh_from_db()
    return int(run.owner.split(":")[1]) if run.owner else 0


def sweeping(condition: Callable[[], object], what: str, patience: float = PATIENCE_S) -> None:
    """Do the clock's work until ``condition`` holds."""

    def holds() -> bool:
        if condition():
            return True
        jobs.sweep()
        return False

    wait_until(holds, what, patience, every=0.25)


def decide(run: Run, verdict: str, crew: Crew, **payload: Any) -> None:
    gate = Gate.objects.get(run=run, status="open")
    decisions.decide(
        actor=crew.boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest, reason="so", payload=payload
    )


__all__ = ["LEASE_S", "UNHURRIED", "Crew", "at_work", "decide", "facts", "latest", "owner", "sweeping"]

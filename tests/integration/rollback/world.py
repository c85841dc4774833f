"""A run that changes files and then fails or is stopped, on the real parts; only its model is scripted."""

from __future__ import annotations

import json
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.db import connections

from gates.models import Gate
from loops.llm.scripted import scripts
from loops.models import AccessRule, Agent, Run, Workspace
from loops.runs.drive import drive
from loops.services import steering
from loops.services.models import ensure_script
from loops.services.tasks import submit_task
from loops.storage import facts_by_kind, journal, reader
from tests.decisions import decide
from tests.factories import create_project

WORK: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"path": "a.txt", "content": "new a\n"}),
    ("write_file", {"path": "deep/er/b.txt", "content": "b\n"}),
    ("apply_diff", {"path": "a.txt", "edits": [{"search": "new", "replace": "newer"}]}),
    ("move_file", {"path": "c.txt", "target": "moved/c.txt"}),
    ("delete_file", {"path": "d.txt"}),
    ("make_directory", {"path": "made/here"}),
    ("run_command", {"command": "echo x > by_command; sed -i s/e/E/ e.txt; chmod +x e.txt; rm -r old"}),
    ("write_file", {"path": "e.txt", "content": "mine\n"}),
]
"""Eight effects of every kind there is, each on files of its own or on those of an earlier one."""


def before(folder: Path) -> None:
    (folder / "old").mkdir(parents=True)
    for name in ("a.txt", "c.txt", "d.txt", "e.txt", "old/f.txt"):
        (folder / name).write_text(f"the first {name}\n")
    (folder / "old" / "link").symlink_to("f.txt")
    (folder / "e.txt").chmod(0o640)


def look(folder: Path) -> dict[str, Any]:
    """Everything in a folder: bytes and permissions of files, targets of links, folders."""
    found: dict[str, Any] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = f"-> {path.readlink()}"
        else:
            found[name] = "folder" if path.is_dir() else (path.read_bytes(), path.stat().st_mode & 0o777)
    return found


def work_on(run_id: str) -> str:
    try:
        return drive(uuid.UUID(run_id), "test")
    finally:
        connections.close_all()


class Story:
    """A run that does ``calls``, one a step, then fails or is stopped; ``folder`` is its workspace."""

    def __init__(self, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
        monkeypatch.setattr(scripts, "__path__", [*scripts.__path__, str(Path(__file__).parent)])
        self.boss = get_user_model().objects.create_superuser("ana", password="x")
        self.project = create_project(actor=self.boss, name="P", slug="p")
        AccessRule.objects.filter(project=self.project).delete()
        for operation in ("read", "write", "delete", "execute"):
            AccessRule.objects.create(project=self.project, access="allow", operation=operation)
        self.origin = tmp_path / "origin"
        before(self.origin)
        self.was = look(self.origin)

    def calls(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        """Submit a run that will make them."""
        model = ensure_script("scripted", pace=0)
        agent = Agent.objects.create(project=self.project, name="A", actor_model=model)
        workspace = Workspace.objects.create(project=self.project, name="w", path=str(self.origin))
        self.run = submit_task(
            actor=self.boss, project=self.project, agent=agent, workspace=workspace, goal=json.dumps(calls)
        ).run

    def begin(self, calls: list[tuple[str, dict[str, Any]]] = WORK) -> None:
        """Do the calls; the run then waits for an answer."""
        self.calls(calls)
        assert self.drive() == "gate:question"
        failed = list(self.run.tool_calls.filter(ok=False).values_list("tool", "error"))
        assert not failed, failed

    def fail(self) -> str:
        """The answer leads to a model that refuses for good."""
        gate = Gate.objects.get(run=self.run, kind="question", status="open")
        decide(actor=self.boss, gate_id=gate.pk, verdict="respond", digest=gate.digest, payload={"answer": "go on"})
        return self.drive()

    def stop(self) -> str:
        steering.stop_run(actor=self.boss, run=self.run)
        return self.drive()

    @property
    def folder(self) -> Path:
        return Path(self.run.workspace_path)

    def workspace_has(self, name: str) -> bool:
        path = Run.objects.values_list("workspace_path", flat=True).get(pk=self.run.pk)
        return bool(path) and (Path(path) / name).exists()

    def drive(self) -> str:
        with ThreadPoolExecutor(1) as pool:  # a browser's event loop may run in the test's own thread
            why = pool.submit(work_on, str(self.run.pk)).result()
        self.run.refresh_from_db()
        return why

    def gate(self) -> Gate:
        return Gate.objects.get(run=self.run, kind="rollback_choice", status="open")

    def say(self, verdict: str, actor: Any = None) -> str:
        gate = self.gate()
        decide(actor=actor or self.boss, gate_id=gate.pk, verdict=verdict, digest=gate.digest)
        return self.drive()

    def facts(self, *kinds: str) -> list[Any]:
        return facts_by_kind.read(journal.raw_connection(), self.run.pk, kinds)

    @property
    def report(self) -> dict[str, Any]:
        return reader.report(self.run.pk) or {}

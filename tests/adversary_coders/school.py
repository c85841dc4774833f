"""Gives problems to scripted coders, many at once, through a real worker and sandbox, and judges what came of it."""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth import get_user_model

from gates.models import Gate
from loops.models import Agent, ModelAddress, ModelConfig, Policy, Project, Run, Workspace
from loops.services.tasks import submit_task
from loops.storage import reader
from tests.adversary_coders.coders import Call, Coder
from tests.adversary_coders.problems import Problem
from tests.factories import create_project
from tests.node_packages import locked
from tests.own_environment import give_pytest
from tests.wire.say import Raw, Say, Seen

KEY = "E2E_MODEL_KEY"
AT_ONCE = 32
PATIENCE_S = 900.0
MEMORY_MIB = 16_384
PACKAGES = Path(__file__).parent / "packages"
_TICKET = re.compile(r"Ticket (\d+)\b")


@dataclass(frozen=True, slots=True)
class Case:
    coder: Coder
    problem: Problem


@dataclass(frozen=True, slots=True)
class Outcome:
    """``committed``: it ended well, and no person was asked anything."""

    case: Case
    committed: bool
    right: bool
    evidence: str
    why: str
    seconds: float


class Model:
    """Every coder behind one address: the ticket in the goal says which. Asked once more, it asks a person."""

    def __init__(self) -> None:
        self.plans: dict[int, list[Call]] = {}

    def __call__(self, seen: Seen) -> Say | Raw:
        ticket = _TICKET.search(seen.said)
        if ticket is None:
            return Raw.error(400, "invalid_request_error", "the goal names no ticket")
        turn = max([0, *(int(call.split("_")[1]) + 1 for call in seen.call_ids)])
        calls = self.plans[int(ticket[1])]
        if turn < len(calls):
            return Say(text="I go on.", calls=[calls[turn]], ids=[f"c_{turn}"])
        done: Call = ("task_completion", {"result": "It is implemented, and all tests pass."})
        return Say(text="Done.", calls=[done if turn == len(calls) else STUCK], ids=[f"c_{turn}"])


STUCK: Call = ("ask_question", {"question": "The checks do not pass. What now?"})


class School:
    """A project whose agent may do all that a sandbox allows, and runs that are reviewed unless they are proved."""

    def __init__(self, folder: Path, url: str, model: Model) -> None:
        self.folder, self.model = folder, model
        self.boss = get_user_model().objects.create_superuser("boss")
        self.project: Project = create_project(actor=self.boss, name="School")
        self.project.access_rules.exclude(access="deny").update(access="allow")
        # Vitest compiles WebAssembly, which asks for more addresses than a command usually has.
        Policy.objects.filter(project=self.project).update(open_runs_per_person=10_000, command_memory_mib=MEMORY_MIB)
        ModelAddress.objects.create(key_name=KEY, origin=url, allowed_by=self.boss)
        config = ModelConfig.objects.create(
            name="pupil", provider="anthropic", model_id="claude-test", base_url=url, api_key_env=KEY, calls_at_once=50
        )
        self.agent = Agent.objects.create(project=self.project, name="Pupil", actor_model=config)

    def play(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        """In batches, so that no run waits long for its turn."""
        for at in range(0, len(cases), AT_ONCE):
            yield from self._batch(cases[at : at + AT_ONCE])

    def _batch(self, cases: Sequence[Case]) -> Iterator[Outcome]:
        runs = {self._submit(case): case for case in cases}
        wait_for(list(runs))
        yield from (_judged(Run.objects.get(pk=run), case) for run, case in runs.items())

    def _submit(self, case: Case) -> uuid.UUID:
        ticket, problem = len(self.model.plans), case.problem
        self.model.plans[ticket] = case.coder.calls(problem)
        folder = self.folder / f"w{ticket}"
        for path, text in problem.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text)
        if problem.runner == "pytest":
            give_pytest(folder)
        if problem.installed:
            shutil.copytree(locked(PACKAGES / problem.installed), folder / "node_modules", symlinks=True)
        workspace = Workspace.objects.create(project=self.project, name=f"w{ticket}", path=str(folder))
        return submit_task(
            actor=self.boss,
            project=self.project,
            agent=self.agent,
            workspace=workspace,
            goal=f"Ticket {ticket}: implement {problem.entry} in {problem.solution} as it is described there.",
            criteria=[{"text": "It does what is asked", "command": problem.command}],
            final_review="unless_verified",
        ).run.pk


def wait_for(runs: Sequence[uuid.UUID]) -> None:
    """Until each has ended, or waits for a person."""
    deadline = time.monotonic() + PATIENCE_S
    while left := _under_way(runs):
        assert time.monotonic() < deadline, f"after {PATIENCE_S:.0f} s: {left}"
        time.sleep(0.1)


def _under_way(runs: Sequence[uuid.UUID]) -> list[str]:
    asked = set(Gate.objects.filter(run_id__in=runs).values_list("run_id", flat=True))
    left = Run.objects.filter(pk__in=runs, completed_at=None).exclude(status="paused").exclude(pk__in=asked)
    return [f"{run.pk} {run.status}" for run in left]


def _judged(run: Run, case: Case) -> Outcome:
    asked = list(Gate.objects.filter(run=run).values_list("kind", flat=True))
    committed = run.status == "completed" and not asked
    right = case.problem.holds(Path(run.workspace_path), case.coder.product)
    checks = [fact["fact"] for fact in reader.raw(run.pk, 0, 10_000) if fact["kind"] == "ChecksCompleted"]
    last = checks[-1] if checks else {"checks": []}
    found = [*(check.get("evidence") or check["status"] for check in last["checks"])]
    remarks = [f"{remark['code']} in {remark['path']}" for remark in last.get("remarks") or ()]
    said = [str(check.get("why") or check.get("detail") or "")[:160] for check in last["checks"]]
    why = "; ".join(filter(None, [*asked, run.end_reason, *said, *remarks]))
    took = (run.last_activity_at - run.started_at).total_seconds()
    return Outcome(case, committed, right, ", ".join(found), why, took)

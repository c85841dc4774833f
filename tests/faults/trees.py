"""P16: a stop ends the whole tree of processes within a second, whatever the tree does about it (SPEC K1, I8)."""

from __future__ import annotations

import itertools
import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil

from loops.models import AccessRule, Agent, ModelConfig, Run
from loops.services import steering
from tests.faults import house, stand, workers
from tests.faults.outcome import Found, Outcome, first_harm

WITHIN_S = 1.0
TREES = {
    "double fork": "( ( sleep {0} & ) & ) ; sleep {0}",
    "own session": "setsid sleep {0} & sleep {0}",
    "deaf to SIGTERM": "trap '' TERM INT HUP; sleep {0} & wait",
}
KINDS = (*TREES, "mid-stream", "mid-HTTP")
_marks = itertools.count(10**10 + 1_000 * os.getpid())  # another suite has others


def check(count: int) -> list[Outcome]:
    """``count`` stops, of trees of three kinds, of a streaming answer and of a request that nobody answers."""
    outcome = Outcome("P16", faults=count)
    AccessRule.objects.get_or_create(project=house.project(), tool="run_command", defaults={"access": "allow"})
    took: list[float] = []
    with nobody_answers() as url, workers.at_work(workers.Workers("threads", 8)) as at_work:
        talker(url)
        for number in range(count):
            seconds, found = stopped(KINDS[number % len(KINDS)], at_work)
            took.append(seconds)
            outcome.found += found
        p99 = sorted(took)[max(0, round(0.99 * len(took)) - 1)]
        outcome.notes.append(f"seconds from the stop to the last process: p99 {p99:.2f}, longest {max(took):.2f}")
        if p99 > stand.within(WITHIN_S):
            outcome.found.broken.append(f": p99 {p99:.2f} s is more than {stand.within(WITHIN_S):.0f} s")
        outcome.control = first_harm(lambda: stopped("own session", at_work, tool="bare_command")[1], "survivors", 3)
    return [outcome]


def stopped(kind: str, at_work: workers.Workers, tool: str = "run_command") -> tuple[float, Found]:
    """Seconds from the commit of the stop to the end of everything, and who survived."""
    mark = str(next(_marks))
    run = begun(kind, mark, tool)
    up: Callable[[], bool] = (
        (lambda: len(_tree(mark)) >= TREES[kind].count("sleep")) if kind in TREES else (lambda: _asked(run))
    )
    if stand.wait_for(lambda: _approved(run, at_work) and up(), 120, 0.02) < 0:
        return 0.0, Found(broken=[f"{run.pk}: {kind} did not come up"])
    try:
        steering.stop_run(actor=house.boss(), run=run)
    except steering.NotPossible as error:
        said = list(run.tool_calls.values_list("tool", "output")) if kind in TREES else []
        return 0.0, Found(broken=[f"{run.pk}: {kind} was over before it was stopped: {error} {said}"])
    began = time.monotonic()
    gone = (lambda: not _tree(mark, all_of_it=True)) if kind in TREES else (lambda: _ended(run))
    seconds = stand.wait_for(gone, stand.within(3.0), 0.005)
    survivors = _tree(mark, all_of_it=True)
    for process in survivors:
        with suppress(psutil.Error):
            process.kill()
    if survivors or seconds < 0:
        return time.monotonic() - began, Found(lost=[f"{run.pk}: {kind}: {len(survivors)} survivors"])
    ended = stand.wait_for(lambda: _ended(run), 120)
    return seconds, Found(lost=[f"{run.pk}: {kind}: the run has not ended"] if ended < 0 else [])


def begun(kind: str, mark: str, tool: str) -> Run:
    if kind == "mid-stream":
        return house.submit("talks_long", pace=0.5)  # not over before it is stopped, however busy the machine
    if kind == "mid-HTTP":
        from loops.services.tasks import submit_task

        silent = Agent.objects.get(name="nobody answers")
        return submit_task(
            actor=house.boss(), project=house.project(), agent=silent, workspace=None, goal=f"Talk {mark}"
        ).run
    return house.submit("grows_a_tree", goal=f"Grow <tree>{tool}:{TREES[kind].format(mark)}</tree>")


def _approved(run: Run, at_work: workers.Workers) -> bool:
    at_work.keep()
    if (gate := house.open_gate(run)) is not None:
        house.decide(gate)
    return True


def _tree(mark: str, *, all_of_it: bool = False) -> list[psutil.Process]:
    """Processes with the mark in their command line; ``all_of_it`` counts the sandbox around them too."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.pid != os.getpid() and mark in " ".join(process.cmdline()):
                found.append(process)
    names = {process.pid: _name(process) for process in found}
    return [process for process in found if all_of_it or names[process.pid] == "sleep"]


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return process.name()
    return ""


def _asked(run: Run) -> bool:
    return Run.objects.filter(pk=run.pk, total_steps__gte=1).exists()


def _ended(run: Run) -> bool:
    return Run.objects.filter(pk=run.pk, completed_at__isnull=False).exists()


@contextmanager
def nobody_answers() -> Iterator[str]:
    """A server that takes requests and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"


def talker(url: str) -> None:
    model, _ = ModelConfig.objects.update_or_create(
        name="nobody-answers", defaults={"provider": "openai", "model_id": "x", "base_url": url}
    )
    Agent.objects.get_or_create(project=house.project(), name="nobody answers", defaults={"actor_model": model})

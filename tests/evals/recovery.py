"""``make eval-recovery``: fifty faults under real runs, and how many of them end well without a person (SPEC E).

Real loop, journal, gates, sandbox and Postgres; the models speak over the wire, through the providers' SDKs. A run has
*recovered* when it is completed, its criterion is proven and nothing was done twice; *escalated* when it waits for a
person or has ended with a reason and a report; anything else is *lost*.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench import stack
from tests.evals.recovery_faults import CRITERION, FLAKY, GOAL, Agent, Case, cases
from tests.wire.server import WireServer

AIM = 0.8
PATIENCE_S = 120.0


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    what: str
    why: str
    seconds: float
    requests: int


def main(names: list[str]) -> int:
    print(stack.machine(), flush=True)
    with stack.running():
        world = _world()
        chosen = [case for case in cases() if not names or any(name in f"{case.group}: {case.name}" for name in names)]
        outcomes = [_told(_run(world, number, case)) for number, case in enumerate(chosen)]
    return _report(outcomes)


def _world() -> dict[str, Any]:
    """A project whose agents may run commands without asking, and may not make folders."""
    from django.contrib.auth import get_user_model

    from loops.models import AccessRule, Policy
    from loops.runs.composition import tool_registry
    from tests.factories import create_project

    boss = get_user_model().objects.create_superuser("ana", password="x")
    project = create_project(actor=boss, name="Recovery", slug="recovery")
    AccessRule.objects.create(project=project, agent_type="general", operation="execute", access="allow")
    AccessRule.objects.create(project=project, agent_type="general", tool="make_directory", access="deny")
    for flaky in FLAKY.values():
        tool_registry().add(flaky.tool())
    Policy.objects.filter(project=project).update(open_runs_per_person=10_000)  # many cases end at a gate
    return {"boss": boss, "project": project}


def _run(world: dict[str, Any], number: int, case: Case) -> Outcome:
    from loops.runs.drive import drive

    _set_up(case)
    began, agent = time.monotonic(), Agent(case)
    with WireServer(agent) as server:
        run = _submitted(world, number, case, server)
        why = "timer"
        while why == "timer" and time.monotonic() - began < PATIENCE_S:
            why = drive(run.pk, "eval")
            if why in ("timer", "taken"):
                why = "timer"
                time.sleep(0.1)
        requests = len(server.seen)
    run.refresh_from_db()
    what, reason = _judged(run, why)
    return Outcome(case, what, reason, time.monotonic() - began, requests)


def _set_up(case: Case) -> None:
    from loops.models import Breaker, BreakerRule

    Breaker.objects.all().delete()
    BreakerRule.objects.all().delete()
    if case.rule:
        BreakerRule.objects.create(kind="model", **case.rule)
    times = {"crashes three times": 3, "is broken": 99}.get(case.name, 1)
    for flaky in FLAKY.values():
        flaky.left = times


def _submitted(world: dict[str, Any], number: int, case: Case, server: WireServer) -> Any:
    from loops.models import Agent as AgentRow
    from loops.models import ModelConfig
    from loops.services.tasks import submit_task

    def model(name: str, provider: str, **fields: Any) -> Any:
        url = server.openai_url if provider == "openai" else server.url
        given = {"model_id": f"{name}-1", "base_url": url, "timeout_s": 1, **fields}
        return ModelConfig.objects.create(name=f"{name}-{number}", provider=provider, **given)

    spare = model("spare", "openai" if case.provider == "anthropic" else "anthropic") if case.spare else None
    main_model = model("main", case.provider, fallback=spare, **case.main)
    agent = AgentRow.objects.create(project=world["project"], name=f"Agent {number}", actor_model=main_model)
    return submit_task(
        actor=world["boss"],
        project=world["project"],
        agent=agent,
        workspace=None,
        goal=GOAL,
        criteria=[dict(CRITERION)],
        final_review="never",
        idempotency_key=f"case-{number}",
    ).run


def _judged(run: Any, why: str) -> tuple[str, str]:
    """What became of it, and in which words the product says so."""
    from loops.models import Artifact

    log = Path(run.workspace_path) / "log.txt"
    twice = log.exists() and log.read_text() != "once\n"
    if twice:
        return "lost", "something was done twice"
    if run.status == "completed":
        right = (Path(run.workspace_path) / "answer.txt").read_text() == "42\n"
        return ("recovered", "") if right else ("lost", "completed with a wrong answer")
    if why.startswith("gate:"):
        return "escalated", f"{why} {run.end_reason}".strip()
    reported = Artifact.objects.filter(run=run, kind="FailureReport").exists()
    if run.status == "failed" and run.end_reason and reported:
        return "escalated", run.end_reason
    return "lost", f"{run.status} {run.end_reason} ({why})"


def _told(outcome: Outcome) -> Outcome:
    case = outcome.case
    said = f"{case.group}: {case.name}"
    reason = f" ({outcome.why})" if outcome.why else ""
    print(f"{said:<48} {outcome.what}{reason}  {outcome.requests} requests, {outcome.seconds:.1f} s", flush=True)
    return outcome


def _report(outcomes: list[Outcome]) -> int:
    """Prints the figures; 1 when the aim was missed, which is all that is wanted of a run by hand."""
    groups: dict[str, Counter[str]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.case.group, Counter())[outcome.what] += 1
    print()
    for group, found in groups.items():
        print(f"{group:<28} {found['recovered']:>2} of {found.total():>2} recovered, {found['escalated']} escalated")
    total = sum((found for found in groups.values()), Counter())
    share = total["recovered"] / max(1, total.total())
    wrong = [one for one in outcomes if one.case.hopeless and one.what != "escalated"]
    print(
        f"\n{total.total()} faults: {total['recovered']} recovered without a person ({share:.0%}, aim {AIM:.0%}), "
        f"{total['escalated']} escalated with a reason, {total['lost']} lost (aim 0)"
    )
    if wrong:
        print("hopeless, and yet not escalated: " + ", ".join(one.case.name for one in wrong))
    return int(share < AIM or total["lost"] > 0 or bool(wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How long people wait until a run hears them: a message, a pause, a resume and a stop, in every state it can be in.

A real worker on servers as durable as in production. Seconds from the commit of what was said to the fact that says so.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from django.test import override_settings

from tests.bench import report

ROUNDS = 5
TARGET_S = 1.0


def main() -> None:
    from tests.e2e.states_steered import STATES

    took = measured()
    done = list(dict.fromkeys(what for _, what in took))
    rows = [[state, *(_slowest(took.get((state, what), ())) for what in done)] for state in STATES]
    print(report.table(["slowest, seconds", *done], rows), flush=True)
    every = sorted(seconds for times in took.values() for seconds in times)
    print(report.at_most("a run hears people, p95, seconds", every[int(len(every) * 0.95)], TARGET_S), flush=True)


def _slowest(seconds: Sequence[float]) -> str:
    return f"{max(seconds):.2f}" if seconds else ""


def measured() -> dict[tuple[str, str], list[float]]:
    """Seconds by state and by what people did there."""
    from tests.e2e import crew as crews
    from tests.e2e import plant
    from tests.e2e.states_steered import NAPS, STATES, steer
    from tests.stack import wait_until

    took: dict[tuple[str, str], list[float]] = {}
    with (
        tempfile.TemporaryDirectory(dir="/tmp") as folder,
        override_settings(AGENTOPS_CELERY=plant.APP, WORKSPACE_ROOTS=[folder]),
        crews.at_work(Path(folder)) as crew,
    ):
        crew.start("only", size=30, AGENTOPS_WORKSPACE_ROOTS=folder, **crews.UNHURRIED, **NAPS)
        for _ in range(ROUNDS):
            for state in STATES:

                def heard(what: str, condition: Callable[[], object], state: str = state) -> None:
                    began = time.monotonic()
                    wait_until(condition, f"{what} {state}")
                    took.setdefault((state, what), []).append(time.monotonic() - began)

                steer(crew, state, heard)
    return took

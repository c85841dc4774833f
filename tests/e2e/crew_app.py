"""The Celery app of a crew: the product's own, with leases of a few seconds and scripts of the tests' own.

Only the crew's own processes may import this: it changes the product where it stands.
"""

from __future__ import annotations

import os
from pathlib import Path

import django

django.setup()

from agentops.celery import app  # noqa: E402 - after the setup
from loops.driver import driver, interrupts  # noqa: E402
from loops.engine.ports import Verified  # noqa: E402
from loops.engine.values import Reversibility, ToolResult, ToolSpec  # noqa: E402
from loops.llm.scripted import scripts  # noqa: E402
from loops.runs import worker  # noqa: E402
from loops.runs.composition import tool_registry  # noqa: E402
from loops.storage import connections, journal  # noqa: E402
from loops.tools.execution import in_thread  # noqa: E402
from loops.tools.registry import Arguments, Tool, ToolRun  # noqa: E402

__all__ = ["app"]
LEASE_S = float(os.environ["AGENTOPS_CREW_LEASE_S"])

journal.claim.__defaults__ = (LEASE_S,)
journal.PgJournal.__init__.__defaults__ = (LEASE_S,)
interrupts.RENEW_EVERY_S = 1.0
worker.GRACE_S = float(os.environ.get("AGENTOPS_CREW_GRACE_S", worker.GRACE_S))
driver.LONGEST_NAP_S = float(os.environ.get("AGENTOPS_CREW_NAP_S", driver.LONGEST_NAP_S))
if os.environ.get("AGENTOPS_CREW_TIMEOUTS") == "off":
    connections._SERVER.update(idle_in_transaction_session_timeout=0, lock_timeout=0)
scripts.__path__.append(str(Path(__file__).parent / "scripts"))


async def _note(arguments: Arguments, run: ToolRun) -> ToolResult:
    """In the worker's own process: one line more in the ledger."""

    def add() -> ToolResult:
        lines = run.workspace.read("ledger") if run.workspace.hash("ledger") else b""
        run.workspace.write("ledger", lines + b"x\n")
        return ToolResult(ok=True, content="noted")

    return await in_thread(add, run)


tool_registry().add(
    Tool(
        ToolSpec(
            name="note",
            description="Add a line to the ledger.",
            parameters={"type": "object", "additionalProperties": False},
            operation="write",
            reversibility=Reversibility.IRREVERSIBLE,
        ),
        _note,
        verify=lambda arguments, run: Verified.UNKNOWN,
    )
)

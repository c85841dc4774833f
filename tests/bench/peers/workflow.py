"""DBOS: one workflow, the model and the tool as steps whose results it makes durable."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from dbos import DBOS

from tests.bench.work import ARGUMENTS, RESULTS, Marks

PACKAGE = "dbos"
_ASKED: list[Marks] = []


@DBOS.step()
def model() -> dict[str, Any]:
    number = _ASKED[-1].ask()
    if number > _ASKED[-1].steps:
        return {"role": "assistant", "content": "done"}
    return {"role": "assistant", "tool_calls": [{"id": f"call_{number}", "name": "lookup", "args": ARGUMENTS}]}


@DBOS.step()
def tool(call: str, number: int) -> dict[str, Any]:
    return {"role": "tool", "id": call, "content": RESULTS[number % 64]}


@DBOS.workflow()
def loop() -> int:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    while calls := (answer := model()).get("tool_calls"):
        messages.append(answer)
        messages.extend(tool(call["id"], len(messages)) for call in calls)
    return len(messages)


def ready(login: dict[str, str]) -> Callable[[Marks], None]:
    logging.getLogger("dbos").setLevel(logging.ERROR)
    user, password, name = (quote(login[key], safe="") for key in ("user", "password", "dbname"))
    url = f"postgresql+psycopg://{user}:{password}@/{name}?host={quote(login['host'], safe='')}"
    DBOS(
        config={"name": "bench", "system_database_url": url, "log_level": "ERROR", "run_admin_server": False}  # type: ignore[typeddict-item]
    )
    DBOS.launch()

    def run(marks: Marks) -> None:
        _ASKED.append(marks)
        assert loop() == 2 * marks.steps + 1

    return run

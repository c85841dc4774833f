"""One table of texts that deceive, through every output that people decide by (SPEC S1; attack list 3, 5, 47)."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.test import Client

from agentops import logs
from loops.engine import facts as f
from loops.management.terminal import TerminalCommand
from loops.models import Run, Task
from loops.tools.output import is_odd
from tests import factories as make
from tests.hostile import MARK, TEXTS
from tests.integration.gates.builders import World, make_world, open_gate, tool_view

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S1", "Q3", "Q5")]
OTHERS = {"migrate"}
"""Commands of ours that print nothing which a model or a person wrote: names of migrations."""


@pytest.fixture
def world(db: Any) -> World:
    return make_world()


def read(world: World, address: str, **data: Any) -> str:
    client = Client()
    client.force_login(world.reviewer)
    answer = client.post(address, data) if data else client.get(address)
    assert answer.status_code == 200
    return re.sub(r"<textarea.*?</textarea>", "", answer.content.decode(), flags=re.DOTALL)  # edited as it is


def card(world: World, text: str) -> str:
    gate = open_gate(world, title=text, reasons=(text,), view=tool_view(arguments={"path": text}, reasoning=text))
    return read(world, f"/review/{gate.pk}/")


def queue(world: World, text: str) -> str:
    open_gate(world, title=text)
    return read(world, "/review/list/")


def bulk(world: World, text: str) -> str:
    gates = [open_gate(world, title=text) for _ in range(2)]
    items = [f"{gate.pk}:{gate.digest}" for gate in gates]
    return read(world, "/review/bulk/", item=items, verdict="reject")


def pages(world: World, text: str) -> str:
    """Every page on which people pick a run, and the head of its own."""
    Task.objects.filter(pk=world.run.task_id).update(title=text)
    client = Client()
    client.force_login(world.author)
    run = f"/runs/{world.run.pk}/"
    addresses = ("/", "/runs/", run, f"{run}lifecycle/", f"{run}files/", f"{run}provenance/", f"{run}fork/")
    return "".join(client.get(address).content.decode() for address in addresses)


def runs_command(world: World, text: str) -> str:
    Task.objects.filter(pk=world.run.task_id).update(title=text)
    return printed("agentops", "runs", actor=world.author.username)


def watch(world: World, text: str) -> str:
    make.fact(world.run, f.MessageReceived(text=text, by="ana"))
    Run.objects.filter(pk=world.run.pk).update(status="completed", end_reason="criteria_met")
    return printed("agentops", "watch", str(world.run.pk), actor=world.author.username)


def printed(*words: str, **options: Any) -> str:
    out = io.StringIO()
    call_command(*words, stdout=out, stderr=out, **options)
    return out.getvalue()


def log_line(_: World, text: str) -> str:
    record = logging.LogRecord("loops", logging.WARNING, "", 0, "the model said %s", (text,), None)
    record.tool = text
    return logs.Line().format(record)


def log_traceback(_: World, text: str) -> str:
    try:
        raise ValueError(text)
    except ValueError as error:
        record = logging.LogRecord(
            "loops", logging.ERROR, "", 0, "failed", (), (ValueError, error, error.__traceback__)
        )
        return logs.Line().format(record)


OUTPUTS: dict[str, Callable[[World, str], str]] = {
    "card": card,
    "queue": queue,
    "bulk": bulk,
    "pages": pages,
    "runs": runs_command,
    "watch": watch,
    "log": log_line,
    "traceback in the log": log_traceback,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_nothing_deceives_and_nothing_is_left_out(world: World, output: str) -> None:
    for what, text in TEXTS.items():
        shown = OUTPUTS[output](world, text)
        assert MARK in shown, what
        odd = [shown[max(0, at - 80) : at + 20] for at, letter in enumerate(shown) if is_odd(letter)]
        assert odd == [], what
        assert "<script>alert" not in shown or output not in ("card", "queue", "bulk"), what


def test_a_title_of_two_lines_makes_no_second_row(world: World) -> None:
    assert runs_command(world, f"Tidy up\n{world.run.pk}  completed  {MARK}").count("\n") == 1


def test_why_a_command_failed_is_printed_and_not_obeyed(
    world: World, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django.core.management.base.connections.close_all", lambda: None)  # the test's own
    command = load_command_class("loops", "agentops")
    for what, text in TEXTS.items():
        with pytest.raises(SystemExit):
            command.run_from_argv(["manage.py", "agentops", "--as", text, "runs"])
        shown = capsys.readouterr().err
        assert MARK in shown, what
        assert not any(map(is_odd, shown)), what


def test_every_command_prints_through_the_same_outputs() -> None:
    ours = {name for name, app in get_commands().items() if app in ("agentops", "loops", "gates")}
    plain = {name for name in ours if not isinstance(load_command_class(get_commands()[name], name), TerminalCommand)}
    assert plain == OTHERS


def test_what_is_called_with_outputs_of_its_own_is_printed_too() -> None:
    command = load_command_class("loops", "agentops")
    assert isinstance(command.stdout, type(command.stderr))
    with pytest.raises(CommandError):
        call_command(command, "runs", actor="nobody \x1b[2J")

"""One table of texts that deceive, through every output that people decide by (SPEC S1; attack list 3, 5, 47)."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from django.utils.html import escape

from agentops import logs
from agentops.edge.admin_text import shown as shown_in_admin
from loops.engine import facts as f
from loops.engine.values import FailureKind
from loops.management.terminal import TerminalCommand
from loops.models import AccessRule, Agent, Artifact, Breaker, Project, Run, Task, Workspace
from loops.printable.text import is_odd
from loops.web.live import catch_up
from tests import factories as make
from tests.hostile import AT_ONCE, MARK, TEXTS, deceiving, deceiving_in_prose
from tests.integration.gates.builders import World, make_world, open_gate, tool_view
from tests.web.story import answer, begin

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


HIDDEN = re.compile(
    r"""<textarea.*?</textarea>|\b(?:value|data-[a-z]+|href|hx-[a-z]+|id|for|name)="[^"]*\"""", re.DOTALL
)
"""What is edited as it is, and attributes that nobody reads."""


def shown(user: Any, *addresses: str) -> str:
    client = Client()
    client.force_login(user)
    answers = [client.get(address) for address in addresses]
    assert {answer.status_code for answer in answers} == {200}
    return HIDDEN.sub("", "".join(answer.content.decode() for answer in answers))


def named(world: World, text: str) -> str:
    """Names of everything and exact texts, on every page that shows them."""
    workspace, _ = Workspace.objects.get_or_create(project=world.project, path="", defaults={"name": "x"})
    rows: list[tuple[Any, dict[str, Any]]] = [
        (Project.objects.filter(pk=world.project.pk), {"name": text}),
        (Agent.objects.filter(pk=world.run.agent_id), {"name": text}),
        (Workspace.objects.filter(pk=workspace.pk), {"name": text}),
        (Task.objects.filter(pk=world.run.task_id), {"title": text, "workspace": workspace}),
        (Run.objects.filter(pk=world.run.pk), {"escalation_reason": text, "paused_reason": text, "paused_by": text}),
    ]
    for each, fields in rows:
        each.update(**fields)
    run = make.run(Task.objects.get(pk=world.run.task_id), status="paused", paused_by="monitor", paused_reason=text)
    begin(run)
    make.fact(run, f.RunPaused(by=text))
    make.step(run, 1, error=text, success=False)
    diff = f"--- a/{text}\n+++ b/{text}\n@@ -1 +1 @@ {text}\n-{text}\n+{text}\n"
    arguments = {text: text, "path": text, "long": f"{text}\n" * 30, "list": [text]}
    asked = {"tool": text, "arguments": arguments, "reasons": [text], "access": "ask"}
    make.tool_call(run, 1, **asked, output=text, error=f"not {text}", ok=False, exit_code=1)
    make.tool_call(run, 1, **asked, output=text, data={"diff": diff})
    Artifact.objects.create(run=run, seq=1, kind="file", name=text, media_type=text, sha256="0" * 64)
    AccessRule.objects.create(project=world.project, tool=text, access="ask", paths=[text], note=text)
    now = timezone.now()
    Breaker.objects.create(kind="tool", name=text, status="open", opened_at=now, changed_at=now, why=text)
    view = {"arguments": arguments, "command": text, "choices": [text], "question": text}
    gate = open_gate(world, run=run, title=text, tool=text, reasons=(text,), view=tool_view(**view))
    at = f"/runs/{run.pk}/"
    views = ("", "conversation/", "files/", "raw/", "lifecycle/", "provenance/", "fork/", "rollback/", "detections/")
    compare = f"{at}compare/{world.run.pk}/"
    pages = shown(
        world.author, "/", "/runs/", "/tasks/new/", "/tools/", "/find/", *(at + view for view in views), compare
    )
    reviewed = shown(world.reviewer, "/", "/review/", f"/review/{gate.pk}/", f"{at}gates/{gate.pk}/")
    Run.objects.filter(pk=run.pk).update(status="queued")  # it is what a second project would hold
    return pages + reviewed + shown(make.superuser(), "/system/", "/system/breakers/")


def admin(world: World, text: str) -> str:
    """Lists, forms and histories of Django's admin, whose templates are no ones of ours."""
    rows = in_the_admin(world, text)
    lists = [reverse(f"admin:loops_{row._meta.model_name}_changelist") for row in rows]
    each = [
        reverse(f"admin:loops_{row._meta.model_name}_{page}", args=[row.pk])
        for row in rows
        for page in ("change", "history")
    ]
    return re.sub(r"<script.*?</script>", "", shown(make.superuser(), *lists, *each), flags=re.DOTALL)


def in_the_admin(world: World, text: str) -> list[Any]:
    """One row of each kind, and a second project, so that lists offer to show one only."""
    make.project()
    Project.objects.filter(pk=world.project.pk).update(name=text)
    Agent.objects.filter(pk=world.run.agent_id).update(name=text, instructions=text)
    Task.objects.filter(pk=world.run.task_id).update(title=text, goal=text)
    Workspace.objects.create(project=world.project, name=text)
    AccessRule.objects.create(project=world.project, tool=text, access="ask", note=text)
    return [model.objects.order_by("-pk")[0] for model in (Project, Agent, Task, Workspace, AccessRule)]


def said(world: World, text: str) -> str:
    """Sentences of a model and of people, as the page of a run shows them."""
    run = make.run(Task.objects.get(pk=world.run.task_id))
    begin(run)
    make.fact(run, f.ModelFailed(kind=FailureKind.TRANSIENT, code="x", message=text, attempt=1))
    make.fact(run, f.MessageReceived(text=text, by="ana"))
    make.step(run, 1, said=text, reasoning=text)
    make.step(run, 2, said="", reasoning=text)
    answer(run, 2, text, text, name="read_file", arguments={"path": "a"})
    at = f"/runs/{run.pk}/"
    return shown(world.author, at, f"{at}conversation/", f"{at}steps/1/", f"{at}compare/{world.run.pk}/")


def toast(world: World, text: str) -> str:
    """What is told beside the page: of a decision that comes too late, and of one that was taken."""
    Task.objects.filter(pk=world.run.task_id).update(title=text)
    gate = open_gate(world, title=text)
    client = Client()
    client.force_login(world.reviewer)
    address = f"/review/{gate.pk}/decide/"
    decided = {"verdict": "reject", "reason": text, "digest": gate.digest}
    taken = client.post(address, decided, follow=True).content.decode()
    late = client.post(address, decided, headers={"HX-Request": "true"})
    return HIDDEN.sub("", taken) + unquote(late["X-Message"]) + HIDDEN.sub("", late.content.decode())


def announced(world: World, text: str) -> str:
    """What screen readers are told while a page is open."""
    world.run.task.title = text
    return catch_up._say(world.run, {"GateOpened"})


def runs_command(world: World, text: str) -> str:
    Task.objects.filter(pk=world.run.task_id).update(title=text)
    return printed("agentops", "runs", actor=world.author.username)


def workspaces_command(world: World, text: str) -> str:
    Workspace.objects.create(project=world.project, name=text)
    return printed("agentops", "workspace", project=world.project.slug, actor=world.author.username)


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


MANY_PAGES = ("named", "said", "admin")
HTML = ("card", "queue", "bulk", "pages", "named", "said", "admin")
OUTPUTS: dict[str, Callable[[World, str], str]] = {
    "card": card,
    "queue": queue,
    "bulk": bulk,
    "pages": pages,
    "named": named,
    "said": said,
    "admin": admin,
    "toast": toast,
    "announced": announced,
    "workspaces": workspaces_command,
    "runs": runs_command,
    "watch": watch,
    "log": log_line,
    "traceback in the log": log_traceback,
}


@pytest.mark.parametrize("output", OUTPUTS)
def test_nothing_deceives_and_nothing_is_left_out(world: World, output: str) -> None:
    for what, text in TEXTS.items() if output not in MANY_PAGES else [("all of it", AT_ONCE)]:
        page = OUTPUTS[output](world, text)
        assert MARK in page, what
        deceives = deceiving_in_prose(text) if output == "said" else deceiving(text)
        odd = [page[max(0, at - 80) : at + 20] for at, letter in enumerate(page) if letter in deceives]
        assert odd == [], what
        assert "<script>alert" not in page or output not in HTML, what


def test_a_form_of_the_admin_gives_every_text_back_as_it_is(world: World) -> None:
    """What deceives as well as a name in an alphabet of its own: whoever saves the form changes nothing."""
    client = Client()
    client.force_login(make.superuser())
    for text in (AT_ONCE, "Бухгалтерия \u201cЖизнь\u201d & 会計"):
        agent = in_the_admin(world, text)[1]
        page = client.get(reverse("admin:loops_agent_change", args=[agent.pk]))
        html = page.content.decode()
        value = re.search(
            r'<input[^>]*?name="name"[^>]*?value="([^"]*)"|<input[^>]*?value="([^"]*)"[^>]*?name="name"', html
        )
        edited = re.search(r'<textarea[^>]*name="instructions"[^>]*>(.*?)</textarea>', html, re.DOTALL)
        assert value is not None
        assert edited is not None
        sent = {name: "" if given is None else given for name, given in page.context["adminform"].form.initial.items()}
        sent |= {"name": unescape(value[1] or value[2]), "instructions": unescape(edited[1]).strip(), "reason": "r"}
        answer = client.post(page.request["PATH_INFO"], sent)
        assert answer.status_code == 302, answer.context["adminform"].form.errors
        agent.refresh_from_db()
        assert (agent.name, agent.instructions) == (text.strip(), text.strip())


def test_ordinary_pages_of_the_admin_are_what_they_were(world: World, settings: Any) -> None:
    """Byte for byte, with quotation marks, dashes and names in other alphabets."""
    rows = in_the_admin(world, "Бухгалтерия \u201cЖизнь\u201d \u2013 d\u2019été & 会計")
    names = [reverse(f"admin:loops_{row._meta.model_name}_changelist") for row in rows]
    names += [reverse(f"admin:loops_{row._meta.model_name}_change", args=[row.pk]) for row in rows]
    root = make.superuser()

    def pages() -> list[str]:
        client = Client()
        client.force_login(root)
        answers = [client.get(name) for name in names]
        assert all(int(answer["Content-Length"]) == len(answer.content) for answer in answers)
        return [re.sub(r"csrfmiddlewaretoken[^>]*", "", answer.content.decode()) for answer in answers]

    found = pages()
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if not name.endswith("AdminText")]
    assert found == pages()
    in_the_admin(world, AT_ONCE)
    assert any(map(is_odd, "".join(pages()))), "control: without it they are there"


def test_what_is_said_of_a_thing_in_the_admin_is_no_code_either() -> None:
    tag = f'<a title="{escape(AT_ONCE)}" href="/x?q=%E2" data-id="п&#x27;" hidden>x</a>'
    told = shown_in_admin(tag)
    assert not any(letter in told for letter in deceiving(AT_ONCE))
    assert told.endswith(' href="/x?q=%E2" data-id="п&#x27;" hidden>x</a>')
    for kept in (
        "<script>\u202e</script>",
        "<p>&nbsp;&#8238;A&amp;B</p>",
        '<option value="\u202e">x</option>',
        "a &# \u00e9 & b <",
    ):
        assert shown_in_admin(kept) == kept


PAGES = Path(__file__).parents[2] / "templates"
OUR_OWN = set((Path(__file__).parents[1] / "data" / "shown_as_they_are.txt").read_text("utf-8").splitlines())
"""Template and value: numbers, labels and words of AgentOps itself."""
NOT_READ = re.compile(
    HIDDEN.pattern.replace(
        "value|", "value|class|action|style|datetime|d|x|y|cx|cy|width|height|viewBox|points|rows|"
    ).replace("name)", "name|min|max|step|content|src|aria-(?:labelledby|describedby|controls))"),
    re.DOTALL,
)
THROUGH_AN_OUTPUT = re.compile(r"\|(printable|prose|reveal|reveal_code|markdown|joined)\b")
OF_A_NUMBER = re.compile(
    r"\|(when|grouped|duration|milliseconds|compact|percent|pluralize|length|epoch_ms|floatformat|filesizeformat|date"
    r"|intcomma|risk_look|size_said|reason|phase|call_look|call_said|gate_waited|urlencode|add)\b"
)


def raw(template: str) -> set[str]:
    """What a template shows as it is."""
    values = re.findall(r"\{\{\s*(.*?)\s*\}\}", NOT_READ.sub("", template))
    shown = [value for value in values if not THROUGH_AN_OUTPUT.search(value) and not OF_A_NUMBER.search(value)]
    return {re.split(r"[|:]", value)[0] for value in shown}


def test_whatever_a_template_shows_goes_through_an_output_or_is_our_own() -> None:
    found = {
        f"{file.relative_to(PAGES)} {value}" for file in PAGES.rglob("*.html") for value in raw(file.read_text("utf-8"))
    }
    assert found - OUR_OWN == set(), "|printable, |prose or |reveal; or a line in tests/data/shown_as_they_are.txt"
    assert OUR_OWN - found == set(), "is shown nowhere any more"


def test_a_name_that_is_shown_as_it_is_is_found() -> None:
    assert raw('<h1 id="{{ file.id }}" title="{{ file.why }}">{{ file.path }} {{ file.note|printable }}</h1>') == {
        "file.why",
        "file.path",
    }


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

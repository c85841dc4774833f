"""No key goes where nobody allowed it, by whatever door a model came to its address (SPEC S3, X7)."""

from __future__ import annotations

import importlib
import socket
import threading
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.apps import apps
from django.contrib.admin.models import ADDITION, LogEntry
from django.contrib.auth.models import Group
from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError, call_command
from django.db import connections
from django.test import Client
from django.urls import reverse

from agentops.ops import checks
from loops.llm.embeddings import Embeddings
from loops.llm.prices import cost_microusd  # noqa: F401 - the price list is read before a name server is imitated
from loops.models import AuditEvent, BreakerRule, ComplexityProfile, ModelAddress, ModelConfig
from loops.services import keys as keys_of_models
from loops.services import model_tests, models, people
from tests import factories as make
from tests.integration.breakers.wire_runs import drive_on, facts, submit
from tests.wire.say import Raw, Say
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S3")]
SECRET = "kept-by-the-worker-0123456789"
CALLED = Say(calls=[("report", {"text": "ready"})])
PUBLIC = "models.example.com"


def url(model: str, page: str, *args: Any) -> str:
    return reverse(f"admin:loops_{model}_{page}", args=args)


def row(server: WireServer, provider: str = "openai", key: str = "ODD_KEY", **fields: Any) -> ModelConfig:
    address = server.openai_url if provider == "openai" else server.url
    given = {"model_id": "m", "base_url": address, "api_key_env": key, **fields}
    return ModelConfig.objects.create(name="own", provider=provider, **given)


def form(server_url: str, **more: Any) -> dict[str, Any]:
    given = {"name": "own", "provider": "openai", "model_id": "m", "base_url": server_url, "max_tokens": 1000}
    return {**given, "api_key_env": "ODD_KEY", "thinking": "off", "pace": 0, **more}


@pytest.fixture
def root() -> Client:
    client = Client()
    client.force_login(make.superuser("root"))
    return client


@pytest.fixture
def project_admin() -> Client:
    people.ensure_groups()
    person = make.user("delegate", admin=make.project("Invoices"))
    person.groups.add(Group.objects.get(name="admin"))
    person.is_staff = True
    person.save()
    client = Client()
    client.force_login(person)
    return client


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ODD_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DATABASE_URL"):
        monkeypatch.setenv(name, SECRET)


def got(server: WireServer) -> bool:
    return any(SECRET in value for head in server.heads for value in head.values())


# --- At every use ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("key", ["ODD_KEY", "ANTHROPIC_API_KEY", "OPENAI_API_KEY", "DATABASE_URL"])
def test_a_test_of_a_model_sends_no_key_where_nobody_allowed_it(provider: str, key: str) -> None:
    with WireServer(lambda seen: CALLED) as server:
        tried = model_tests.try_model(row(server, provider, key))
        assert not got(server)
        assert not server.heads, "not even the address is asked"
    assert not tried.works
    assert key in tried.lines[0]


def test_a_run_ends_before_a_person_and_spends_no_repair() -> None:
    with WireServer(lambda seen: CALLED) as server:
        run = submit(row(server))
        drive_on(run)
        assert not server.heads
    failed = facts(run, "ModelFailed")
    assert [fact.code for fact in failed] == ["address_not_allowed"]
    assert "A superuser can allow it" in failed[0].message
    assert not facts(run, "RepairStarted")
    assert not facts(run, "BackoffStarted")
    assert run.status in ("waiting", "escalated", "failed")


def test_meanings_are_not_asked_for_there_either() -> None:
    from loops.engine.ports import ModelError
    from loops.llm.embeddings import connected

    with WireServer(lambda seen: CALLED) as server:
        row(server)
        with pytest.raises(ModelError, match="ODD_KEY is not sent"):
            connected(models.model_configs(), "own")(["a"])
        assert not server.heads


def test_a_fork_and_the_command_line_have_the_same_rule() -> None:
    with WireServer(lambda seen: CALLED) as server:
        row(server)
        out = StringIO()
        with pytest.raises(CommandError):
            call_command("agentops", "test-model", "own", stdout=out)
        assert not server.heads
    assert "ODD_KEY is not sent to" in out.getvalue()


@pytest.mark.spec("T3")
def test_what_the_environment_itself_says_needs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with WireServer(lambda seen: CALLED, key=SECRET) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.openai_url)
        monkeypatch.delenv("ANTHROPIC_API_KEY")
        out = StringIO()
        call_command("agentops", "init", stdout=out)
        assert got(server)
    assert "Tool use: yes" in out.getvalue()


@pytest.mark.parametrize(
    ("provider", "base_url", "key", "allowed"),
    [
        ("anthropic", "", "ANTHROPIC_API_KEY", True),
        ("anthropic", "https://API.anthropic.com:443/", "ANTHROPIC_API_KEY", True),
        ("openai", "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", True),
        ("anthropic", "", "OPENAI_API_KEY", False),
        ("anthropic", "", "DATABASE_URL", False),
        ("anthropic", "http://api.anthropic.com", "ANTHROPIC_API_KEY", False),
        ("anthropic", "https://api.anthropic.com:8443", "ANTHROPIC_API_KEY", False),
        ("anthropic", "https://api.anthropic.com.evil.example", "ANTHROPIC_API_KEY", False),
        ("anthropic", "https://api.anthropic.com@evil.example", "ANTHROPIC_API_KEY", False),
        ("anthropic", "https://evil.example\\@api.anthropic.com", "ANTHROPIC_API_KEY", False),
        ("openai", "http://169.254.169.254/v1", "", False),
        ("openai", "http://[::ffff:169.254.169.254]/v1", "", False),
        ("openai", "http://127.0.0.1:11434/v1", "", True),
        ("scripted", "", "", True),
    ],
)
def test_which_key_belongs_where(provider: str, base_url: str, key: str, allowed: bool) -> None:
    made = make.model(provider=provider, base_url=base_url, api_key_env=key)
    config = models.model_configs({key: SECRET} if key else {})[made.name]
    assert (not config.refused) is allowed
    assert bool(config.api_key) is (allowed and bool(key))


@pytest.fixture
def of_first_start(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    """The model that a first start makes beside the README's own line; whoever uses it has no such line."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with WireServer(lambda seen: CALLED) as server:
        models.ensure_default_models({"OPENAI_BASE_URL": server.openai_url, "AGENTOPS_OPENAI_MODEL": "m"})
        yield server


def test_a_model_without_a_key_is_asked_beside_the_line_that_made_it(of_first_start: WireServer) -> None:
    out = StringIO()
    call_command("agentops", "test-model", models.OPENAI, stdout=out)
    assert "Tool use: yes" in out.getvalue()
    assert of_first_start.heads


@pytest.mark.usefixtures("of_first_start")
@pytest.mark.parametrize(("name", "value"), [("OPENAI_API_KEY", SECRET), ("AGENTOPS_HELD", "OTHER,OPENAI_API_KEY")])
def test_a_key_that_is_there_is_sent_nowhere_unasked(name: str, value: str) -> None:
    """The control: with a value to send, here or in the worker, the address has to be allowed."""
    made = ModelConfig.objects.get(name=models.OPENAI)
    assert keys_of_models.Book({name: ""}).refusal(made) == ""
    assert "OPENAI_API_KEY is not sent to" in keys_of_models.Book({name: value}).refusal(made)


@pytest.mark.parametrize(
    ("key", "base_url", "answer"),
    [
        ("OPENAI_API_KEY", "", "allowed"),
        ("OPENAI_API_KEY", "https://one.example/v1", "needs a superuser"),
        ("ODD_KEY", "https://allowed.example/v1", "allowed"),
        ("ODD_KEY", "https://one.example/v1", "needs a superuser"),
        ("", "https://one.example/v1", "allowed"),
        ("DATABASE_URL", "https://one.example/v1", "never"),
        ("ODD_KEY", "ftp://one.example/v1", "never"),
        ("ODD_KEY", "http://169.254.169.254/v1", "never"),
    ],
)
@pytest.mark.parametrize("vetted", [True, False])
def test_both_doors_have_one_rule(key: str, base_url: str, answer: str, *, vetted: bool) -> None:
    """What is refused in use is what saving asks about, and the other way round."""
    ModelAddress.objects.create(key_name="ODD_KEY", origin="https://allowed.example:443", inward=True)
    made = ModelConfig(provider="openai", api_key_env=key, base_url=base_url, vetted=vetted)
    if not vetted and base_url and answer == "allowed":
        answer = "needs a superuser"
    environ = {key: SECRET}
    refused = keys_of_models.Book(environ).refusal(made)
    try:
        said = "needs a superuser" if keys_of_models.has_to_be_allowed(made, environ) else "allowed"
    except ValueError:
        said = "never"
    assert said == answer
    assert bool(refused) is (answer != "allowed")
    assert ("A superuser can allow it" in refused) is (answer == "needs a superuser")


# --- Where connections go -------------------------------------------------------------------------------------------


@pytest.fixture
def name_server(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Names that lead where a test says."""
    says: dict[str, str] = {PUBLIC: "127.0.0.1"}
    real = socket.getaddrinfo

    def answer(host: Any, *args: Any, **more: Any) -> Any:
        return real(says.get(host, host), *args, **more)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    return says


@pytest.mark.usefixtures("name_server")
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_public_name_that_leads_inward_after_it_was_allowed_is_not_connected_to(provider: str) -> None:
    with WireServer(lambda seen: CALLED) as server:
        port = server.url.rpartition(":")[2]
        made = row(server, provider, base_url=f"http://{PUBLIC}:{port}/v1")
        ModelAddress.objects.create(key_name="ODD_KEY", origin=f"http://{PUBLIC}:{port}")
        tried = model_tests.try_model(made)
        assert not server.heads
        assert "no public address" in tried.lines[0]
        ModelAddress.objects.update(inward=True)
        assert model_tests.try_model(made).works, "unless a superuser said that it may"


@pytest.mark.usefixtures("name_server")
def test_nor_by_whoever_asks_for_meanings() -> None:
    from loops.engine.ports import ModelError

    with WireServer(lambda seen: CALLED) as server:
        port = server.url.rpartition(":")[2]
        row(server, base_url=f"http://{PUBLIC}:{port}/v1", key="")
        with pytest.raises(ModelError, match="no public address"):
            Embeddings(models.model_configs()["own"])(["a"])
        assert not server.heads


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [302, 307, 308])
def test_an_answer_leads_no_key_to_another_server(provider: str, status: int) -> None:
    with WireServer(lambda seen: CALLED) as thief:
        with WireServer(lambda seen: Raw(status, {"location": f"{thief.url}{seen.path}"}, "")) as server:
            made = row(server, provider)
            ModelAddress.objects.create(key_name="ODD_KEY", origin=server.url)
            tried = model_tests.try_model(made)
            assert got(server)
        assert not thief.heads
    assert "gets no key" in tried.lines[0]


# --- Saving ---------------------------------------------------------------------------------------------------------


@pytest.mark.spec("X7")
@pytest.mark.parametrize("page", ["add", "change", "delete", "changelist"])
@pytest.mark.parametrize("model", ["modelconfig", "complexityprofile", "breakerrule", "modeladdress"])
def test_a_project_admin_changes_nothing_that_holds_for_everybody(project_admin: Client, model: str, page: str) -> None:
    own = make.model(name="own", provider="openai", api_key_env="OPENAI_API_KEY")
    ModelAddress.objects.create(key_name="A_KEY", origin="https://a.example:443")
    BreakerRule.objects.create(kind="model")
    kind = apps.get_model("loops", model)
    row = own if model == "modelconfig" else kind.objects.first()
    before = list(kind.objects.values())
    where = url(model, page, row.pk) if page in ("change", "delete") else url(model, page)
    marks = {"action": "delete_selected", "_selected_action": str(row.pk), "post": "yes", "reason": "r"}
    answer = project_admin.post(where, form("https://evil.example/v1", send_there="on") | marks)
    assert answer.status_code == 403
    assert list(kind.objects.values()) == before
    assert AuditEvent.objects.filter(kind="access.refused", actor__username="delegate").count() == 1


@pytest.mark.parametrize("model", ["modelconfig", "complexityprofile", "breakerrule"])
def test_a_project_admin_sees_what_holds_for_everybody(project_admin: Client, model: str) -> None:
    make.model(name="own")
    BreakerRule.objects.create(kind="model")
    first = apps.get_model("loops", model).objects.first()
    assert project_admin.get(url(model, "changelist")).status_code == 200
    shown = project_admin.get(url(model, "change", first.pk))
    assert shown.status_code == 200
    assert 'name="_save"' not in shown.content.decode()
    assert "save_and_test" not in shown.content.decode()


def test_a_superuser_says_where_a_key_goes_and_it_is_recorded(root: Client) -> None:
    with WireServer(lambda seen: CALLED, key=SECRET) as server:
        refused = root.post(url("modelconfig", "add"), form(server.openai_url))
        assert "would be sent to http://127.0.0.1" in refused.content.decode()
        assert not ModelConfig.objects.filter(name="own").exists()
        assert root.post(url("modelconfig", "add"), form(server.openai_url, send_there="on")).status_code == 302
        assert model_tests.try_model(ModelConfig.objects.get(name="own")).works
        allowed = ModelAddress.objects.get()
        assert (allowed.key_name, allowed.origin, allowed.allowed_by.username) == ("ODD_KEY", server.url, "root")
        event = AuditEvent.objects.get(kind="model.address_allowed")
        assert (event.actor.username, event.detail["key"], event.detail["address"]) == ("root", "ODD_KEY", server.url)
        root.post(url("modeladdress", "delete", allowed.pk), {"post": "yes"})
        assert not model_tests.try_model(ModelConfig.objects.get(name="own")).works
    assert AuditEvent.objects.filter(kind="model.address_refused").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"api_key_env": "DATABASE_URL"}, "no key of a model"),
        ({"api_key_env": "SECRET_KEY"}, "no key of a model"),
        ({"base_url": "http://name:word@127.0.0.1/v1"}, "no name and no password"),
        ({"base_url": "ftp://127.0.0.1/v1"}, "starts with https"),
        ({"base_url": "http://169.254.169.254/v1"}, "of the network itself"),
    ],
)
def test_some_nobody_can_allow(root: Client, change: dict[str, str], said: str) -> None:
    shown = root.post(url("modelconfig", "add"), form("http://127.0.0.1:9/v1", send_there="on", **change))
    assert said in shown.content.decode()
    assert not ModelConfig.objects.filter(name="own").exists()
    assert not ModelAddress.objects.exists()


@pytest.mark.usefixtures("name_server")
def test_a_public_name_that_leads_inward_takes_a_tick(root: Client) -> None:
    given = form(f"http://{PUBLIC}:9/v1", api_key_env="")
    assert "into a network of your own" in root.post(url("modelconfig", "add"), given).content.decode()
    assert root.post(url("modelconfig", "add"), {**given, "send_there": "on"}).status_code == 302
    assert ModelAddress.objects.get().inward


def test_two_admins_at_once_allow_what_both_saw_and_nothing_else() -> None:
    """One pairs the key with one address, the other moves the model to another: no third pair comes of it."""
    made = make.model(name="own", provider="openai", api_key_env="ODD_KEY", base_url="https://one.example/v1")
    clients = [Client(), Client()]
    for number, client in enumerate(clients):
        client.force_login(make.superuser(f"root{number}"))
    sends = [form("https://one.example/v1", send_there="on"), form("https://two.example/v1", api_key_env="")]
    start, answers = threading.Barrier(2), [0, 0]

    def save(number: int) -> None:
        start.wait()
        answers[number] = clients[number].post(url("modelconfig", "change", made.pk), sends[number]).status_code
        connections.close_all()

    for _ in range(4):
        threads = [threading.Thread(target=save, args=(number,)) for number in range(2)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert answers == [302, 302]
        config = models.model_configs()["own"]
        assert not config.api_key or config.base_url == "https://one.example/v1"
    assert [str(one) for one in ModelAddress.objects.all()] == ["ODD_KEY to https://one.example:443"]


# --- An installation of before --------------------------------------------------------------------------------------


def test_an_upgrade_keeps_what_superusers_set_up_and_names_the_rest() -> None:
    """Also one whose log is gone with the account of whoever made it."""
    boss, delegate = make.superuser("boss"), make.user("delegate")
    kind = ContentType.objects.get_for_model(ModelConfig)

    def model(name: str, *by: Any, **fields: Any) -> None:
        made = make.model(name=name, provider="openai", **fields)
        for person in by:
            LogEntry.objects.create(user=person, content_type=kind, object_id=str(made.pk), action_flag=ADDITION)

    model("own", boss, base_url="http://vllm.corp.example/v1", api_key_env="ODD_KEY")
    model("keyless", boss, base_url="http://vllm.corp.example/v1")
    model("local", base_url="http://127.0.0.1:11434/v1")
    model("provider", boss, delegate, api_key_env="OPENAI_API_KEY")
    model("router", delegate, base_url="https://openrouter.ai/api/v1", api_key_env="OPENROUTER_API_KEY")
    model("stolen", delegate, base_url="https://evil.example/v1", api_key_env="ANTHROPIC_API_KEY")
    model("listener", delegate, base_url="https://evil.example/v1")
    model("moved", boss, delegate, base_url="https://evil.example/v1")
    model("orphan", base_url="https://evil.example/v1", api_key_env="ANTHROPIC_API_KEY")
    importlib.import_module("loops.migrations.0026_model_addresses").carry_over(apps, None)
    configs = models.model_configs()
    refused = {"stolen", "listener", "moved", "orphan"}
    assert {name for name, config in configs.items() if config.refused} == refused
    assert configs["own"].inward
    check = next(check for check in checks.standing() if check.name == "model addresses")
    assert check.status == "warning"
    assert all(name in check.said for name in refused)
    assert "local" not in check.said
    assert "Admin, Models" in check.todo


def test_doctor_says_that_all_models_may_be_asked() -> None:
    assert ComplexityProfile.objects.exists()
    assert next(check for check in checks.standing() if check.name == "model addresses").status == "ok"

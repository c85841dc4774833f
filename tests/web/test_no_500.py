"""No address answers 500, whatever stands in its places: tried as somebody who may do everything.

Addresses come from the table that Django routes by, parameters from the code that reads them, from filters and from the
input serializers; what is put there is what programs and people never send.
"""

from __future__ import annotations

import ast
import base64
import inspect
import json
import logging
import re
import urllib.parse
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from rest_framework.fields import Field
from rest_framework.serializers import BaseSerializer, ValidationError

from agentops.urls import admin
from gates.api import serializers
from loops.api import configuration_shapes as shapes
from loops.api import forks, inputs, tokens
from loops.models import AccessRule, Policy, Workspace
from tests import factories as make
from tests.addresses import Address, addresses

pytestmark = [pytest.mark.django_db, pytest.mark.spec("X7", "J4")]


def cursor(position: str) -> str:
    return base64.b64encode(position.encode()).decode()


TEXTS = {
    "NUL": "%00",
    "lone surrogate": "%ED%A0%80",
    "no UTF-8": "%FF%FE",
    "long": "a" * 2800,  # above what an index of Postgres holds
    "huge number": "9" * 400,
    "below zero": "-1",
    "no number": "1e400",
    "other digits": "%D9%A3%D9%A3",
    "deep": "[" * 1300,  # above what Python calls
    "percent": "%25%5F%5C%27%22%3B--",
    "cursor NUL": urllib.parse.quote(cursor("p=%00")),
    "cursor of no place": urllib.parse.quote(cursor("o=-5&p=x")),
    "cursor back": urllib.parse.quote(cursor("r=1&p=%ED%A0%80")),
    "cursor date": urllib.parse.quote(cursor("p=2026-99-99T99:99")),
    "cursor far": urllib.parse.quote(cursor("o=999999999999&p=")),
    "place endless": urllib.parse.quote(cursor('[Infinity, "x", "x"]')),
    "place deep": urllib.parse.quote(cursor("[" * 1300)),
    "empty": "",
    "uuid": "00000000-0000-0000-0000-000000000007",
    "next line": "%0A%0D",
}
VALUES: list[Any] = [
    None, True, -1, 2**70, 1e308, "", "\0", "\ud800", "a" * 300_000, [], {}, [[]], [None], {"a": None}, {"\0": "\0"},
    [{"text": "\0", "command": "\0"}], {"\ud800": 1}, json.loads("[" * 60 + "]" * 60), "٣", "2026-99-99", "=1+1",
]  # fmt: skip
BODIES = [b"", b"\xff\xfe", b"\x00", b"[" * 5000, b"{" * 70, b'{"a":' * 100, b'"\\ud800"', b"null", b"1", b'{"a":NaN}']
NOT_ALLOWED = 405
"""Whatever else is sent in this way is not read."""
MOST = 6000
"""Characters of a query."""
TYPES = ["application/json", "text/plain", "application/x-www-form-urlencoded", "application/json; charset=x-none", ""]


@pytest.fixture
def everything(house: Any, settings: Any) -> dict[str, Any]:
    """A superuser, and a run with a gate and steps to ask about."""
    logging.getLogger("django.request").setLevel(logging.CRITICAL)
    make.step(house.run, 1)
    gate = make.gate(house.run)
    client = Client(raise_request_exception=False)
    client.force_login(house.admin)
    rows = {
        "workspace": Workspace.objects.create(project=house.project, name="w").pk,
        "agent": house.run.agent_id,
        "model": house.run.agent.actor_model.name,
        "rule": AccessRule.objects.filter(project=house.project)[0].pk,
        "policy": Policy.objects.get(project=house.project).pk,
    }
    return {**rows, "client": client, "run": house.run.pk, "gate": gate.pk, "digest": gate.digest, "house": house}


def names_read(address: Address) -> list[str]:
    """Parameters that the module behind an address reads, and those of its filter."""
    view = address.api_view or inspect.unwrap(address.view)
    source = inspect.getsource(inspect.getmodule(view) or view)
    names = set(re.findall(r'(?:GET|POST|query_params|typed|post)\.?(?:get|getlist)?[\[(]"(\w+)"', source))
    return sorted(names | {"cursor", "page_size", "after", "limit", "before", "format", "next", "q"})


def names_sent(address: Address) -> list[str]:
    """The same, and words that stand together in its source: forms are read by going through such a row of names."""
    module = inspect.getmodule(inspect.unwrap(address.view))
    rows = [node for node in ast.walk(ast.parse(inspect.getsource(module))) if isinstance(node, ast.Tuple)]
    words = {each.value for row in rows for each in row.elts if isinstance(each, ast.Constant)}
    named = {word for word in words if isinstance(word, str) and re.fullmatch(r"[a-z_]+", word)}
    return sorted(named | set(names_read(address)))


def filled(address: Address, everything: dict[str, Any], **more: Any) -> str:
    ids = {"run_id": everything["run"], "pk": everything["run"], "one_id": everything["run"]}
    if "gates/" in address.path:
        ids |= {"pk": everything["gate"], "gate_id": everything["gate"]}
    whole = {"uuid": everything["run"], "gate_id": everything["gate"], "int": 1, "str": "x", "slug": "x", **ids}
    return address.filled(**{**whole, **more})


class Tried:
    """Asks, takes back what was written, and remembers what went wrong."""

    def __init__(self, client: Client) -> None:
        self.client, self.count, self.cookies = client, 0, client.cookies.copy()
        self.wrong: dict[str, int] = {}

    def ask(self, what: str, path: str, body: Any = b"", method: str = "GET", media_type: str = TYPES[2]) -> int:
        self.count += 1
        self.client.cookies = self.cookies.copy()  # whoever logs out comes back
        with transaction.atomic():
            answer = self.client.generic(method, path, body, content_type=media_type)
            try:
                if answer.streaming:  # type: ignore[attr-defined]
                    b"".join(answer.streaming_content)  # type: ignore[attr-defined]
                status = answer.status_code
            except Exception:  # a stream that breaks is as bad
                status = 599
            transaction.set_rollback(True)
        if status >= 500:
            self.wrong[f"{method} {path.partition('?')[0][:80]} {what}"] = status
        return status


def test_places_of_addresses(everything: dict[str, Any]) -> None:
    tried = Tried(everything["client"])
    numbers = ("0", "2147483648", "9223372036854775808", "9" * 300)
    for address in addresses():
        for name, converter in address.converters.items():
            kind = type(converter).__name__
            values = numbers if kind.startswith("Int") else TEXTS.values() if kind.startswith(("Str", "Slug")) else ()
            for value in values:
                for method in ("GET", "POST"):
                    tried.ask(f"{name}={value[:12]}", filled(address, everything, **{name: value}), method=method)
    assert not tried.wrong
    assert tried.count > 100


def filters_of(address: Address) -> list[str]:
    kwargs = getattr(address.view, "initkwargs", {})
    narrowed = kwargs.get("filterset_class", getattr(address.api_view, "filterset_class", None))
    return list(narrowed.base_filters) if narrowed else []


def queries_of(names: list[str], value: str) -> list[str]:
    """As many of the parameters at once as an address has room for."""
    each = 1 + MOST // (len(value) + 20)
    return ["&".join(f"{name}={value}" for name in names[first : first + each]) for first in range(0, len(names), each)]


@pytest.mark.parametrize("of_api", [True, False])
def test_parameters_of_what_is_read(everything: dict[str, Any], of_api: bool) -> None:
    tried = Tried(everything["client"])
    for address in addresses():
        if address.of_api is not of_api:
            continue
        path, names = filled(address, everything), names_read(address)
        if tried.ask("nothing", path) == NOT_ALLOWED:
            continue
        for what, value in TEXTS.items():
            if what.startswith("cursor") and not of_api:
                continue  # pages go on by `after` and `before`
            asked = ["cursor"] if what.startswith("cursor") else names
            for query in queries_of(asked, value):
                tried.ask(what, f"{path}?{query}")
        for name in filters_of(address):
            for what in ("lone surrogate", "no UTF-8", "huge number", "other digits", "deep"):
                tried.ask(f"{name} {what}", f"{path}?{name}={TEXTS[what]}")
    assert not tried.wrong
    assert tried.count > 500


def test_fields_of_what_is_sent_to_pages(everything: dict[str, Any]) -> None:
    tried = Tried(everything["client"])
    house = everything["house"]
    sane = {"project": house.project.pk, "agent": house.run.agent_id, "goal": "x", "digest": everything["digest"]}
    sane |= {"verdict": "reject", "item": f"{everything['gate']}:{everything['digest']}"}
    for address in addresses():
        if address.of_api:
            continue
        path, names = filled(address, everything), names_sent(address)
        if tried.ask("nothing", path, method="POST") == NOT_ALLOWED:
            continue
        for name in names:
            one = {**dict.fromkeys(names, ""), **sane, name: "%00"}
            tried.ask(f"{name} NUL", path, "&".join(f"{key}={one[key]}" for key in names), "POST")
        for what, value in TEXTS.items():
            hostile = "&".join(f"{name}={value}" for name in names)
            tried.ask(f"all {what}", path, hostile, "POST")
            if sane.keys() & set(names):
                kept = "&".join(f"{name}={sane.get(name, value)}" for name in names)
                tried.ask(f"the rest {what}", path, kept, "POST")
        for body in BODIES:
            tried.ask(repr(body[:9]), path, body, "POST")
    assert not tried.wrong


def changers() -> Iterator[tuple[str, type[BaseSerializer[Any]]]]:
    """Addresses of the API that take a change of a row, with its shape."""
    yield "/api/v1/workspaces/{workspace}/", shapes.WorkspaceChange
    yield "/api/v1/agents/{agent}/", shapes.AgentChange
    yield "/api/v1/models/{model}/", shapes.ModelChange
    yield "/api/v1/access-rules/{rule}/", shapes.AccessRuleChange
    yield "/api/v1/policies/{policy}/", shapes.PolicyChange


def takers() -> Iterator[tuple[str, type[BaseSerializer[Any]]]]:
    """Addresses of the API that take a body, with its shape."""
    yield "/api/v1/workspaces/", shapes.WorkspaceInput
    yield "/api/v1/agents/", shapes.AgentInput
    yield "/api/v1/models/", shapes.ModelChange
    yield "/api/v1/access-rules/", shapes.AccessRuleInput
    yield "/api/v1/tasks/", inputs.TaskInput
    yield "/api/v1/runs/{run}/steer/", inputs.SteerInput
    yield "/api/v1/runs/{run}/rollback/", inputs.RollbackInput
    yield "/api/v1/runs/{run}/messages/", inputs.MessageInput
    yield "/api/v1/runs/{run}/fork/", forks.ForkInput
    yield "/api/v1/gates/{gate}/decide/", serializers.DecisionInput
    yield "/api/v1/me/token/", tokens.TokenInput


def test_every_shape_that_is_taken_is_among_them() -> None:
    shaped = {shape for _, shape in (*takers(), *changers())} | {
        inputs.Strict,
        inputs.CriterionInput,
        inputs.LimitsInput,
    }
    found = {
        each
        for module in (inputs, forks, tokens, serializers, shapes)
        for each in vars(module).values()
        if inspect.isclass(each)
    }
    assert {each for each in found if each.__name__.endswith(("Input", "Change"))} <= shaped


def is_refused(field: Field[Any, Any, Any, Any], value: Any) -> bool:
    """Whether the field alone says no: such values reach nothing behind it, so those of all fields are sent at once."""
    try:
        field.run_validation(json.loads(json.dumps(value)))
    except ValidationError:
        return True
    except Exception:  # sent alone, it will be a 500 that names it
        return False
    return False


def test_fields_of_what_is_sent_to_the_api(everything: dict[str, Any]) -> None:
    tried = Tried(everything["client"])
    house = everything["house"]
    sane: dict[str, Any] = {"project": house.project.pk, "agent": house.run.agent_id, "goal": "x", "text": "Hello"}
    sane |= {"verdict": "approve", "digest": everything["digest"], "action": "pause", "step": 0}
    sane |= {"name": "n", "agent_type": "a", "models": {"actor": everything["model"]}, "reason": "r", "access": "ask"}
    sane |= {"provider": "anthropic", "model_id": "m", "operation": "read"}
    asked = [(path, shape, "POST") for path, shape in takers()]
    asked += [(path, shape, "PATCH") for path, shape in changers()]
    for path, shape, method in asked:
        where = path.format(**everything)
        fields = shape().fields
        right = {field: sane[field] for field in fields if field in sane}
        for value in VALUES:
            refused = {name: value for name, field in fields.items() if is_refused(field, value)}
            alone = [{name: value} for name in fields if name not in refused]
            for wrong in [refused, *alone]:
                sent = json.dumps(right | wrong).encode()
                tried.ask(f"{', '.join(wrong)}={value!r:.20}", where, sent, method, "application/json")
        for body in BODIES:
            for media_type in TYPES:
                tried.ask(f"{body[:9]!r} as {media_type}", where, body, method, media_type)
    assert not tried.wrong


def test_lists_and_forms_of_the_admin(everything: dict[str, Any]) -> None:
    tried = Tried(everything["client"])
    keys = ("_00", "%00", "%ED%A0%80", "x", "9" * 400, "_5F_00")
    together = ("q={0}&o={0}&_facets={0}", "p={0}", "id__exact={0}", "project__id__exact={0}")
    """What a list makes the best of comes at once; of the others one would hide the next."""
    queries = [one.format(value) for one in together for value in ("%00", "%ED%A0%80", "9" * 400, "-1", "x")]
    for model in admin.site._registry:
        base = f"/admin/{model._meta.app_label}/{model._meta.model_name}"
        for query in queries:
            tried.ask(query[:30], f"{base}/?{query}")
        for key in keys:
            tried.ask("", f"{base}/{key}/change/")
            tried.ask("", f"{base}/{key}/history/")
        tried.ask("form", f"{base}/add/", "&".join(f"{name.name}=%00" for name in model._meta.fields), "POST")
    assert not tried.wrong

"""The API does what its own description says, and never answers 500: Schemathesis makes requests from the description,
good ones and bad ones, and holds each answer against it: status, media type and body.

Cases are made before the database is asked for anything: they take longer than a transaction may stand idle.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.http import HttpResponse
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from rest_framework.response import Response
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from gates.models import Decision
from loops.api import views
from loops.engine import facts as f
from loops.engine.encoding import canonical
from loops.ids import new_id
from loops.models import (
    AccessRule,
    Artifact,
    Blob,
    Breaker,
    BreakerEvent,
    Detection,
    Policy,
    Preflight,
    ProvenanceRecord,
    Run,
    Workspace,
)
from loops.services.tokens import new_token
from tests import factories as make
from tests.integration.api.test_conversations import stored
from tests.web import story

pytestmark = pytest.mark.spec("T2", "X7")
OF_EACH_KIND = 2
"""Requests of an operation that its description permits, and as many that it does not."""
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
quick = settings(
    max_examples=OF_EACH_KIND,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@functools.cache
def site() -> WSGIHandler:
    return WSGIHandler()


def made_of(operation: Any) -> Iterator[Any]:
    """Cases of one operation, the same in every run."""
    asks = operation.path_parameters or operation.query or operation.body
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE) if asks else (GenerationMode.POSITIVE,):
        yield from _made(operation.as_strategy(generation_mode=mode))


def _made(strategy: Any) -> list[Any]:
    made: list[Any] = []

    @quick
    @given(strategy)
    def keep(case: Any) -> None:
        made.append(case)

    with contextlib.suppress(Unsatisfiable):  # where any text is permitted
        keep()
    return made


@pytest.fixture(scope="module")
def cases() -> list[Any]:
    described = json.loads(json.dumps(SchemaGenerator().get_schema(request=None, public=True), default=str))
    operations = schemathesis.openapi.from_dict(described).get_all_operations()
    return [numbered for operation in operations for numbered in enumerate(made_of(operation.ok()))]


@dataclass
class Asking:
    """Sends cases as one person, and remembers what was not as described, by operation."""

    known: dict[str, dict[str, Any]]
    token: str = ""
    wrong: dict[str, str] = field(default_factory=dict)
    statuses: dict[str, set[int]] = field(default_factory=dict)

    def ask(self, cases: list[Any]) -> None:
        for number, case in cases:
            self._ask(case if number % 2 else self._of_what_there_is(case))

    def _ask(self, case: Any) -> None:
        headers = {"Authorization": f"Token {self.token}"} if self.token else {}
        with transaction.atomic():
            answer = case.call(app=site(), headers=headers)
            transaction.set_rollback(True)
        self.statuses.setdefault(case.operation.label, set()).add(answer.status_code)
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as found:
            self.wrong[case.operation.label] = f"{answer.status_code}: " + "; ".join(map(str, found.exceptions))

    def _of_what_there_is(self, case: Any) -> Any:
        """The same request about rows that exist, in place of ids and names that nothing has."""
        known = next(ids for start, ids in self.known.items() if case.path.startswith(start))
        places = {name: known.get(name, value) for name, value in (case.path_parameters or {}).items()}
        body, headers = case.body, dict(case.headers or {})
        if isinstance(body, dict):
            body = {name: known.get(name, value) for name, value in body.items()}
        if case.method == "GET":
            headers["Accept"] = next(iter(case.operation.definition.raw["responses"]["200"]["content"]))
        parts = {"cookies": case.cookies, "query": case.query, "media_type": case.media_type}
        return case.operation.Case(path_parameters=places, headers=headers, body=body, **parts)


@pytest.fixture
def known(world: Any, caplog: pytest.LogCaptureFixture) -> dict[str, dict[str, Any]]:
    """A run that has something of everything, and what else there is to ask about, by where an address begins."""
    caplog.set_level(logging.CRITICAL, "django.request")
    run, other = world.run(), world.run()
    facts = stored(run, 20)
    pruned = next(at for at, fact in enumerate(facts, 1) if isinstance(fact, f.ContextPruned))
    make.step(run, 1)
    make.tool_call(run, 1, data={"passed": 1})
    story.tell(other)
    now = timezone.now()
    ProvenanceRecord.objects.create(run=run, body=canonical.encode({"a": 1}), prev=b"", hash=b"\1", created_at=now)
    Run.objects.filter(pk=run.pk).update(status="completed", completed_at=now)
    sha256 = "ab" * 32
    Blob.objects.create(sha256=sha256, size=3, body=b"abc")
    Artifact.objects.create(run=run, seq=1, name="output", sha256=sha256, size=3)
    Detection.objects.create(run=run, at=now, kind="loop", method="hash", steps=[1, 2], confidence=1.0, seq=3)
    breaker = Breaker.objects.create(kind="tool", name="fetch_url", status="open", opened_at=now, changed_at=now)
    BreakerEvent.objects.create(id=new_id(), at=now, what="opened", kind="tool", name="fetch_url", run=run.pk)
    gate, decided = make.gate(run), make.gate(other, status="rejected")
    decision = Decision.objects.create(gate=decided, verdict="reject", digest=decided.digest, decided_by=world.reviewer)
    told = {"id": run.pk, "other": other.pk, "seq": pruned, "sent": 1, "sha256": sha256, "text": "Hello", "step": 0}
    task = {"id": run.task_id, "project": world.project.slug, "agent": world.agent.name, "workspace": "", "goal": "x"}
    tried = Preflight.objects.create(project=world.project, agent_type="general", asked_by=world.root, until=now)
    criteria = [{"text": "It holds", "command": "true"}]
    mine = {"project": world.project.slug, "reason": "r"}
    of_model = {"name": world.agent.actor_model.name, "provider": "anthropic", "fallback": None}
    return {
        "/api/v1/workspaces/": {**mine, "id": str(Workspace.objects.create(project=world.project, name="w").pk)},
        "/api/v1/access-rules/": {**mine, "id": str(AccessRule.objects.filter(project=world.project)[0].pk)},
        "/api/v1/policies/": {**mine, "id": str(Policy.objects.get(project=world.project).pk)},
        "/api/v1/preflights/": {**task, "id": str(tried.pk), "criteria": criteria},
        "/api/v1/runs/": {key: str(value) if key in ("id", "other") else value for key, value in told.items()},
        "/api/v1/gates/": {"id": str(gate.pk), "digest": gate.digest},
        "/api/v1/decisions/": {"id": str(decision.pk)},
        "/api/v1/breakers/": {"id": str(breaker.pk)},
        "/api/v1/models/": of_model,
        "/api/v1/projects/": {"id": str(world.project.pk)},
        "/api/v1/agents/": {**mine, "id": str(world.agent.pk)},
        "/api/v1/tasks/": {**task, "id": str(run.task_id)},
        "/api/v1/me/": {"id": str(new_token(actor=world.root, user=world.root)[1].pk)},
    }


@pytest.fixture
def asking(cases: list[Any], world: Any, known: Any) -> Iterator[Any]:
    """Requests are part of the test's transaction, as with Django's own client: none of them ends its connection."""

    def of(who: str) -> Asking:
        return Asking(known, who and new_token(actor=world.root, user=getattr(world, who), name="asks")[0])

    signals = (request_started, request_finished)
    for signal in signals:
        signal.disconnect(close_old_connections)
    yield of
    for signal in signals:
        signal.connect(close_old_connections)


@pytest.mark.parametrize("who", ["root", "viewer", ""])
def test_every_operation_answers_as_it_is_described(cases: list[Any], asking: Any, who: str) -> None:
    tried = asking(who)
    tried.ask(cases)
    assert not tried.wrong
    assert len(tried.statuses) > 35
    if who:
        unreached = [label for label, found in tried.statuses.items() if label.startswith("GET") and 200 not in found]
        about_files = ["/gates/{id}/file/", "/runs/{id}/patch/", "/runs/{id}/pull-request/", "/runs/{id}/rollback/"]
        operators = ["/runs/{id}/apply/", "/runs/{id}/commit/", "/runs/{id}/push/", "/preflights/{id}/"]
        operators += ["/workspaces/{id}/", "/workspaces/{id}/setup/", "/workspaces/{id}/toml/"]
        operators = operators if who == "viewer" else []
        assert set(unreached) == {f"GET /api/v1{path}" for path in [*about_files, *operators]}, "need changed files"


def fails(*_: Any, **__: Any) -> Response:
    raise ZeroDivisionError


FAULTS: dict[str, Callable[..., Any]] = {
    "Server error": fails,
    "Undocumented status code": lambda *_, **__: Response({}, status=418),
    "Undocumented Content-Type": lambda *_, **__: HttpResponse("<p>Hello", content_type="text/html"),
    "Response violates schema": lambda *_, **__: Response({"username": 1}),
}


def test_a_view_that_does_not_as_it_is_described_is_found(
    cases: list[Any], asking: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_one = [(number, case) for number, case in cases if case.path == "/api/v1/me/"]
    for said, planted in FAULTS.items():
        tried = asking("root")
        monkeypatch.setattr(views.Me, "get", planted)
        tried.ask(of_one)
        assert said in tried.wrong["GET /api/v1/me/"]

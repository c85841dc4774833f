"""The journals and gatekeepers that one suite is held against: the fake of the unit tests and the real one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

import pytest

from loops.engine import facts as f
from loops.engine import ports as p
from tests import decisions, fakes
from tests.integration.storage import owned
from tests.integration.storage.dispatched import app as bells


class JournalRig(Protocol):
    """A journal of a run that has begun, and what a test must be able to do behind its back."""

    journal: p.Journal

    def entries(self, *facts: f.Fact) -> owned.Entries: ...
    def stored(self) -> list[f.Fact]: ...
    def send(self, kind: str, by: str = "", **payload: Any) -> None: ...
    def lose(self) -> None:
        """Another worker becomes the owner."""
        ...

    def rest(self) -> tuple[int, bool]:
        """(wake_at, runnable) of the run as it is stored."""
        ...


class FakeJournal:
    def __init__(self) -> None:
        self.journal = fakes.Journal()
        self.state = None
        start = f.RunStarted(spec=fakes.spec(), system="Be good.", prompt_version="p", tools_sha256="t")
        self.journal.append(owned.entries(None, start))

    def entries(self, *facts: f.Fact) -> owned.Entries:
        from loops.engine.decide import replay

        return owned.entries(replay(self.journal.facts), *facts)

    def stored(self) -> list[f.Fact]:
        return list(self.journal.facts)

    def send(self, kind: str, by: str = "", **payload: Any) -> None:
        self.journal.inbox.append(p.Signal(f"m{len(self.journal.inbox)}-{kind}", kind, payload, by))

    def lose(self) -> None:
        self.journal.lost = True

    def rest(self) -> tuple[int, bool]:
        return self.journal.released[-1] if self.journal.released else (0, False)


class RealJournal:
    def __init__(self) -> None:
        self.owned = owned.begun()
        self.journal = self.owned.journal
        self.people: dict[str, Any] = {"": None}

    def entries(self, *facts: f.Fact) -> owned.Entries:
        from loops.engine.decide import replay

        return owned.entries(replay(self.stored()), *facts)

    def stored(self) -> list[f.Fact]:
        from loops.storage import reader

        return reader.history(self.owned.run.pk)

    def send(self, kind: str, by: str = "", **payload: Any) -> None:
        from loops.storage import inbox
        from tests import factories

        if by not in self.people:
            self.people[by] = factories.user(by)
        inbox.put(self.owned.run.pk, kind, payload, actor=self.people[by])

    def lose(self) -> None:
        owned.lapse(self.owned.run)
        owned.own(self.owned.run, "another")

    def rest(self) -> tuple[int, bool]:
        self.owned.run.refresh_from_db()
        wake: datetime | None = self.owned.run.wake_at
        return (round(wake.timestamp() * 1e6) if wake else 0), self.owned.run.runnable


@pytest.fixture(
    params=[
        pytest.param(FakeJournal, id="fake"),
        pytest.param(RealJournal, id="postgres", marks=pytest.mark.django_db(transaction=True)),
    ]
)
def rig(request: pytest.FixtureRequest, settings: Any) -> JournalRig:
    """A run that has begun, on either journal."""
    settings.AGENTOPS_CELERY = "tests.integration.storage.dispatched.app"
    bells.rung, bells.broken = [], False
    made: Callable[[], JournalRig] = request.param
    return made()


class GateRig(Protocol):
    """A gatekeeper, and the person who approves."""

    keeper: p.Gatekeeper

    def do(self, within: p.Within) -> None: ...
    def request(self, **changes: Any) -> p.GateRequest: ...
    def approve(self, gate_id: str) -> None: ...
    def change(self, gate_id: str) -> None:
        """What would run is not what was approved any more."""
        ...

    def opened(self) -> list[str]: ...


SUBJECT: Mapping[str, Any] = {"tool": "write_file", "arguments": {"path": "a", "content": "b"}}


class FakeGates:
    def __init__(self) -> None:
        self.keeper = fakes.Gatekeeper()
        self.numbers = iter(range(1000))

    def do(self, within: p.Within) -> None:
        within(None)

    def request(self, **changes: Any) -> p.GateRequest:
        given = {"id": f"gate-{next(self.numbers)}", "run_id": fakes.RUN_ID, "project_id": "project"}
        return p.GateRequest(**{**given, "kind": "tool_approval", "title": "?", "subject": SUBJECT, **changes})

    def approve(self, gate_id: str) -> None:
        """In the engine's own tests a decision is a mail; the fake takes every gate that was opened for approved."""

    def change(self, gate_id: str) -> None:
        self.keeper.void = "it changed"

    def opened(self) -> list[str]:
        return [request.id for request in self.keeper.opened]


class RealGates:
    def __init__(self) -> None:
        from gates.gatekeeper import SqlGatekeeper
        from tests.integration.gates.builders import make_world

        self.keeper = SqlGatekeeper()
        self.world = make_world()

    def do(self, within: p.Within) -> None:
        from django.db import connection, transaction

        with transaction.atomic(), connection.cursor() as cursor:
            within(cursor)

    def request(self, **changes: Any) -> p.GateRequest:
        from loops.ids import new_key
        from tests.integration.gates.builders import tool_view

        run = self.world.run
        key = new_key()
        given = {"id": key, "call_id": key, "run_id": str(run.pk), "project_id": run.project_id, "view": tool_view()}
        return p.GateRequest(**{**given, "kind": "tool_approval", "title": "?", "subject": SUBJECT, **changes})

    def approve(self, gate_id: str) -> None:
        from gates.models import Gate

        digest = Gate.objects.get(pk=gate_id).digest
        decisions.decide(actor=self.world.reviewer, gate_id=gate_id, verdict="approve", digest=digest)

    def change(self, gate_id: str) -> None:
        from gates.models import Gate

        Gate.objects.filter(pk=gate_id).update(digest="0" * 64)

    def opened(self) -> list[str]:
        from gates.models import Gate

        return [str(key) for key in Gate.objects.order_by("id").values_list("id", flat=True)]


@pytest.fixture(
    params=[pytest.param(FakeGates, id="fake"), pytest.param(RealGates, id="sql", marks=pytest.mark.django_db)]
)
def gates(request: pytest.FixtureRequest) -> GateRig:
    """Either gatekeeper."""
    made: Callable[[], GateRig] = request.param
    return made()

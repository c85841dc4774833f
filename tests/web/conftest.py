"""People with fixed roles around one project."""

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections
from django.template.loader import get_template
from django.test import Client
from django.urls import get_resolver

from loops.models import Project, Run
from loops.web.live import catch_up
from tests import factories as make
from tests.integration.gates.builders import make_world


@dataclass
class House:
    project: Project
    elsewhere: Project
    operator: Any
    reviewer: Any
    viewer: Any
    outsider: Any
    admin: Any
    run: Run

    def client(self, who: str) -> Client:
        client = Client()
        if who != "anonymous":
            client.force_login(getattr(self, who))
        return client


@pytest.fixture
def house(db: None) -> House:
    """A project with an operator, a reviewer, a viewer and a run; an outsider who works elsewhere."""
    project, elsewhere = make.project("Payments"), make.project("Elsewhere")
    operator = make.user("olga", operator=project)
    return House(
        project=project,
        elsewhere=elsewhere,
        operator=operator,
        reviewer=make.user("rita", reviewer=project),
        viewer=make.user("vera", viewer=project),
        outsider=make.user("otto", operator=elsewhere),
        admin=make.superuser("root"),
        run=make.run(make.task(project, title="Fix the rounding", created_by=operator)),
    )


@pytest.fixture
def live_threads(everything_imported: None) -> Iterator[None]:
    """In the end the threads of the live trace close their connections to the database, each its own."""
    yield
    for threads in (catch_up._asking, catch_up._telling):
        together = threading.Barrier(catch_up.THREADS)

        def close(together: threading.Barrier = together) -> None:
            together.wait(180)
            connections.close_all()

        for done in [threads.submit(close) for _ in range(catch_up.THREADS)]:
            done.result()


@pytest.fixture(scope="session")
def everything_imported() -> None:
    """What the first socket and the first card would bring into the process, before any clock of a test runs."""
    import agentops.asgi  # noqa: F401

    _ = get_resolver().url_patterns
    for name in ("_run_header", "_step", "_gap", "_end", "_none_yet"):
        get_template(f"loops/{name}.html")


@pytest.fixture
def desk(live_site: str, page: Any) -> Any:
    """A browser in which the reviewer of a new project is logged in."""
    world = make_world()
    client = Client()
    client.force_login(world.reviewer)
    page.context.add_cookies(
        [{"name": "agentops_session", "value": client.cookies["agentops_session"].value, "url": live_site}]
    )
    page.world, page.site = world, live_site
    page.set_viewport_size({"width": 1280, "height": 800})
    return page

"""Fixtures of the whole suite. A test that needs no database starts no server."""

import gc
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests import browser, report
from tests.browser import PATIENCE_MS
from tests.faults import groups

settings.register_profile("suite", settings.default, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")  # else a busy machine fails properties that hold


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the flags behind `make spec` and `make clock`, and how thoroughly looks are searched."""
    parser.addoption("--without-browsers", action="store_true", help="leave out the tests with a browser")
    parser.addoption("--spec-ids", action="store_true", help="with --collect-only: list the specification rows tested")
    parser.addoption("--all-corners", action="store_true", help="search pages in both themes at both widths, all four")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that names ``theme`` and ``width`` is made once for each corner."""
    if {"theme", "width"} <= {*metafunc.fixturenames}:
        metafunc.parametrize(("theme", "width"), corners_of(metafunc.config))


def corners_of(config: pytest.Config) -> Sequence[tuple[str, int]]:
    return browser.CORNERS[: None if config.getoption("--all-corners") else browser.TOLD_APART]


def pytest_configure(config: pytest.Config) -> None:
    """Make the folder that all processes of the suite read outcomes of faults from."""
    if not hasattr(config, "workerinput"):
        groups.prepare()


@pytest.hookimpl(trylast=True)  # after the shuffle
def pytest_collection_modifyitems(config: pytest.Config, items: list[Any]) -> None:
    """Let tests with a browser run late: from the first of them on, Playwright's event loop runs in this thread. Whole
    journeys come first among them, or one process would be left alone with the longest. What was begun with the suite
    is read last."""
    items.sort(key=_when)
    if config.getoption("--without-browsers"):
        config.hook.pytest_deselected(items=[item for item in items if _drives_a_browser(item)])
        items[:] = [item for item in items if not _drives_a_browser(item)]


def _when(item: Any) -> tuple[bool, bool, bool]:
    browses = _drives_a_browser(item)
    return item.nodeid.startswith(groups.TEST), browses, browses and report.kind_of(item.nodeid) != "e2e"


def _drives_a_browser(item: Any) -> bool:
    return "playwright" in getattr(item, "fixturenames", ())


def pytest_collection_finish(session: pytest.Session) -> None:
    """Print the specification rows that have tests, or begin what takes long. What collecting made stays to the end:
    the collector of garbage need not look at it again and again."""
    gc.collect()
    gc.freeze()
    if session.config.getoption("--spec-ids"):
        print("\n".join(report.by_spec(session.items)))
    elif not session.config.getoption("collectonly") and not hasattr(session.config, "workerinput"):
        groups.begin(item.nodeid for item in session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(ids: list[str]) -> None:
    """Begin what takes long, once for all processes."""
    groups.begin(ids)


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what is left of it."""
    if not hasattr(config, "workerinput"):
        groups.end()


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print how many tests of each kind ran."""
    if lines := report.by_kind(terminalreporter.stats):
        terminalreporter.section("tests by kind")
        for line in lines:
            terminalreporter.write_line(line)


# --- Database and broker --------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def servers() -> Iterator[None]:
    """The suite's own Postgres and Valkey."""
    from tests import stack

    with stack.servers():
        yield


@pytest.fixture(scope="session")
def django_db_setup(servers: None, django_db_blocker: Any) -> Iterator[None]:
    """Let the tests work in the database of the suite, as the application's role."""
    from django.conf import settings
    from django.db import connections
    from django.test import TransactionTestCase

    from tests import stack

    name = settings.DATABASES["default"]["TEST"]["NAME"]
    with django_db_blocker.unblock():
        connections["default"].close()
        settings.DATABASES["default"]["NAME"] = connections["default"].settings_dict["NAME"] = name
        snapshot = stack.Snapshot(name)
    restore = pytest.MonkeyPatch()
    restore.setattr(TransactionTestCase, "_fixture_teardown", lambda self: snapshot.restore())
    yield
    restore.undo()
    snapshot.close()
    with django_db_blocker.unblock():
        connections.close_all()


@pytest.fixture(scope="session", autouse=True)
def static_files_listed_once() -> Iterator[None]:
    """Each client of a test loads the middleware anew, which would look through all static files every time."""
    from whitenoise.middleware import WhiteNoiseMiddleware

    listed: dict[str, Any] = {}
    look = WhiteNoiseMiddleware.add_files_from_finders

    def look_once(self: Any) -> None:
        if not listed:
            look(self)
            listed.update(self.files)
        self.files.update(listed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", look_once)
        yield


@pytest.fixture(scope="session", autouse=True)
def refusals_are_written_when_asked() -> Iterator[None]:
    """No timer of one test writes into the database of another."""
    from agentops.edge import refusals

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(refusals, "EVERY_S", 86_400.0)
        yield


@pytest.fixture(autouse=True)
def nobody_has_guessed_tokens(request: Any) -> None:
    """All tests have one address, and some send tokens that let nobody in."""
    of_database = {"db", "transactional_db"} & set(request.fixturenames)
    if of_database or request.node.get_closest_marker("django_db"):
        from django.core.cache import cache

        request.getfixturevalue("servers")
        cache.delete("token-guesses:127.0.0.1")


@pytest.fixture
def eager_jobs(settings: Any) -> Iterator[None]:
    """Run jobs at once, in the process of the test, instead of ringing a bell that nobody hears."""
    from agentops.celery import app

    before = app.conf.task_always_eager, app.conf.task_eager_propagates
    app.conf.task_always_eager, app.conf.task_eager_propagates = True, True  # else errors would be swallowed
    yield
    app.conf.task_always_eager, app.conf.task_eager_propagates = before


# --- Real processes on the test database -----------------------------------------------------------------------------


@pytest.fixture(scope="session")
def site_process(django_db_setup: None) -> Iterator[str]:
    """Address of a web server that runs as long as the suite."""
    from tests import stack

    with stack.site() as url:
        yield url


@pytest.fixture
def live_site(site_process: str, transactional_db: None) -> str:
    """Address of the real site, pages and sockets; the test's committed rows are what it shows."""
    return site_process


@pytest.fixture(scope="session")
def worker_process(django_db_setup: None) -> Iterator[Any]:
    """A worker that runs as long as the suite."""
    from tests import stack

    with stack.worker() as running:
        yield running


@pytest.fixture
def live_worker(worker_process: Any, transactional_db: None) -> Iterator[Any]:
    """A real worker that performs the jobs the test rings for. Tests without this fixture ring, and nobody comes."""
    from tests import stack

    with stack.listening():
        yield worker_process


# --- Browser --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def playwright(playwright: Any) -> Iterator[Any]:
    """Playwright's synchronous calls leave their event loop marked as running in the thread of the test, which may use
    the database all the same. Any other loop refuses it there as ever, and so does any loop elsewhere."""
    from django.utils import asyncio as guard

    running_loop = guard.get_running_loop

    def loop_of_the_product() -> Any:
        if (loop := running_loop()) is playwright._loop:
            raise RuntimeError("only Playwright's event loop runs")
        return loop

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guard, "get_running_loop", loop_of_the_product)
        yield playwright


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any], playwright: Any) -> dict[str, Any]:
    """Use the machine's browser; without one skip here, fail where skipping would hide it."""
    arguments = {**browser_type_launch_args, "args": browser.FLAGS}
    if found := browser.installed():
        return {**arguments, "executable_path": found}
    if not Path(playwright.chromium.executable_path).exists():
        missing = "no browser: install chromium, or set CHROMIUM to its path"
        pytest.fail(missing) if os.environ.get("CI") else pytest.skip(missing)
    return arguments


@pytest.fixture(scope="session")
def corners(pytestconfig: pytest.Config) -> Sequence[tuple[str, int]]:
    """Themes and widths for a test that goes through them by itself, since what it looks at is long in the making."""
    return corners_of(pytestconfig)


@pytest.fixture(scope="session", name="browser")
def patient_browser(browser: Any) -> Any:
    """The machine's browser; whoever expects something of a page waits as long as a busy machine may need."""
    from playwright.sync_api import expect

    expect.set_options(timeout=PATIENCE_MS)
    new_context = browser.new_context

    def patient(**options: Any) -> Any:
        context = new_context(**options)
        context.set_default_timeout(PATIENCE_MS)
        return context

    browser.new_context = patient
    return browser

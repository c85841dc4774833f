"""The walk itself: what a person does with the demonstration, step by step, and what has to be seen on the way."""

import contextlib
import math
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentops.smoke import SmokeError
from agentops.smoke.installation import Installation

FLAGS = [
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
AGENT, WORKSPACE = "Repairs a bug", "Invoices"
GOAL = "Customers complain that large orders get the small quantity discount. Repair it, so that README.md holds."
CRITERION, COMMAND = "All tests pass", "python3 -m unittest"
PATIENCE = 45
GATES_AT_MOST = 10
WATCHING = (Path(__file__).parent / "watching.js").read_text(encoding="utf-8")
# How old the newest gate is at the moment it is seen, by its own time of opening.
AGE = "row => Date.now() - Date.parse(row.querySelector('time').dateTime)"


@dataclass
class Figures:
    """What was measured, in milliseconds unless it says otherwise."""

    delays: list[float] = field(default_factory=list)
    gates: list[float] = field(default_factory=list)
    tests: list[str] = field(default_factory=list)
    run_id: str = ""
    run_s: float = 0.0

    def percentile(self, share: float) -> float:
        """The smallest delay that ``share`` of all delays do not exceed."""
        return sorted(self.delays)[max(0, math.ceil(share * len(self.delays)) - 1)]


class Walk:
    """One browser, one window with the page of the run and one with the Review page."""

    def __init__(self, installation: Installation, say: Callable[[str], None], pictures: Path) -> None:
        self.installation, self.say, self.pictures = installation, say, pictures
        self.figures = Figures()
        self._pages: list[Any] = []

    def go(self) -> Figures:
        """Do everything; raises at the first thing that is not as it should be."""
        from playwright.sync_api import sync_playwright

        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=_browser(), args=FLAGS)
            try:
                self._walk(browser)
            except Exception:
                self._take_pictures()
                raise
            finally:
                browser.close()
        return self.figures

    def _walk(self, browser: Any) -> None:
        page = self._window(browser)
        with self._step("log in with the link that works once"):
            self._log_in(page)
        review = self._window(browser, page)
        with self._step("open the Review page, where nothing waits"):
            self._open_review(review)
        with self._step("submit the task"):
            self._submit(page)
        started = time.monotonic()
        with self._step("see thinking appear while it is being thought"):
            page.wait_for_function("() => window.smoke.streamed.has('thinking')")
        with self._step("see the calls of tools appear"):
            page.wait_for_selector(".call:has(code:text-is('read_file'))")
        with self._step("decide every gate on the Review page, and see the run end well"):
            self._decide_until_the_end(page, review)
        self.figures.run_s = time.monotonic() - started
        with self._step("see that neither page was ever loaded again"):
            _expect(review.evaluate("window.marker") == "not reloaded", "the Review page was loaded again")
            _expect(page.evaluate("window.smoke.marker") == self._marker, "the page of the run was loaded again")
        with self._step("ask the API: tests went from red to green"):
            self._tests(page)
        self.figures.delays = page.evaluate("window.smoke.delays")
        _expect(len(self.figures.delays) >= 5, f"only {len(self.figures.delays)} changes were measured")

    def _window(self, browser: Any, like: Any = None) -> Any:
        """A window of its own: tabs in the background get their frames and timers once a second."""
        state = like.context.storage_state() if like else None
        context = browser.new_context(viewport={"width": 1280, "height": 900}, storage_state=state)
        context.set_default_timeout(PATIENCE * 1000)
        self._pages.append(context.new_page())
        return self._pages[-1]

    def _log_in(self, page: Any) -> None:
        page.goto(self.installation.login)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_selector("#live[data-state=live]")

    def _open_review(self, review: Any) -> None:
        review.goto(f"{self.installation.url}/review/")
        review.wait_for_selector("#live[data-state=live]")
        _expect(review.locator("#queue [data-row]").count() == 0, "a gate was there before any run")
        review.evaluate("window.marker = 'not reloaded'")

    def _submit(self, page: Any) -> None:
        page.goto(f"{self.installation.url}/tasks/new/")
        page.select_option("#agent", label=next(text for text in _labels(page, "#agent") if text.startswith(AGENT)))
        page.select_option("#workspace", label=WORKSPACE)
        page.fill("#goal", GOAL)
        page.fill("input[name=criterion] >> nth=0", CRITERION)
        page.fill("input[name=command] >> nth=0", COMMAND)
        page.add_init_script(WATCHING)
        page.get_by_role("button", name="Start the run").click()
        page.wait_for_selector("[data-run-socket]")
        self.figures.run_id = re.findall(r"/runs/([0-9a-f-]{36})/", page.url)[0]
        self._marker = page.evaluate("window.smoke.marker")

    def _decide_until_the_end(self, page: Any, review: Any) -> None:
        while True:
            row = review.locator("#queue [data-row]").first
            _first_of(page.locator("#run-end .end-card"), row)
            if not row.count():
                break
            self.figures.gates.append(row.evaluate(AGE))
            _expect(len(self.figures.gates) <= GATES_AT_MOST, "the run asks for ever")
            gate = row.get_attribute("data-row")
            row.locator("a").click()
            review.locator(f"#gate-{gate} [data-end]").scroll_into_view_if_needed()  # what is long must be read first
            review.locator(f"#gate-{gate} form.approve [data-approve]").click()
            review.locator(f"#queue [data-row='{gate}']").wait_for(state="detached")
        _expect(len(self.figures.gates) > 0, "no gate ever appeared")
        state = page.locator("#run-head .state").inner_text().strip()
        _expect(state == "Completed", f"the run ended as {state}")

    def _tests(self, page: Any) -> None:
        answer = self._ask(page, f"runs/{self.figures.run_id}/")
        _expect(answer["phase"] == "COMMIT", f"the run ended in {answer['phase']}")
        calls = self._ask(page, f"runs/{self.figures.run_id}/tool-calls/")["results"]
        runs = [call["data"] for call in calls if call["tool"] == "run_tests" and call["state"] == "COMPLETE"]
        self.figures.tests = [f"{run['passed']} passed {run['failed']} failed" for run in runs]
        _expect(len(runs) >= 2, f"the tests ran {len(runs)} times")
        _expect(runs[0]["failed"] > 0 and runs[-1]["failed"] == 0, f"tests: {self.figures.tests}")

    def _ask(self, page: Any, path: str) -> Any:
        response = page.request.get(f"{self.installation.url}/api/v1/{path}")
        _expect(response.ok, f"the API answered {response.status} to {path}")
        return response.json()

    @contextlib.contextmanager
    def _step(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except Exception as error:
            raise SmokeError(f"{name}: {str(error).splitlines()[0]}") from error
        self.say(f"{time.monotonic() - began:6.1f} s  {name}")

    def _take_pictures(self) -> None:
        self.pictures.mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(self._pages, 1):
            with contextlib.suppress(Exception):  # a page that cannot be pictured must not hide why it is wanted
                page.screenshot(path=self.pictures / f"page-{number}.png", full_page=True, timeout=5000)


def _first_of(*locators: Any) -> None:
    """Wait until one of them is there."""
    deadline = time.monotonic() + PATIENCE
    while not any(locator.count() for locator in locators):
        _expect(time.monotonic() < deadline, "neither a gate nor the end of the run appeared")
        locators[0].page.wait_for_timeout(20)


def _labels(page: Any, select: str) -> list[str]:
    found: list[str] = page.locator(f"{select} option").all_inner_texts()
    return found


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise SmokeError(otherwise)


def _browser() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "chrome")
    return next(filter(None, (os.environ.get("CHROMIUM"), *map(shutil.which, names))), None)

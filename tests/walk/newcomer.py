"""The README's first five minutes, step by step as they are written there, and what has to be seen on the way."""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agentops.embedded.paths import BASE_DIR
from tests.browser import FLAGS, installed
from tests.walk import WalkError
from tests.walk.installation import Installation

README = (BASE_DIR / "README.md").read_text(encoding="utf-8").partition("### The first five minutes")[2]
AGENT, WORKSPACE, COMMAND = re.findall(r'agent "(.+?)", workspace "(.+?)".*?`(.+?)` that proves it', README, re.DOTALL)[
    0
]
GOAL = "Customers complain that large orders get the small quantity discount. Repair it, so that README.md holds."
CRITERION = "All tests pass"
PATIENCE = 180
GATES_AT_MOST = 12
PRESSES_AT_MOST = 120
WATCHING = (Path(__file__).parent / "watching.js").read_text(encoding="utf-8")
DECIDED = "gate => !document.querySelector(`#gate-${gate} form.approve [data-approve]`)"


@dataclass
class Figures:
    """What was measured, in milliseconds unless it says otherwise."""

    delays: list[float] = field(default_factory=list)
    gates: int = 0
    tests: list[str] = field(default_factory=list)
    run_id: str = ""
    run_s: float = 0.0

    def percentile(self, share: float) -> float:
        """The smallest delay that ``share`` of all delays do not exceed."""
        return sorted(self.delays)[max(0, math.ceil(share * len(self.delays)) - 1)]


class Newcomer:
    """One person with a browser: a window for the run, and one for the Review page."""

    def __init__(self, installation: Installation, sandbox: str, pictures: Path) -> None:
        self.installation, self.sandbox, self.pictures = installation, sandbox, pictures
        self.figures = Figures()
        self._pages: list[Any] = []

    def go(self) -> Figures:
        """Do everything; raises at the first thing that is not as the README says."""
        from playwright.sync_api import sync_playwright

        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=installed(), args=FLAGS)
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
        with self._step("1. open the printed link: a page with a look, then Overview"):
            self._log_in(page)
        review = self._window(browser, page)
        with self._step("2. New task, as the README words it"):
            self._open_review(review)
            self._submit(page)
        started = time.monotonic()
        with self._step("3. see thinking and reads, and a decision that waits"):
            page.wait_for_function("() => window.walk.streamed.has('thinking')")
            page.wait_for_selector(".call:has(code:text-is('read_file'))")
            page.get_by_text(f"sandbox: {self.sandbox}").first.wait_for()
        with self._step("3. decide with the key a, on the run's page and in Review, until the run ends"):
            self._decide_until_the_end(page, review)
        self.figures.run_s = time.monotonic() - started
        with self._step("   neither page was ever loaded again"):
            _expect(review.evaluate("window.marker") == "not reloaded", "the Review page was loaded again")
            _expect(page.evaluate("window.walk.marker") == self._marker, "the page of the run was loaded again")
            self.figures.delays = page.evaluate("window.walk.delays")
            _expect(len(self.figures.delays) >= 5, f"only {len(self.figures.delays)} changes were measured")
        with self._step("4. tests went from red to green, and Provenance verifies the committed run"):
            self._tests(page)
            self._provenance(page)
        with self._step("5. fork it, /stop the fork in its message box, and compare the two"):
            self._fork_and_stop(page)

    def _window(self, browser: Any, like: Any = None) -> Any:
        """A window of its own: tabs in the background get their frames and timers once a second."""
        state = like.context.storage_state() if like else None
        context = browser.new_context(viewport={"width": 1440, "height": 900}, storage_state=state)
        context.set_default_timeout(PATIENCE * 1000)
        self._pages.append(context.new_page())
        return self._pages[-1]

    def _log_in(self, page: Any) -> None:
        page.goto(self.installation.login)
        family = page.evaluate("getComputedStyle(document.body).fontFamily")
        _expect("serif" not in family.split(",")[0].lower(), f"the first page is set in {family}")
        page.get_by_role("button", name="Log in").click()
        page.wait_for_selector("#live[data-state=live]")
        _expect(page.locator("h1").first.inner_text() == "Overview", "the first page is not the Overview")

    def _open_review(self, review: Any) -> None:
        review.goto(f"{self.installation.url}/review/")
        review.wait_for_selector("#live[data-state=live]")
        _expect(review.locator("#queue [data-row]").count() == 0, "a gate was there before any run")
        review.evaluate("window.marker = 'not reloaded'")

    def _submit(self, page: Any) -> None:
        page.get_by_role("link", name="New task").first.click()
        page.select_option("#agent", label=next(text for text in _labels(page, "#agent") if text.startswith(AGENT)))
        page.select_option("#workspace", label=WORKSPACE)
        page.fill("#goal", GOAL)
        page.fill("input[name=criterion] >> nth=0", CRITERION)
        page.fill("input[name=command] >> nth=0", COMMAND)
        page.locator("#preview").get_by_text("limit").first.wait_for()
        page.add_init_script(WATCHING)
        page.get_by_role("button", name="Start the run").click()
        page.wait_for_selector("[data-run-socket]")
        self.figures.run_id = _run_id(page)
        self._marker = page.evaluate("window.walk.marker")

    def _decide_until_the_end(self, page: Any, review: Any) -> None:
        while True:
            row = review.locator("#queue [data-row]").first
            _first_of(page.locator("#run-end .end-card"), row)
            if not row.count():
                break
            self.figures.gates += 1
            _expect(self.figures.gates <= GATES_AT_MOST, "the run asks for ever")
            gate = row.get_attribute("data-row")
            place = page if self.figures.gates % 2 else review
            if place is review:
                row.locator("a").click()
            _press_a(place, gate)
            row.and_(review.locator(f"[data-row='{gate}']")).wait_for(state="detached")
        _expect(self.figures.gates > 0, "no gate ever appeared")
        state = page.locator("#run-head .state").inner_text().strip()
        _expect(state == "Completed", f"the run ended as {state}")

    def _tests(self, page: Any) -> None:
        answer = self._ask(page, f"runs/{self.figures.run_id}/")
        _expect(answer["phase"] == "COMMIT", f"the run ended in {answer['phase']}")
        calls = self._ask(page, f"runs/{self.figures.run_id}/tool-calls/")["results"]
        runs = [call["data"] for call in calls if call["tool"] == "run_tests" and call["state"] == "COMPLETE"]
        self.figures.tests = [f"{run.get('passed')} passed {run.get('failed')} failed" for run in runs]
        _expect(self.figures.tests == ["14 passed 6 failed", "20 passed 0 failed"], f"tests: {self.figures.tests}")

    def _provenance(self, page: Any) -> None:
        page.get_by_role("link", name="Provenance").click()
        page.get_by_role("button", name="Verify").click()
        page.get_by_text("match their own hashes").wait_for()

    def _fork_and_stop(self, page: Any) -> None:
        page.goto(f"{self.installation.url}/runs/{self.figures.run_id}/fork/?step=2")
        page.get_by_role("button", name="Fork").click()
        page.wait_for_url(lambda url: "/fork/" not in url and self.figures.run_id not in url)
        fork = _run_id(page)
        page.wait_for_selector("#live[data-state=live]")
        page.locator("#say-text").fill("/stop")
        page.locator("#say-text").press("Enter")
        page.locator("#run-end .end-card").wait_for()
        state = page.locator("#run-head .state").inner_text().strip()
        _expect(state == "Stopped", f"after /stop the fork is {state}")
        page.goto(f"{self.installation.url}/runs/{self.figures.run_id}/compare/{fork}/")
        page.get_by_role("heading", name="Results").wait_for()

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
            raise WalkError(f"{name}: {str(error).splitlines()[0]}") from error
        print(f"{time.monotonic() - began:6.1f} s  {name}", flush=True)

    def _take_pictures(self) -> None:
        self.pictures.mkdir(parents=True, exist_ok=True)
        for number, page in enumerate(self._pages, 1):
            with contextlib.suppress(Exception):  # a page that cannot be pictured must not hide why it is wanted
                page.screenshot(path=self.pictures / f"page-{number}.png", full_page=True, timeout=5000)


def _press_a(page: Any, gate: str) -> None:
    """As a person does: what the first press only brings into view, a further one approves; high risk takes a `y`."""
    page.locator(f"#gate-{gate} form.approve [data-approve]").wait_for(state="attached")
    page.evaluate("document.activeElement?.matches('input, textarea, select') && document.activeElement.blur()")
    for _ in range(PRESSES_AT_MOST):
        page.keyboard.press("y" if page.locator(f"#gate-{gate} form.approve [data-sure]").is_visible() else "a")
        with contextlib.suppress(Exception):
            page.wait_for_function(DECIDED, arg=gate, timeout=1000)
            return
    raise WalkError(f"{PRESSES_AT_MOST} times a did not approve")


def _run_id(page: Any) -> str:
    return re.findall(r"/runs/([0-9a-f-]{36})/", page.url)[0]


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
        raise WalkError(otherwise)

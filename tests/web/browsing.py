"""How a test waits for a page, makes its answers come late, cuts its line, and searches it for faults."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from gates.models import Decision, Gate
from tests.browser import PATIENCE_MS

Held = Callable[[], None]


BUSY = ".htmx-request, .htmx-swapping, .htmx-settling"
PROBE = "**/healthz?probe"

TOO_WIDE = """() => { const {scrollWidth, clientWidth} = document.documentElement;
    return scrollWidth <= clientWidth ? [] : [`${scrollWidth - clientWidth} px too wide`,
        ...[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > clientWidth + 1)
            .map(e => `${e.tagName}.${e.className}: ${e.textContent.slice(0, 40)}`).slice(0, 8)]; }"""
BROKEN_RULES_ALONE = {"resultTypes": ["violations"]}
"""Else axe describes every part that keeps a rule as well, which takes longer than to find those that do not."""


def faults(page: Any, context: str | None = None) -> list[str]:
    """What axe has against a page, or a part of it, and what makes it wider than its window."""
    found = Axe().run(page, context=context, options=BROKEN_RULES_ALONE).response["violations"]
    return [f"{one['id']}: {one['nodes'][0]['target']}" for one in found] + page.evaluate(TOO_WIDE)


def until(page: Any, condition: Callable[[], object], what: str) -> None:
    """Wait for what is no sight of a page; requests that are routed are served meanwhile."""
    for _ in range(PATIENCE_MS // 50):
        if condition():
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"waited {PATIENCE_MS // 1000} s for {what} at {page.url}")


def settled(page: Any) -> None:
    """Wait until no request is under way and no answer is being taken in."""
    expect(page.locator(BUSY)).to_have_count(0)


def looked_at(page: Any, gate: Any) -> None:
    """Wait until nobody takes a press for a slip any more: a card that has just come up is not approved."""
    seen = "id => performance.now() - Number(document.getElementById(`gate-${id}`).dataset.came ?? 0) > 600"
    page.wait_for_function(seen, arg=str(gate.pk))


@contextlib.contextmanager
def slow(page: Any, pattern: str) -> Iterator[list[Held]]:
    """Answers to requests like ``pattern`` are made at once, and come when the items of the list are called."""
    under_way: list[Any] = []
    answers: list[Held] = []

    def hold(route: Any) -> None:
        under_way.append(route)
        answer = route.fetch()
        answers.append(lambda: route.fulfill(response=answer))
        under_way.remove(route)

    intercept(page, pattern, hold)
    yield answers
    until(page, lambda: not under_way, "answers under way")  # or the page may go before they are made
    page.unroute(pattern)


def intercept(page: Any, pattern: str, handle: Callable[[Any], None]) -> None:
    """Route what a page asks for. Of an open page, Chromium says that it intercepts before the page's own process knows
    of it, and what is asked in between goes by: a harmless request is made until it is caught."""
    page.route(pattern, handle)
    if page.url == "about:blank":
        return
    page.route(PROBE, lambda route: route.fulfill(body="caught"))
    ask = "address => fetch(address).then((answer) => answer.text())"
    until(page, lambda: page.evaluate(ask, PROBE[2:]) == "caught", "requests to be intercepted")
    page.unroute(PROBE)


def wait_for_answer(page: Any, answers: list[Held], count: int = 1) -> None:
    """Wait until so many answers lie ready."""
    until(page, lambda: len(answers) >= count, f"somebody to ask; {len(answers)} did")


def let_all_come(page: Any, answers: list[Held], enough: Callable[[], object] | None = None) -> None:
    """Every answer that was held, and those to what is asked because of it, until it is ``enough``, or the page asks no
    more. The first may be to what the page asked before the test did."""
    given = 0

    def quiet() -> object:
        nonlocal given
        for answer in answers[given:]:
            answer()
            given += 1
        page.wait_for_timeout(50)
        return enough() if enough else given == len(answers) and not page.locator(BUSY).count()

    until(page, quiet, "it to ask no more")


def approved_by_key(page: Any, gate: Gate, *, presses: int, looks: int = 12) -> int:
    """Press `a` until the first decision falls, which has to be of this gate; how often it took, 0 when none fell.
    Where it asks whether one is sure, `y` says so. ``looks``: so often it is looked for the decision of each press."""
    before = set(Decision.objects.values_list("gate_id", flat=True))
    for count in range(1, presses + 1):
        settled(page)
        page.keyboard.press("y" if page.locator("[data-sure]:visible").count() else "a")
        settled(page)  # what was decided is stored when its answer comes
        for _ in range(looks):
            if now := set(Decision.objects.values_list("gate_id", flat=True)) - before:
                assert now == {gate.pk}
                return count
            page.wait_for_timeout(50)  # so soon after another press, or a new card, a key is not taken
    return 0


def approved_together(page: Any, presses: int = 60) -> int:
    """Press the button that approves several until they are sent, and where it asks whether one is sure, say so; how
    often it took."""
    page.evaluate(
        "addEventListener('submit', event => { document.body.dataset.left ||= event.defaultPrevented ? '' : 1 })"
    )
    done, sure = page.get_by_role("heading", name="decided"), page.locator("[data-together] [data-sure] [value='1']")
    for count in range(1, presses + 1):
        assert not Decision.objects.exists()
        page.locator("[data-together] [data-approve]").click()
        if sure.is_visible():
            sure.click()
        page.wait_for_load_state("domcontentloaded")
        if done.or_(page.locator("body[data-left='1']")).count():
            done.wait_for()
            return count
        page.wait_for_timeout(600)  # so soon a press is not taken
    return 0


def stopped(page: Any) -> None:
    """From its next document on a page's time stands still, but for what ``page.clock.run_for`` lets pass."""
    page.clock.install()
    page.clock.pause_at(datetime.now(UTC) + timedelta(days=1))


class Line:
    """The sockets of a page: cut, and mended. It has to be laid before the page is opened."""

    def __init__(self, page: Any) -> None:
        self.refused: list[str] = []
        """What the badge of the page said whenever it dialled in vain."""
        self._page, self._is_cut, self._open = page, False, list[Any]()
        page.route_web_socket("**/ws/**", self._dialled)

    def cut(self) -> None:
        self._is_cut = True
        for socket in self._open:
            socket.close()
        self._open.clear()

    def mend(self) -> None:
        self._is_cut = False

    def _dialled(self, socket: Any) -> None:
        if self._is_cut:
            self.refused.append(self._page.locator("#live").get_attribute("data-state"))
            socket.close()
            return
        socket.connect_to_server()
        self._open.append(socket)

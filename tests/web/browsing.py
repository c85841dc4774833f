"""How a test waits for a page, and makes its answers come late."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from playwright.sync_api import expect

Held = Callable[[], None]


BUSY = ".htmx-request, .htmx-swapping, .htmx-settling"
PROBE = "**/healthz?probe"


def settled(page: Any) -> None:
    """Wait until no request is under way and no answer is being taken in."""
    expect(page.locator(BUSY)).to_have_count(0)


@contextlib.contextmanager
def slow(page: Any, pattern: str) -> Iterator[list[Held]]:
    """Answers to requests like ``pattern`` are made at once, and come when the items of the list are called."""
    answers: list[Held] = []

    def hold(route: Any) -> None:
        answer = route.fetch()
        answers.append(lambda: route.fulfill(response=answer))

    intercept(page, pattern, hold)
    yield answers
    page.unroute(pattern)


def intercept(page: Any, pattern: str, handle: Callable[[Any], None]) -> None:
    """Route what a page asks for. Of an open page, Chromium says that it intercepts before the page's own process knows
    of it, and what is asked in between goes by: a harmless request is made until it is caught."""
    page.route(pattern, handle)
    if page.url == "about:blank":
        return
    page.route(PROBE, lambda route: route.fulfill(body="caught"))
    for _ in range(200):
        if page.evaluate("address => fetch(address).then((answer) => answer.text())", PROBE[2:]) == "caught":
            page.unroute(PROBE)
            return
        page.wait_for_timeout(20)
    raise AssertionError("requests of the page are not intercepted")


def wait_for_answer(page: Any, answers: list[Held], count: int = 1) -> None:
    """Wait until so many answers lie ready."""
    for _ in range(200):
        if len(answers) >= count:
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"nobody asked at {page.url}; marked: {page.locator('[aria-current=true]').all_inner_texts()}")


def let_all_come(page: Any, answers: list[Held]) -> None:
    """Every answer that was held, and those to what is asked because of it, until the page asks no more."""
    given = 0
    for _ in range(200):
        for answer in answers[given:]:
            answer()
            given += 1
        page.wait_for_timeout(50)
        if given == len(answers) and not page.locator(BUSY).count():
            return
    raise AssertionError("it asks again and again")

"""The conversation in a browser: what was left out unfolds where its summary stands."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from playwright.sync_api import expect

from loops.models import Run
from tests import factories as make
from tests.web.test_conversation import driven, stored


@pytest.mark.spec("U1", "R4")
def test_what_was_left_out_unfolds(desk):
    with ThreadPoolExecutor(1) as aside:  # this thread has the browser's event loop
        facts = aside.submit(driven).result()
    run = make.run(make.task(desk.world.project, title="A long one"))
    stored(Run.objects.select_related("task", "agent", "project").get(pk=run.pk), facts)
    desk.goto(f"{desk.site}/runs/{run.pk}/conversation/?request=20")
    expect(desk.get_by_text("Exactly what was sent.")).to_be_visible()
    expect(desk.get_by_text("earlier messages are summarised here")).to_be_visible()
    desk.locator("summary", has_text="messages left out").first.click()
    expect(desk.locator("#gone-1")).to_be_visible()
    desk.get_by_role("link", name="Next").click()
    expect(desk.get_by_role("heading", name="Request 21 of")).to_be_visible()

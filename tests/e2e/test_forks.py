"""Fork from a step, watch the fork end, look at both side by side: in a browser, with a real worker (SPEC K3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from gates.models import Gate
from loops.models import Fact, Fork, Run
from loops.storage import chain
from tests.e2e.conftest import House, ended, gate_of
from tests.web.browsing import faults

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("K3")]
Enter = Callable[[str, Any], Any]


def test_a_run_is_forked_from_a_step_by_keyboard_and_compared(house: House, enter: Enter) -> None:
    parent = ended(house.submit("writes_a_file", final_review="never"))
    page = enter(house.url, house.boss)
    page.goto(f"{house.url}/runs/{parent.pk}/")
    step = page.locator("#step-1")
    if step.locator("details.step").get_attribute("open") is None:
        step.locator("summary").first.press("Enter")
    step.get_by_role("link", name="Fork from here").press("Enter")
    page.get_by_role("heading", name="Fork this run").wait_for()
    assert page.input_value("#step") == "1"
    preview = page.locator("#fork-preview")
    assert "1 step: 1 recorded model answer and 1 tool result" in preview.inner_text()
    page.fill("#step", "0")
    preview.get_by_text("Nothing but the task").wait_for()
    page.fill("#step", "1")
    preview.get_by_text("1 step:").wait_for()
    page.fill("#message", "Say it in one line.")
    page.get_by_role("button", name="Fork").press("Enter")

    page.locator("#run-end .end-card").wait_for()
    assert page.locator("#run-head .state").inner_text().strip() == "Completed"
    assert page.locator("#step-1").get_by_text("reused", exact=True).count() == 1
    assert page.get_by_text("Forked here from another run, after its step 1").count() == 1
    fork = Fork.objects.get()
    assert fork.message == "Say it in one line."
    begun = Fact.objects.filter(run=fork.run, kind="ToolIntended", seq__gt=fork.seq)
    assert not begun.exists(), "nothing was executed again"
    assert (Path(fork.run.workspace_path) / "hello.txt").read_text() == "Hello from the loop.\n"
    assert fork.run.workspace_path != parent.workspace_path
    assert chain.verify().problems == []

    page.get_by_role("link", name="Compare").press("Enter")
    page.get_by_role("heading", name="Compare two runs").wait_for()
    assert page.get_by_text("The first step is shared").count() == 1
    assert page.locator("tr.beside-shared").count() == 1
    page.get_by_role("link", name="Open step 2").first.press("Enter")
    page.wait_for_url(f"**/runs/{parent.pk}/#step-2")
    assert page.locator(".lineage").get_by_role("link", name="after step 1").count() == 1


@pytest.mark.spec("Q5")
def test_a_fork_of_a_waiting_run_asks_again(house: House, enter: Enter) -> None:
    parent = house.submit("repair_a_bug", workspace=house.invoices)
    theirs = gate_of(parent)
    page = enter(house.url, house.boss)
    page.goto(f"{house.url}/runs/{parent.pk}/fork/")
    assert "whatever was decided about it here" in page.locator("#fork-preview").inner_text()
    page.get_by_role("button", name="Fork").click()
    page.wait_for_url(lambda url: str(parent.pk) not in url)
    run = Run.objects.get(pk=page.url.rstrip("/").split("/")[-1])
    ours = gate_of(run)
    assert ours.pk != theirs.pk
    page.locator(f"[data-gate='{ours.pk}']").wait_for()
    assert {gate.status for gate in Gate.objects.all()} == {"open"}


def test_the_pages_have_no_accessibility_faults_and_fit(
    house: House, enter: Enter, corners: Sequence[tuple[str, int]]
) -> None:
    parent = house.submit("repair_a_bug", workspace=house.invoices)
    gate_of(parent)
    page = enter(house.url, house.boss)
    page.goto(f"{house.url}/runs/{parent.pk}/fork/?step=2")
    page.fill("#message", "Otherwise.")
    page.get_by_role("button", name="Fork").click()
    page.wait_for_url(lambda url: str(parent.pk) not in url)
    run = Run.objects.get(pk=page.url.rstrip("/").split("/")[-1])
    gate_of(run)
    addresses = [f"/runs/{parent.pk}/fork/", f"/runs/{parent.pk}/compare/{run.pk}/", f"/runs/{run.pk}/"]
    found = {}
    for theme, width in corners:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 844})
        for address in addresses:
            page.goto(f"{house.url}{address}")
            if here := faults(page):
                found[address, theme, width] = here
    assert found == {}

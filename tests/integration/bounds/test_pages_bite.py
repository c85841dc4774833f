"""Pages that show a part say so, and lead to the rest (SPEC X5)."""

from __future__ import annotations

import hashlib
import re
from types import SimpleNamespace
from typing import Any, cast

import pytest
from django.test import Client
from django.urls import reverse

from gates.web import queue
from loops.driver import gates
from loops.engine import facts as f
from loops.engine.encoding.canonical import SHOWN_LEVELS, clean_json
from loops.engine.rollback.plan import RESTORE, FileChange
from loops.engine.values import Compensation, Json, ToolResult
from loops.models import Blob, Fork, Project, Run
from loops.services import lineage
from loops.web import comparison, files, overview
from loops.workspaces import changed_files
from tests import factories as make
from tests.integration.bounds.pages import page_of
from tests.integration.gates.builders import make_world, open_gate

pytestmark = [pytest.mark.django_db, pytest.mark.spec("X5")]


def forks(parent: Run, count: int) -> list[Fork]:
    by = make.user()
    given: dict[str, Any] = {"seq": 1, "step": 1, "head": b"h", "content_sha256": "0" * 64, "created_by": by}
    return [Fork.objects.create(run=make.run(parent.task), parent=parent, **given) for _ in range(count)]


def test_a_run_of_many_forks_says_so_and_still_says_where_it_comes_from(root: Client, project: Project) -> None:
    first = make.run(make.task(project))
    (made,) = forks(first, 1)
    forks(made.run, lineage.MOST)
    page = page_of(root, "run", made.run.pk)
    assert "Forked from" in page
    assert "and older ones" not in page
    forks(made.run, 5)
    page = page_of(root, "run", made.run.pk)
    assert "and older ones" in page
    assert "Forked from" in page
    assert page.count("after step 1 ") >= lineage.MOST


def test_the_queue_counts_all_and_leads_to_the_next_page() -> None:
    world = make_world()
    for number in range(queue.PAGE):
        open_gate(world, call_id=f"c{number}")
    browser = Client()
    browser.force_login(world.reviewer)
    assert "Next page" not in page_of(browser, "review")
    open_gate(world, call_id="one more")
    page = browser.get(reverse("review")).content.decode()
    assert f'<strong class="num">{queue.PAGE + 1}</strong> waiting' in page
    after = re.search(r"after=([\w-]+)", page)
    assert after is not None
    rest = browser.get(reverse("review"), {"after": after[1]}).content.decode()
    assert rest.count('class="row-gate"') == 1


def test_the_overview_says_that_more_runs_are_in_progress(root: Client, project: Project) -> None:
    task = make.task(project)
    for _ in range(overview.LIVE):
        make.run(task, status="thinking")
    assert "All runs in progress" not in page_of(root, "overview")
    make.run(task, status="thinking")
    assert "All runs in progress" in page_of(root, "overview")


def test_steps_that_are_compared_come_page_by_page(root: Client, project: Project) -> None:
    one, other = (make.run(make.task(project), status="thinking", total_steps=comparison.PAGE) for _ in range(2))
    assert "Later steps" not in page_of(root, "run-compare", one.pk, other.pk)
    Run.objects.filter(pk=other.pk).update(total_steps=comparison.PAGE + 1)
    assert "Later steps" in page_of(root, "run-compare", one.pk, other.pk)
    assert "Earlier steps" in page_of(root, "run-compare", one.pk, other.pk, after=comparison.PAGE)


def test_raw_facts_come_page_by_page(root: Client, project: Project) -> None:
    run = make.run(make.task(project))
    for _ in range(files.RAW_PAGE + 1):
        make.fact(run, f.Reminded(reason="r", text="t"))
    page = page_of(root, "run-raw", run.pk)
    assert "Later" in page
    assert page.count("Reminded") == 2 * files.RAW_PAGE
    last = page_of(root, "run-raw", run.pk, after=Run.objects.get(pk=run.pk).facts.order_by("-seq")[1].seq)
    assert "Earlier" in last
    assert "Later" not in last


def kept(data: bytes) -> str:
    sha256 = hashlib.sha256(data).hexdigest()
    Blob.objects.create(sha256=sha256, size=len(data), body=data)
    return f"file:644:{sha256}"


def test_a_changed_file_without_a_diff_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    long = kept("".join(f"{number}\n" for number in range(30_000)).encode())
    short, shorter = kept(b"short\n"), kept(b"x\n")
    (first, second, third) = changed_files.compared(
        [FileChange("a", "", long), FileChange("b", "", long.replace("644", "600")), FileChange("c", "", short)]
    )
    assert first.diff
    assert not first.note
    assert second.diff, "two of them fit"
    monkeypatch.setattr(changed_files, "SHOWN_CHARS", len(first.diff) + 20)
    (_, second, third) = changed_files.compared(
        [FileChange("a", "", long), FileChange("b", "", long.replace("644", "600")), FileChange("c", "", short)]
    )
    assert second.note == f"Its diff of {len(first.diff):,} characters is too long for this page."
    assert second.is_apart
    assert not second.diff
    assert not third.diff
    monkeypatch.setattr(changed_files, "READ_BYTES", 7)
    (one, other) = changed_files.compared([FileChange("c", "", short), FileChange("d", "", shorter)])
    assert one.diff
    assert (other.note, other.is_apart) == ("Its diff is too long for this page.", True)


def left_behind(changed: int, unknown: int) -> dict[str, Any]:
    """What a final review shows after a call that changed so many files, and so many that nobody recorded."""
    listed: list[Json] = [{"path": f"f{number:04}", "before": "", "after": "file:644:0"} for number in range(changed)]
    history: list[f.Fact] = []
    compensations = [Compensation(RESTORE, {"files": listed}), *[Compensation(why_not="too big")] * unknown]
    for number, compensation in enumerate(compensations):
        call = {"call_id": f"c{number}", "tool": "run_command"}
        history.append(f.ToolIntended(**call, arguments={}, idempotency_key="k", compensation=compensation))
        history.append(f.ToolCompleted(**call, result=ToolResult(ok=True, content="")))
    journal = SimpleNamespace(history=lambda kinds: history)
    desk = SimpleNamespace(flush=lambda: None, ports=SimpleNamespace(journal=journal))
    return gates._left_behind(cast(Any, desk))


def test_a_final_review_counts_the_files_and_calls_that_it_does_not_list() -> None:
    found = left_behind(gates.FILES_AT_MOST, gates.FILES_AT_MOST)
    assert (found["more_changed"], found["more_unrecorded"]) == (0, 0)
    found = left_behind(gates.FILES_AT_MOST + 3, gates.FILES_AT_MOST + 2)
    assert (len(found["changed"]), found["more_changed"]) == (gates.FILES_AT_MOST, 3)
    assert (len(found["unrecorded"]), found["more_unrecorded"]) == (gates.FILES_AT_MOST, 2)
    world = make_world()
    view = {"result": "Done.", "criteria": [], "changed": [], "more_changed": 3, "unrecorded": [], "more_unrecorded": 2}
    gate = open_gate(world, "final_review", call_id="", tool="", view=view)
    browser = Client()
    browser.force_login(world.reviewer)
    page = page_of(browser, "gate", gate.pk)
    assert "3 more files are not listed here" in page
    assert "2 more calls changed what is not recorded; they are not listed here" in page


def test_what_is_nested_too_deeply_for_a_page_says_so() -> None:
    def nested(levels: int) -> Any:
        value: Any = "end"
        for _ in range(levels):
            value = [value]
        return value

    assert "nested deeper" not in str(clean_json(nested(SHOWN_LEVELS)))
    assert "… (nested deeper)" in str(clean_json(nested(SHOWN_LEVELS + 1)))


def test_the_steps_around_a_decision_lead_to_the_whole_trace() -> None:
    world = make_world()
    for number in range(1, 8):
        make.step(world.run, number, reasoning=f"thought {number}.")
    gate = open_gate(world, step=7)
    browser = Client()
    browser.force_login(world.reviewer)
    page = page_of(browser, "gate", gate.pk)
    assert "thought 5." in page
    assert "thought 4." not in page
    assert "Open the full trace" in page

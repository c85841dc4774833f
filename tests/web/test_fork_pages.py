"""The pages of forks: who may see and do what, what they say, and what they ask of the database (SPEC K3)."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from loops.models import Fork, Run
from loops.services.forks import fork_run
from tests import factories as make
from tests import fakes
from tests.integration.storage import forks, owned
from tests.integration.storage.forks import Ledger
from tests.web.test_pages import HOSTILE, SESSION_AND_USER, dangers, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.spec("K3")]


@pytest.fixture
def parent(house: Any, settings: Any, tmp_path: Path) -> owned.Owned:
    """A committed run of three steps and a result, of the house's project."""
    settings.AGENTOPS_WORKSPACES = str(tmp_path / "runs")
    task = make.task(house.project, title="Fix the totals", created_by=house.operator)
    mine = forks.parent_in(tmp_path / "parent", make.run(task, runnable=True, status="queued"))
    turns = [fakes.says(f"I do {number}", ("act", {"at": number})) for number in (1, 2, 3)]
    assert mine.drive([*turns, fakes.done("All is well.\nThe end.")], Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    return mine


@pytest.fixture
def pair(house: Any, parent: owned.Owned) -> tuple[Run, Run]:
    """The run, and a fork of it after step 2 that did something else."""
    run = fork_run(actor=house.operator, run=parent.run, step=2, message="Look twice").run
    mine = forks.begin(run)
    answers = [fakes.says("I look", ("look", {"at": 9})), fakes.done("All is well.\nNearly.")]
    assert mine.drive(answers, Ledger().tools()) == "ended"
    mine.run.refresh_from_db()
    return parent.run, mine.run


def form(run: Run) -> str:
    return reverse("run-fork", args=[run.pk])


def versus(one: Run, other: Run) -> str:
    return reverse("run-compare", args=[one.pk, other.pk])


@pytest.mark.spec("S4")
class TestWho:
    @pytest.mark.parametrize(
        ("who", "status"),
        [("operator", 200), ("admin", 200), ("reviewer", 404), ("viewer", 404), ("outsider", 404), ("anonymous", 302)],
    )
    def test_may_fork(self, house: Any, parent: owned.Owned, who: str, status: int) -> None:
        client = house.client(who)
        assert client.get(form(parent.run)).status_code == status
        posted = client.post(form(parent.run), {"step": 1})
        assert posted.status_code == (302 if status == 200 else status)
        assert Fork.objects.count() == (status == 200)

    @pytest.mark.parametrize(
        ("who", "status"),
        [("operator", 200), ("reviewer", 200), ("viewer", 200), ("outsider", 404), ("anonymous", 302)],
    )
    def test_may_compare(self, house: Any, pair: tuple[Run, Run], who: str, status: int) -> None:
        assert house.client(who).get(versus(*pair)).status_code == status

    def test_may_not_compare_with_a_run_of_another_project(self, house: Any, pair: tuple[Run, Run]) -> None:
        foreign = make.run(house.elsewhere)
        assert house.client("operator").get(versus(pair[0], foreign)).status_code == 404
        assert house.client("outsider").get(versus(foreign, pair[0])).status_code == 404

    @pytest.mark.parametrize(("who", "offered"), [("operator", True), ("reviewer", False), ("viewer", False)])
    def test_is_offered_it(self, house: Any, parent: owned.Owned, who: str, offered: bool) -> None:
        page = text_of(house.client(who).get(reverse("run", args=[parent.run.pk])))
        assert (form(parent.run) in page) is offered
        assert (f"{form(parent.run)}?step=4" in page) is offered
        assert page.count("Fork from here") == (4 if offered else 0)


class TestForm:
    def test_says_what_is_reused_and_what_is_asked_again(self, house: Any, parent: owned.Owned) -> None:
        page = text_of(house.client("operator").get(form(parent.run), {"step": 2}))
        assert "2 steps: 2 recorded model answers and 2 tool results" in page
        assert "240 tokens and $0.0001 stay with this run" in page
        assert "no approval is inherited" in page
        assert "checked again" not in page
        last = text_of(house.client("operator").get(form(parent.run), {"step": 4}))
        assert "the result handed in there is checked again" in last

    @pytest.mark.spec("Q5")
    def test_names_calls_that_wait_or_were_begun(self, house: Any, tmp_path: Path) -> None:
        task = make.task(house.project, created_by=house.operator)
        mine = forks.parent_in(tmp_path / "waiting", make.run(task, runnable=True, status="queued"))
        mine.drive([fakes.says("two", ("pay", {"path": "the bill"}))], Ledger().tools("pay"))
        page = text_of(house.client("operator").get(form(mine.run)))
        assert "pay the bill</code>, whatever was decided about it here" in page

    def test_makes_one_fork_however_often_it_is_posted(self, house: Any, parent: owned.Owned) -> None:
        client = house.client("operator")
        page = text_of(client.get(form(parent.run), {"step": 2}))
        key = re.search(r'name="idempotency_key" value="(\w+)"', page)[1]  # type: ignore[index]
        wish = {"step": 2, "message": "Look\r\ntwice", "max_steps": "7", "instructions": "", "idempotency_key": key}
        first, again = client.post(form(parent.run), wish), client.post(form(parent.run), wish)
        fork = Fork.objects.get()
        assert first["Location"] == again["Location"] == reverse("run", args=[fork.run_id])
        assert (fork.message, fork.limits, fork.instructions) == ("Look\ntwice", {"max_steps": 7}, None)
        other = client.post(form(parent.run), {**wish, "step": 1})
        assert other.status_code == 422
        assert "already sent with other content" in text_of(other)

    def test_keeps_what_was_typed_when_it_is_faulty(self, house: Any, parent: owned.Owned) -> None:
        answer = house.client("operator").post(
            form(parent.run), {"step": "99", "message": "keep me", "max_steps": "many", "model": ""}
        )
        assert answer.status_code == 422
        page = text_of(answer)
        assert "the run has no such point" in page
        assert "keep me" in page
        faulty = text_of(house.client("operator").post(form(parent.run), {"step": "1", "max_steps": "many"}))
        assert "must be a whole number" in faulty

    @pytest.mark.parametrize("step", ["x", "-1", "99", "9" * 30, "1.5"])
    def test_is_calm_about_steps_that_are_none(self, house: Any, parent: owned.Owned, step: str) -> None:
        answer = house.client("operator").get(form(parent.run), {"step": step}, headers={"HX-Target": "fork-preview"})
        assert answer.status_code == 200
        assert "You cannot fork after this step" in text_of(answer)

    def test_of_a_run_that_has_not_begun_says_so(self, house: Any) -> None:
        assert "has not begun" in text_of(house.client("operator").get(form(house.run)))

    def test_asks_the_same_of_a_long_run(
        self, house: Any, parent: owned.Owned, tmp_path: Path, django_assert_max_num_queries: Any
    ) -> None:
        task = make.task(house.project, created_by=house.operator)
        long = forks.parent_in(tmp_path / "long", make.run(task, runnable=True, status="queued"))
        turns = [fakes.says(f"{number}", ("act", {"at": number})) for number in range(60)]
        long.drive([*turns, fakes.done()], Ledger().tools())
        client = house.client("operator")
        for run in (parent.run, long.run):
            with django_assert_max_num_queries(18 + SESSION_AND_USER):
                client.get(form(run))


class TestLineage:
    def test_both_runs_name_the_other(self, house: Any, pair: tuple[Run, Run]) -> None:
        one, other = pair
        client = house.client("viewer")
        theirs = text_of(client.get(reverse("run", args=[one.pk])))
        ours = text_of(client.get(reverse("run", args=[other.pk])))
        assert f'href="{reverse("run", args=[other.pk])}">after step 2</a>' in theirs
        assert f'href="{reverse("run", args=[one.pk])}#step-2">another run</a> after step 2' in ours
        assert versus(one, other) in theirs
        assert versus(one, other) in ours

    def test_the_list_tells_a_fork_from_its_parent(self, house: Any, pair: tuple[Run, Run]) -> None:
        page = text_of(house.client("viewer").get(reverse("runs")))
        assert page.count("fork after step 2") == 1

    def test_a_fork_says_what_it_took_over(self, house: Any, pair: tuple[Run, Run]) -> None:
        page = text_of(house.client("viewer").get(reverse("run", args=[pair[1].pk])))
        assert page.count(">reused</span>") == 2
        assert "Forked here from another run, after its step 2" in page
        assert "Look twice" in page


class TestCompare:
    def test_aligns_what_is_shared_and_sets_the_rest_side_by_side(self, house: Any, pair: tuple[Run, Run]) -> None:
        page = text_of(house.client("viewer").get(versus(*pair)))
        assert "The first 2 steps are shared" in page
        assert page.count('class="beside-shared"') == 2
        assert page.count('data-of="A"') == page.count('data-of="B"') == 2
        assert "at: 3" in page
        assert "at: 9" in page
        assert "The end." in page
        assert "Nearly." in page

    def test_asks_for_itself_only_while_one_of_the_two_is_at_work(self, house: Any, pair: tuple[Run, Run]) -> None:
        client = house.client("viewer")
        settled = text_of(client.get(versus(*pair), headers={"HX-Target": "comparison"}))
        assert "runs-changed" not in settled
        at_work = make.run(pair[0].task)
        address = f"{versus(pair[0], at_work)}?after=1"
        assert f'hx-get="{address}" hx-trigger="runs-changed from:body' in text_of(client.get(address))
        part = text_of(client.get(address, headers={"HX-Target": "comparison"}))
        assert part.startswith('<div id="comparison"')
        assert "<html" not in part

    def test_says_when_the_calls_were_the_same(self, house: Any, parent: owned.Owned) -> None:
        run = fork_run(actor=house.operator, run=parent.run, step=2).run
        mine = forks.begin(run)
        mine.drive([fakes.says("I do 3", ("act", {"at": 3})), fakes.done("All is well.\nThe end.")], Ledger().tools())
        page = text_of(house.client("viewer").get(versus(parent.run, run)))
        assert page.count("same calls as A") == 2
        assert "Both results are identical." in page

    def test_siblings_share_what_both_took_over(self, house: Any, pair: tuple[Run, Run]) -> None:
        sibling = forks.begin(fork_run(actor=house.operator, run=pair[0], step=1).run)
        page = text_of(house.client("viewer").get(versus(pair[1], sibling.run)))
        assert "The first step is shared" in page
        assert page.count('class="beside-shared"') == 1

    def test_strangers_share_nothing(self, house: Any, pair: tuple[Run, Run]) -> None:
        page = text_of(house.client("viewer").get(versus(pair[0], house.run)))
        assert "share no history" in page
        assert "Shown once both runs have ended" in page

    def test_long_runs_come_in_pages_at_the_same_price(
        self, house: Any, parent: owned.Owned, tmp_path: Path, django_assert_max_num_queries: Any
    ) -> None:
        task = make.task(house.project, created_by=house.operator)
        long = forks.parent_in(tmp_path / "long", make.run(task, runnable=True, status="queued"))
        turns = [fakes.says(f"{number}", ("act", {"at": number})) for number in range(1, 100)]
        long.drive([*turns, fakes.done()], Ledger().tools())
        long.run.refresh_from_db()
        fork = forks.begin(fork_run(actor=house.operator, run=long.run, step=50).run)
        client = house.client("viewer")
        with django_assert_max_num_queries(17 + SESSION_AND_USER):
            page = text_of(client.get(versus(long.run, fork.run)))
        assert numbers(page) == list(range(49, 89))
        assert numbers(text_of(client.get(versus(long.run, fork.run), {"after": "88"}))) == list(range(89, 101))
        assert numbers(text_of(client.get(versus(long.run, fork.run), {"after": "0"}))) == list(range(1, 41))
        assert len(page) < 200_000

    @pytest.mark.parametrize("after", ["x", "-1", "9" * 12, "²"])
    def test_addresses_that_make_no_sense_are_not_found(self, house: Any, pair: tuple[Run, Run], after: str) -> None:
        client = house.client("viewer")
        assert client.get(versus(*pair), {"after": after}).status_code == 404
        assert client.get(versus(pair[0], pair[0])).status_code == 404
        assert client.get(reverse("run-compare", args=[pair[0].pk, uuid.uuid4()])).status_code == 404

    def test_hostile_text_stays_text(self, house: Any, tmp_path: Path) -> None:
        task = make.task(house.project, title=HOSTILE[:190], created_by=house.operator)
        mine = forks.parent_in(tmp_path / "hostile", make.run(task, runnable=True, status="queued"))
        mine.drive([fakes.says(HOSTILE, ("act", {"at": HOSTILE})), fakes.done(HOSTILE)], Ledger().tools())
        mine.run.refresh_from_db()
        fork = forks.begin(fork_run(actor=house.operator, run=mine.run, step=1, message=HOSTILE).run)
        fork.drive([fakes.done(f"{HOSTILE} too")], Ledger().tools())
        client = house.client("operator")
        for address in (versus(mine.run, fork.run), form(mine.run), reverse("run", args=[fork.run.pk])):
            assert dangers(text_of(client.get(address))) == []


def numbers(page: str) -> list[int]:
    return [int(number) for number in re.findall(r'<th scope="row" class="num">(\d+)</th>', page)]

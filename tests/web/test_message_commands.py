"""A command that does not exist is refused at every door alike, and told to no agent."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from playwright.sync_api import expect
from rest_framework.test import APIClient

from loops.models import MailboxItem, Run
from loops.services.forks import InvalidTask, fork_run
from loops.services.steering import STEERING
from loops.web.steering import ACTIONS
from tests import factories as make
from tests.web.story import begin

pytestmark = [pytest.mark.spec("K2", "X7")]
WRONG = "/approve 12"


def test_every_command_has_its_button_and_its_answer_on_pages() -> None:
    assert ACTIONS.keys() == STEERING.keys()


def by_page(house: Any) -> str:
    address = reverse("run-message", args=[house.run.pk])
    return house.client("operator").post(address, {"text": WRONG}, follow=True).content.decode()


def by_fragment(house: Any) -> str:
    address = reverse("run-message", args=[house.run.pk])
    response = house.client("operator").post(address, {"text": WRONG}, headers={"HX-Request": "true"})
    assert response.status_code == 422
    return response["HX-Trigger"]


def by_api(house: Any) -> str:
    client = APIClient()
    client.force_authenticate(house.operator)
    response = client.post(f"/api/v1/runs/{house.run.pk}/messages/", {"text": WRONG}, format="json")
    assert response.status_code == 400
    return response.content.decode()


def by_command_line(house: Any) -> str:
    with pytest.raises(CommandError) as refused:
        call_command("agentops", "--as", "olga", "message", str(house.run.pk), WRONG, stdout=StringIO())
    return str(refused.value)


@pytest.mark.parametrize("door", [by_page, by_fragment, by_api, by_command_line])
def test_an_unknown_command_is_refused_with_the_known_ones(house: Any, door: Callable[[Any], str]) -> None:
    said = door(house)
    assert "There is no command /approve, and nothing was sent." in said
    assert "/stop, /pause, /resume" in said
    assert not MailboxItem.objects.exists()


@pytest.mark.spec("D1", "K1")
@pytest.mark.parametrize(("text", "kind", "continues"), [
    ("stop this now, please", "stop", False), ("stop using tabs", "message", True), ("use spaces", "message", False),
])  # fmt: skip
def test_a_message_that_only_sounds_like_a_wish_to_stop_says_how_to_stop(
    house: Any, text: str, kind: str, *, continues: bool
) -> None:
    """At the page and the command line alike."""
    begin(house.run)
    address = reverse("run-message", args=[house.run.pk])
    page = house.client("operator").post(address, {"text": text}, headers={"HX-Request": "true"})["HX-Trigger"]
    out = StringIO()
    call_command("agentops", "--as", "olga", "message", str(house.run.pk), text, stdout=out)
    assert set(MailboxItem.objects.values_list("kind", flat=True)) == {kind}
    for said in (page, out.getvalue()):
        assert ("the run continues" in said and "/stop" in said) is continues


@pytest.mark.parametrize("text", ["/stop", WRONG])
def test_a_fork_begins_with_no_command(house: Any, text: str) -> None:
    begin(house.run)
    make.step(house.run, 1)
    with pytest.raises(InvalidTask) as refused:
        fork_run(actor=house.operator, run=house.run, message=text)
    assert "is a command" in refused.value.errors["message"]


@pytest.mark.django_db(transaction=True)
def test_what_was_refused_stays_in_the_box(desk: Any, live_site: str) -> None:
    from django.test import Client

    client = Client()
    client.force_login(desk.world.author)
    desk.context.add_cookies(
        [{"name": "agentops_session", "value": client.cookies["agentops_session"].value, "url": live_site}]
    )
    Run.objects.filter(pk=desk.world.run.pk).update(status="thinking")
    desk.goto(f"{desk.site}/runs/{desk.world.run.pk}/")
    field = desk.locator("#say-text")
    field.fill(WRONG)
    field.press("Enter")
    expect(desk.locator("#toasts")).to_contain_text("There is no command /approve")
    expect(field).to_have_value(WRONG)
    field.fill("Mind the totals")
    field.press("Enter")
    expect(field).to_have_value("")
    assert MailboxItem.objects.get().payload == {"text": "Mind the totals"}

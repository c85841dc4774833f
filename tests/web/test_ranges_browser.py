"""The bounds of a person as the browser shows them: ranges follow the project, a page without a share says why."""

import time

import pytest
import redis
from django.conf import settings
from django.test import Client
from playwright.sync_api import expect

from agentops.settings import MOST_SOCKETS
from loops.models import Membership, Policy
from loops.web.live.consumers import ALL_TAKEN
from loops.web.live.socket_quota import KEY
from tests import factories as make

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("S1", "R2")]


@pytest.fixture
def browsing(live_site, page, house):
    client = Client()
    client.force_login(house.operator)
    name = "agentops_session"
    page.context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": live_site}])
    page.site = live_site
    return page


def test_the_ranges_beside_the_limits_follow_the_project(browsing, house):
    other = make.project("Refunds")
    Membership.objects.create(project=other, user=house.operator, role="operator")
    for project, most in ((house.project, 250), (other, 40)):
        make.agent(project, name=f"Engineer of {project}")
        given = {"task_limits": {"max_steps": most}, "criterion_seconds": most * 60}
        Policy.objects.update_or_create(project=project, defaults=given)
    browsing.goto(f"{browsing.site}/tasks/new/")
    browsing.get_by_text("Custom limits").click()
    said, criterion = browsing.locator("#range-max_steps"), browsing.locator("#criterion-time")
    for project, most, time_each in ((other, 40, "40 min"), (house.project, 250, "4 h 10 min")):
        browsing.select_option("#project", str(project.pk))
        expect(said).to_have_text(f"1 to {most}")
        expect(criterion).to_have_text(time_each)
    expect(said).to_have_count(1)
    expect(criterion).to_have_count(1)


def test_a_page_without_a_share_says_what_to_do_and_goes_live_when_there_is_one(browsing, house):
    """The other pages are open in another process: their shares stand in Valkey."""
    key = KEY.format(house.operator.pk)
    with redis.Redis.from_url(settings.REDIS_URL) as valkey:
        valkey.zadd(key, {f"elsewhere-{number}": time.time() + 600 for number in range(MOST_SOCKETS)})
        browsing.goto(f"{browsing.site}/runs/")
        said = browsing.locator("#lost")
        expect(said).to_have_text(ALL_TAKEN)
        expect(said).to_be_visible()
        valkey.delete(key)
        expect(browsing.locator("#live")).to_have_attribute("data-state", "live")
        expect(said).to_be_hidden()

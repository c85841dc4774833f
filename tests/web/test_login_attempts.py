"""Log-ins: too many failures wait, at every door that takes a password, and each is in the audit log."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from agentops.login import attempts, links
from agentops.ops import relaxations
from loops.models import AuditEvent

pytestmark = [pytest.mark.django_db, pytest.mark.spec("S4", "N2")]
PASSWORD = "correct horse battery"
DOORS = ("/login/", "/admin/login/")


@pytest.fixture
def ada(db: Any) -> Any:
    cache.clear()
    return get_user_model().objects.create_superuser("ada", password=PASSWORD)


def log_in(password: str, name: str = "ada", door: str = "/login/", address: str = "192.0.2.1", **more: Any) -> Any:
    return Client(REMOTE_ADDR=address, **more).post(door, {"username": name, "password": password})


def kinds() -> list[str]:
    return list(AuditEvent.objects.filter(kind__startswith="login.").order_by("id").values_list("kind", flat=True))


@pytest.mark.parametrize("door", DOORS)
def test_a_right_password_waits_too_after_five_wrong_ones(ada: Any, door: str) -> None:
    answers = [log_in("wrong", door=door).status_code for _ in range(5)]
    assert answers == [200] * 4 + [429]
    for other in DOORS:
        held = log_in(PASSWORD, door=other)
        assert held.status_code == 429
        assert held["Retry-After"] == "900"
        assert "Try again in 15 minutes" in held.content.decode()
        assert "sessionid" not in held.cookies
    assert log_in(PASSWORD, address="192.0.2.2").status_code == 302, "from elsewhere the same person comes in"
    assert log_in(PASSWORD, name="bob").status_code == 200, "another name from there may try"


def test_the_wait_ends(ada: Any, time_machine: Any) -> None:
    for _ in range(5):
        log_in("wrong")
    time_machine.move_to(timezone.now() + attempts.WAIT * 1.01)
    assert log_in(PASSWORD).status_code == 302


def test_trying_on_does_not_prolong_it(ada: Any, time_machine: Any) -> None:
    for _ in range(5):
        log_in("wrong")
    began = timezone.now()
    time_machine.move_to(began + attempts.WAIT * 0.9)
    assert log_in("wrong").status_code == 429
    time_machine.move_to(began + attempts.WAIT * 1.01)
    assert log_in(PASSWORD).status_code == 302


def test_many_names_from_one_address_wait(ada: Any) -> None:
    answers = [log_in("wrong", name=f"name{number}").status_code for number in range(25)]
    assert answers == [200] * 24 + [429]
    assert log_in(PASSWORD).status_code == 429
    assert log_in(PASSWORD, address="192.0.2.2").status_code == 302


def test_one_name_from_many_addresses_waits(ada: Any) -> None:
    answers = [log_in("wrong", address=f"198.51.100.{number}").status_code for number in range(100)]
    assert answers == [200] * 99 + [429]
    assert log_in(PASSWORD).status_code == 429


def test_a_log_in_forgets_the_failures_of_its_own_name_and_address_alone(ada: Any) -> None:
    get_user_model().objects.create_user("eve", password=PASSWORD)
    for _ in range(4):
        log_in("wrong")
        log_in("wrong", name="bob")
        log_in("wrong", address="192.0.2.9")
    assert log_in(PASSWORD).status_code == 302
    assert log_in("wrong", address="192.0.2.9").status_code == 429, "who guesses elsewhere is not let off by it"
    assert [log_in("wrong").status_code for _ in range(4)] == [200] * 4
    assert log_in(PASSWORD, name="eve").status_code == 302
    assert log_in("wrong", name="bob").status_code == 429, "an own account clears nobody else's failures"


def test_a_link_lets_in_meanwhile(ada: Any) -> None:
    for _ in range(5):
        log_in("wrong")
    assert Client(REMOTE_ADDR="192.0.2.1").post(links.issue(ada)).status_code == 302
    assert kinds()[-1] == "login.succeeded"


def test_every_log_in_and_failure_is_kept_and_a_wait_once(ada: Any) -> None:
    for _ in range(9):
        log_in("wrong")
    log_in(PASSWORD, address="192.0.2.2")
    assert kinds().count("login.locked") == 1
    assert kinds().count("login.failed") in (4, 5)
    assert kinds()[-1] == "login.succeeded"
    failed = AuditEvent.objects.filter(kind="login.failed").first()
    assert failed is not None
    assert failed.detail == {"name": "ada", "address": "192.0.2.1", "door": "/login/"}
    assert not AuditEvent.objects.filter(detail__icontains="wrong").exists()


def test_an_address_that_the_client_writes_itself_is_not_believed(ada: Any, settings: Any) -> None:
    forged = [log_in("wrong", HTTP_X_FORWARDED_FOR=f"203.0.113.{number}").status_code for number in range(6)]
    assert forged[-1] == 429
    settings.TRUSTED_PROXIES = 1
    believed = [log_in("wrong", HTTP_X_FORWARDED_FOR=f"9.9.9.9, 203.0.113.{number}").status_code for number in range(6)]
    assert believed == [200] * 6
    forged = [log_in("wrong", HTTP_X_FORWARDED_FOR=f"9.9.9.{number}, 203.0.113.77").status_code for number in range(6)]
    assert forged[-1] == 429


WRITTEN = {
    "203.0.113.9:5555": "203.0.113.9",
    "[2001:db8::1]:443": "2001:db8::1",
    '"[2001:db8::1]"': "2001:db8::1",
    "fe80::1%eth0": "fe80::1",
    "::ffff:203.0.113.9": "203.0.113.9",
    "unknown": "192.0.2.1",
    "1.2.3.4.5:6": "192.0.2.1",
}
"""What proxies write of where a request came from, and what is kept of it: an address, or the proxy's own."""


@pytest.mark.parametrize(("written", "address"), WRITTEN.items())
def test_whatever_a_proxy_writes_people_log_in(ada: Any, settings: Any, written: str, address: str) -> None:
    settings.TRUSTED_PROXIES = 1
    assert log_in("wrong", HTTP_X_FORWARDED_FOR=f"9.9.9.9, {written}").status_code == 200
    assert log_in(PASSWORD, HTTP_X_FORWARDED_FOR=f"9.9.9.9, {written}").status_code == 302
    kept = AuditEvent.objects.filter(kind__startswith="login.").values_list("detail__address", flat=True)
    assert list(kept) == [address] * 2


def test_addresses_of_one_ipv6_network_are_one_and_kept_whole(ada: Any) -> None:
    answers = [log_in("wrong", address=f"2001:db8:1:2::{number}").status_code for number in range(1, 6)]
    assert answers == [200] * 4 + [429]
    assert log_in(PASSWORD, address="2001:db8:1:2:ffff::1").status_code == 429
    assert log_in(PASSWORD, address="2001:db8:1:3::1").status_code == 302, "another network is somebody else"
    kept = AuditEvent.objects.filter(kind="login.failed").order_by("id").values_list("detail__address", flat=True)
    assert kept[0] == "2001:db8:1:2::1"


def test_a_log_in_forgets_the_failures_of_its_own_ipv6_network(ada: Any) -> None:
    for _ in range(2):
        assert [log_in("wrong", address="2001:db8:1:2::1").status_code for _ in range(4)] == [200] * 4
        assert log_in(PASSWORD, address="2001:db8:1:2::2").status_code == 302


def test_behind_a_proxy_that_nobody_named_strangers_keep_nobody_out(ada: Any, settings: Any) -> None:
    settings.HTTPS = True
    assert relaxations.proxies()[0] == "warning"
    assert [log_in("wrong").status_code for _ in range(30)] == [200] * 30
    settings.TRUSTED_PROXIES = 1
    assert relaxations.proxies()[0] == "ok"
    assert log_in("wrong").status_code == 429


def test_the_kinds_that_are_counted_are_those_that_have_a_limit() -> None:
    counted = [kind if isinstance(kind, list) else [kind] for kind in settings.AXES_LOCKOUT_PARAMETERS]
    assert [tuple(kind) for kind in counted] == list(attempts.MOST)
    assert min(attempts.MOST.values()) == attempts.LIMIT

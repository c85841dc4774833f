"""compose.yaml as it stands: every service's own command and environment, on real servers."""

from __future__ import annotations

import http.cookiejar
import json
import re
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlencode

import psycopg
import pytest

from agentops.embedded import postgres
from tests import composed
from tests.composed import OURS, ROOT, House
from tests.stack import wait_until

READERS = 40
OF_THE_IMAGE = {"HOST", "PORT", "AGENTOPS_STATE", "AGENTOPS_USER"}


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """Migrated once, then everything else, as `docker compose up` does it."""
    with composed.house() as found, ExitStack() as until:
        done = found.run("migrate")
        assert done.returncode == 0, done.stdout + done.stderr
        for name in OURS[1:]:
            until.enter_context(found.running(name))
        wait_until(lambda: found.is_healthy("web"), f"health: {found.said('web')[-2000:]}")
        yield found


@pytest.fixture(scope="module")
def cookie(house: House) -> str:
    """Of the first admin, who came in with the link that `migrate` printed."""
    jar = http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    link = re.findall(r"http://\S+/login/once/\S+", house.said("migrate"))[-1]
    address = house.url + link[link.index("/login/") :]
    page = browser.open(address).read().decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)[1]
    posted = urllib.request.Request(address, urlencode({"csrfmiddlewaretoken": token}).encode(), {"Referer": address})
    assert browser.open(posted).geturl() == f"{house.url}/"
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


@pytest.mark.spec("T5")
def test_every_service_starts_as_it_stands(house: House) -> None:
    wait_until(
        lambda: '"celery@' in house.run("worker", "celery", "-A", "agentops", "inspect", "ping", "-j").stdout, "it"
    )
    found = json.loads(house.run("monitor", "python", "manage.py", "doctor", "--json").stdout)
    wrong = [check for check in found if check["status"] == "error"]
    assert not wrong
    assert {"broker", "clock", "monitor", "workers"} <= {check["name"] for check in found}


@pytest.mark.spec("J4")
def test_many_people_read_at_once(house: House, cookie: str) -> None:
    """Real threads of the real server: each request has one of its own, and the database has a hundred connections."""

    def read(_: int) -> list[int]:
        return [again_where_told(f"{house.url}{path}", cookie) for path in ("/", "/runs/", "/review/")]

    with ThreadPoolExecutor(READERS) as people:
        answers = list(people.map(read, range(READERS)))
    refused = sorted({code for codes in answers for code in codes} - {200})
    assert not refused, house.said("web")[-4000:]
    assert status(f"{house.url}/readyz") == 200
    assert sessions(house) <= 20 + 16 + 4  # the pool of web, the threads of the worker, and whoever watches


@pytest.mark.spec("S4")
def test_migrating_again_changes_nothing_and_says_nothing_once_somebody_is_in(house: House, cookie: str) -> None:
    again = house.run("migrate")
    assert again.returncode == 0
    assert "/login/once/" not in again.stdout
    with owner(house) as connection:
        assert connection.execute("SELECT username, is_superuser FROM auth_user").fetchall() == [("admin", True)]


@pytest.mark.spec("T5")
def test_what_the_readme_names_reaches_every_process() -> None:
    table = (ROOT / "README.md").read_text().partition("\n## Settings")[2].partition("\n## ")[0]
    documented = {
        name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)
    }
    assert len(documented) > 20
    given = {**dict.fromkeys(documented, "given"), "POSTGRES_PASSWORD": "secret", "APP_PASSWORD": "secret"}
    services = composed.read(given)["services"]
    for name in OURS:
        reach = {*composed.environment(services[name], given), *OF_THE_IMAGE}
        only_migrate = (
            set() if name == "migrate" else {found for found in documented if "_INIT_" in found or "_OWNER_" in found}
        )
        assert documented - reach == only_migrate, name


@pytest.mark.spec("I7")
def test_keys_of_any_provider_reach_workers_and_no_other_process() -> None:
    found = composed.read({"SECRET_KEY": "s", "POSTGRES_PASSWORD": "s", "APP_PASSWORD": "s"})["services"]
    assert found["worker"]["env_file"] == [{"path": "worker.env", "required": False}]
    assert [name for name in found if "env_file" in found[name]] == ["worker"]


@pytest.mark.spec("J4")
def test_all_processes_share_one_state_folder() -> None:
    found = composed.read({"SECRET_KEY": "s", "POSTGRES_PASSWORD": "s", "APP_PASSWORD": "s"})
    image = composed.of_the_image()["AGENTOPS_STATE"]
    for name in OURS:
        assert found["services"][name]["volumes"] == [f"state:{image}"], name
        assert found["services"][name]["environment"]["AGENTOPS_STATE"] == image
    assert "state" in found["volumes"]


@pytest.mark.parametrize("missing", ["SECRET_KEY", "POSTGRES_PASSWORD", "APP_PASSWORD"])
def test_there_are_no_default_secrets(missing: str) -> None:
    given = {"SECRET_KEY": "s", "POSTGRES_PASSWORD": "s", "APP_PASSWORD": "s"}
    with pytest.raises(KeyError, match=missing):
        composed.read({**given, missing: ""})


def status(url: str, cookie: str = "") -> int:
    request = urllib.request.Request(url, headers={"Cookie": cookie} if cookie else {})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            answer.read()
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def again_where_told(url: str, cookie: str) -> int:
    """A server that cannot answer at once says to come back: on a busy machine people do."""
    for _ in range(10):
        if (answer := status(url, cookie)) != 503:
            break
    return answer


def owner(house: House) -> psycopg.Connection[tuple[object, ...]]:
    password = postgres.connection_settings(house.servers, postgres.OWNER)["PASSWORD"]
    return psycopg.connect(host=str(house.servers.run), user=postgres.OWNER, password=password, dbname="agentops")


def sessions(house: House) -> int:
    with owner(house) as connection:
        return int(connection.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = 'agentops'").fetchone()[0])

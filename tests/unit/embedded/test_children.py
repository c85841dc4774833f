"""A child process has what it needs of our environment, and no key that it does not use (SPEC I7)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentops.embedded import children

pytestmark = pytest.mark.spec("I7")
README = Path(__file__).parents[3] / "README.md"
GIVEN = {
    "PATH": "/bin",
    "HOME": "/root",
    "LC_CTYPE": "C",
    "ANTHROPIC_API_KEY": "key-of-anthropic",
    "OPENAI_API_KEY": "key-of-openai",
    "ODD_KEY": "key-of-another",
    "OPENAI_BASE_URL": "http://127.0.0.1:1/v1",
    "SECRET_KEY": "signs",
    "DATABASE_URL": "postgres://app",
    "DATABASE_OWNER_URL": "postgres://owner",
    "AGENTOPS_INIT_PASSWORD": "first",
    "AGENTOPS_STATE": "/state",
    "SENTRY_DSN": "https://x",
    "AWS_SECRET_ACCESS_KEY": "cloud",
}
KEYS = {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", "ODD_KEY"}


@pytest.mark.parametrize("kind", ["postgres", "valkey", "program"])
def test_a_server_gets_what_the_machine_needs(kind: str) -> None:
    assert set(children.environment(kind, GIVEN)) == {"PATH", "HOME", "LC_CTYPE"}


@pytest.mark.parametrize("kind", ["web", "beat", "monitor", "something new"])
def test_who_asks_no_model_has_no_key_of_one(kind: str) -> None:
    found = set(children.environment(kind, GIVEN))
    ours = {"OPENAI_BASE_URL", "SECRET_KEY", "DATABASE_URL", "AGENTOPS_STATE", children.HELD}
    assert found == {"PATH", "HOME", "LC_CTYPE"} | ours


def test_pages_know_which_keys_the_worker_has_by_name_alone() -> None:
    found = children.environment("web", GIVEN)
    assert set(found[children.HELD].split(",")) == KEYS | {"SENTRY_DSN", "AWS_SECRET_ACCESS_KEY"}
    assert not any("key-of" in value for value in found.values())


def test_the_worker_asks_models_and_owns_no_database() -> None:
    assert set(GIVEN) - set(children.environment("worker", GIVEN)) == {"DATABASE_OWNER_URL", "AGENTOPS_INIT_PASSWORD"}


def test_the_monitor_has_keys_where_it_asks_for_meanings() -> None:
    assert set(children.environment("monitor", {**GIVEN, "MONITOR_EMBEDDINGS": "meanings"})) >= KEYS


def test_what_settings_of_ones_own_read_is_named() -> None:
    given = {**GIVEN, "AGENTOPS_PASS": "SENTRY_DSN, NOT_SET"}
    assert children.environment("web", given)["SENTRY_DSN"] == "https://x"
    assert "SENTRY_DSN" not in children.environment("postgres", given)


def test_nobody_can_pass_the_owner_on() -> None:
    given = {**GIVEN, "AGENTOPS_PASS": "DATABASE_OWNER_URL"}
    assert "DATABASE_OWNER_URL" not in children.environment("web", given)


def test_every_setting_of_the_readme_reaches_the_pages() -> None:
    table = README.read_text().partition("\n## Settings")[2].partition("\n## ")[0]
    named = {name for row in re.findall(r"^\| (`.*?) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)}
    found = set(children.environment("web", dict.fromkeys(named, "given")))
    assert named - found == {"ANTHROPIC_API_KEY", "OPENAI_API_KEY", *(set(children.OF_THE_OWNER) & named)}

"""A fresh installation lets its first admin in, once, and never by a password that somebody could know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import CommandError, call_command, load_command_class

from agentops.embedded.paths import Paths
from agentops.login import accounts

pytestmark = [pytest.mark.spec("S4"), pytest.mark.usefixtures("transactional_db")]
PASSWORD = "correct horse battery staple"


def migrate(*flags: str) -> None:
    """As from a terminal."""
    command = load_command_class("agentops", "migrate")
    command.by_hand = True
    call_command(command, *flags, verbosity=0)


@pytest.fixture(autouse=True)
def nothing_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USERNAME", "EMAIL", "PASSWORD"):
        monkeypatch.delenv(f"AGENTOPS_INIT_{name}", raising=False)


def test_with_a_password_it_is_made_from_it(monkeypatch: pytest.MonkeyPatch, capsys: Any, caplog: Any) -> None:
    monkeypatch.setenv("AGENTOPS_INIT_USERNAME", "grace")
    monkeypatch.setenv("AGENTOPS_INIT_EMAIL", "grace@console.example")
    monkeypatch.setenv("AGENTOPS_INIT_PASSWORD", PASSWORD)
    migrate()
    grace = User.objects.get()
    assert (grace.username, grace.email, grace.is_superuser, grace.is_staff) == (
        "grace",
        "grace@console.example",
        True,
        True,
    )
    assert grace.check_password(PASSWORD)
    said = "".join(capsys.readouterr())
    assert "Made the admin grace" in said
    assert PASSWORD not in said + caplog.text
    assert "AGENTOPS_INIT_PASSWORD" not in os.environ, "processes that are started later would inherit it"


def test_a_server_has_the_group_of_admins_and_what_was_taken_from_it_stays_taken() -> None:
    """Without it nobody but superusers could open the admin of an installation that has no demo."""
    migrate()
    admins = Group.objects.get(name="admin")
    ada = User.objects.create_user("ada", password="before", is_staff=True)
    ada.groups.add(admins)
    assert {"loops.change_policy", "loops.view_run"} <= ada.get_all_permissions()
    admins.permissions.remove(admins.permissions.get(codename="change_policy"))
    migrate()
    after = User.objects.get(username="ada").get_all_permissions()
    assert "loops.change_policy" not in after
    assert "loops.view_run" in after


def test_who_is_there_stays_as_they_are(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    User.objects.create_superuser("ada", password="before")
    monkeypatch.setenv("AGENTOPS_INIT_PASSWORD", PASSWORD)
    migrate()
    assert [user.username for user in User.objects.all()] == ["ada"]
    assert User.objects.get().check_password("before")
    assert "".join(capsys.readouterr()) == ""


def test_without_one_there_is_a_link_until_somebody_came_in(client: Any, capsys: Any) -> None:
    links = []
    for _ in range(2):
        migrate()
        said = capsys.readouterr().out
        assert said.startswith("Log in as admin, once, within the hour: http")
        links.append(said.split()[-1])
    assert links[0] != links[1]
    assert not User.objects.get().has_usable_password(), "nobody knows a password for it"
    path = links[1][links[1].index("/login/") :]
    assert client.post(path).status_code == 302
    assert client.post(path).status_code == 410
    migrate()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("password", ["hunter2", "qwertyuiop", "graceful"])
def test_a_weak_password_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, password: str) -> None:
    monkeypatch.setenv("AGENTOPS_INIT_USERNAME", "graceful1")
    monkeypatch.setenv("AGENTOPS_INIT_PASSWORD", password)
    with pytest.raises(CommandError, match="AGENTOPS_INIT_") as refused:
        migrate()
    assert password not in str(refused.value)
    assert not User.objects.exists()


@pytest.mark.parametrize("flags", [("--plan",), ("--check",), ("auth",), ("--fake",)])
def test_half_a_migration_makes_nobody(flags: tuple[str, ...]) -> None:
    migrate(*flags)
    assert not User.objects.exists()


def test_a_program_that_migrates_makes_nobody() -> None:
    call_command("migrate", verbosity=0)
    assert not User.objects.exists()


def test_one_machine_gets_a_password_of_its_own(tmp_path: Path) -> None:
    """`up` on a machine shows it, and keeps it where only its owner reads."""
    paths = Paths(tmp_path)
    password = accounts.ensure_admin(paths)
    assert password
    assert len(password) >= 16
    assert User.objects.get(username="admin").check_password(password)
    assert paths.admin_password.stat().st_mode & 0o077 == 0
    assert accounts.ensure_admin(paths) is None


def test_one_machine_takes_the_password_that_was_given(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTOPS_INIT_PASSWORD", PASSWORD)
    assert accounts.ensure_admin(Paths(tmp_path)) is None
    assert User.objects.get().check_password(PASSWORD)
    assert not (tmp_path / "admin-password").exists()

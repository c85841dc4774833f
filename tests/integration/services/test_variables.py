"""Variables of a workspace reach its set-up and every command; named secrets reach the set-up alone (J4, S3)."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from gates.models import Gate
from loops import jobs, masking
from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import never_stops
from loops.models import AccessRule, AuditEvent, Run, Setup, ToolCallRecord, Workspace
from loops.runs.composition import rejudge
from loops.runs.drive import drive
from loops.services import preflight, setups
from loops.services.access import NotAllowed
from loops.services.models import ensure_script
from loops.services.people import NotPossible
from loops.services.tasks import submit_task
from loops.tools.sandbox import capability
from loops.workspaces import copies
from loops.workspaces import setups as kept
from loops.workspaces.folder_copy import WorkspaceElsewhere
from tests import factories as make
from tests.decisions import decide
from tests.integration.services.test_setups import LEVELS, Shop
from tests.unit.tools.harness import reachable

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("J4", "I7")]
SECRET = "Tr1ckle-9f2c77-mossy"
DIGEST = hashlib.sha256(SECRET.encode()).hexdigest()
MADE = "mkdir .venv && echo x > .venv/it"
HOLDS = 'test "$SHOP_MODE" = "two words"'
DONE = ("task_completion", {"result": "Done."})


@pytest.fixture
def shop(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Shop:
    settings.AGENTOPS_WORKSPACES = str(reachable(tmp_path) / "runs")
    monkeypatch.setattr("loops.storage.dispatch.dispatch", lambda job, after=0, **given: None)
    monkeypatch.setattr(masking, "_masker", masking.Masker({"APP_PASSWORD": "mellow-otter-41"}))
    monkeypatch.setenv("SHOP_TOKEN", SECRET)
    shop = Shop(tmp_path / "shop")
    shop.agent.actor_model = ensure_script("never_stops", pace=0)
    shop.agent.save()
    return shop


@pytest.fixture(params=LEVELS, ids=["namespaces", "confined"])
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    found = capability.probe()
    assert found.level == capability.FULL, found.warning
    weaker = capability.SandboxLevel(request.param, "as asked")
    for module in ("runs.composition", "workspaces.installation", "workspaces.networked", "workspaces.setups"):
        monkeypatch.setattr(f"loops.{module}.sandbox_level", lambda: weaker)
    return request.param


def sets_up(shop: Shop, **stated: Any) -> Setup:
    shop.states(shop.boss, **stated)
    made = setups.run(actor=shop.operator, workspace=shop.workspace)
    jobs.set_up(str(made.pk))
    made.refresh_from_db()
    return made


def begin(shop: Shop, monkeypatch: pytest.MonkeyPatch, *commands: str, access: str = "allow", check: str = "") -> Run:
    """A run whose agent runs these, one a step."""
    AccessRule.objects.filter(project=shop.project, operation="execute").update(access=access)
    calls = [("run_command", {"command": command}) for command in commands]
    turns = [Turn(text="I do it.", calls=(call,)) for call in (*calls, DONE)]
    script = Script(name="never_stops", summary="", play=lambda request, number: turns[min(number, len(turns) - 1)])
    monkeypatch.setattr(never_stops, "SCRIPT", script)
    criteria = [{"text": "It holds", "command": check}] if check else []
    task = {"goal": "Do it", "workspace": shop.workspace, "criteria": criteria, "final_review": "never"}
    return submit_task(actor=shop.boss, project=shop.project, agent=shop.agent, **task).run


def approve(shop: Shop, run: Run) -> Gate:
    gate = Gate.objects.get(run=run, status="open")
    decide(actor=shop.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
    return gate


def ends(shop: Shop, run: Run) -> Run:
    """Everything that is asked is approved."""
    for _ in range(10):
        if drive(run.pk, "test") == "ended":
            break
        approve(shop, run)
    run.refresh_from_db()
    return run


def test_they_reach_the_set_up_the_agent_and_the_criteria(
    shop: Shop, level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = sets_up(shop, command=f'{MADE} && echo "$SHOP_MODE"', variables={"SHOP_MODE": "two words", "CI": "1"})
    assert (made.state, made.why_not, made.log) == ("ready", "", "two words\n")
    run = ends(shop, begin(shop, monkeypatch, 'echo "$SHOP_MODE, $CI" > seen.txt', check=HOLDS))
    assert (run.status, run.end_reason) == ("completed", "criteria_met")
    assert Path(run.workspace_path, "seen.txt").read_text() == "two words, 1\n"


@pytest.mark.parametrize(("variables", "status"), [({"SHOP_MODE": "two words"}, "passed"), ({}, "failed")])
def test_they_reach_commands_that_are_tried(shop: Shop, variables: dict[str, str], status: str) -> None:
    shop.states(shop.admin, variables=variables)
    criteria = [{"text": "It holds", "command": HOLDS}]
    asked = preflight.ask(
        actor=shop.operator, project=shop.project, agent=shop.agent, workspace=shop.workspace, criteria=criteria
    )
    jobs.preflight(str(asked.pk))
    asked.refresh_from_db()
    assert [one["status"] for one in asked.results] == [status], asked.results


def test_those_of_another_workspace_do_not(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    other = Workspace.objects.create(project=shop.project, name="other", path="")
    setups.state(actor=shop.boss, workspace=other, stated=setups.Stated(variables={"SHOP_MODE": "two words"}))
    run = ends(shop, begin(shop, monkeypatch, 'echo "<$SHOP_MODE>" > seen.txt'))
    assert Path(run.workspace_path, "seen.txt").read_text() == "<>\n"


@pytest.mark.spec("Q5")
def test_an_approval_does_not_hold_once_they_changed(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    command = 'echo "$SHOP_MODE" > seen.txt'
    shop.states(shop.admin, variables={"SHOP_MODE": "safe"})
    run = begin(shop, monkeypatch, command, access="ask")
    drive(run.pk, "test")
    first = Gate.objects.get(run=run, status="open")
    bound = json.loads(bytes(first.subject))
    assert rejudge(run.pk, first.call_id, "run_command", {"command": command}).subject == bound, "the web sees the same"
    shop.states(shop.admin, variables={"SHOP_MODE": "drop everything"})
    approve(shop, run)
    assert drive(run.pk, "test") != "ended"
    assert not ToolCallRecord.objects.filter(run=run, tool="run_command", ok__isnull=False).exists(), "nothing ran"
    second = Gate.objects.get(run=run, status="open")
    said = "asked again: what is about to run differs from what was approved: environment"
    assert (second.reasons[0], second.call_id) == (said, first.call_id)
    run = ends(shop, run)
    assert Path(run.workspace_path, "seen.txt").read_text() == "drop everything\n"


@pytest.mark.spec("Q4", "Q5")
@pytest.mark.parametrize(("meanwhile", "asked"), [("safe", 1), ("other", 2)])
def test_what_a_reviewer_edits_is_bound_with_them(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, meanwhile: str, asked: int
) -> None:
    """The web judges the edited call, and the worker finds the very environment of when the card was made, or asks."""
    shop.states(shop.admin, variables={"SHOP_MODE": "safe"})
    run = begin(shop, monkeypatch, "true", access="ask")
    drive(run.pk, "test")
    gate = Gate.objects.get(run=run, status="open")
    edited = {"arguments": {"command": 'echo "$SHOP_MODE" > seen.txt'}}
    shop.states(shop.admin, variables={"SHOP_MODE": meanwhile})
    decide(actor=shop.boss, gate_id=gate.pk, verdict="approve_with_edits", digest=gate.digest, payload=edited)
    run = ends(shop, run)
    assert Path(run.workspace_path, "seen.txt").read_text() == f"{meanwhile}\n"
    assert Gate.objects.filter(run=run, kind="tool_approval").count() == asked


@pytest.mark.spec("Q5")
def test_a_criterion_that_was_cleared_is_asked_about_once_they_changed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = begin(shop, monkeypatch, "echo x > new.txt", HOLDS, "true", access="ask", check=HOLDS)
    shop.states(shop.admin, variables={"SHOP_MODE": "two words"})
    for _ in range(3):
        drive(run.pk, "test")
        gate = approve(shop, run)
    assert gate.view["arguments"] == {"command": "true"}
    shop.states(shop.admin, variables={"SHOP_MODE": "two words", "MORE": "1"})
    drive(run.pk, "test")
    approve(shop, run)
    drive(run.pk, "test")
    assert "criterion" in Gate.objects.get(run=run, status="open").view


def test_a_change_is_one_of_what_the_set_up_depends_on(shop: Shop) -> None:
    first = sets_up(shop, command=MADE, variables={"A": "1", "B": "2"})
    shop.states(shop.admin, variables={"B": "2", "A": "1"})
    assert kept.ready(shop.workspace, shop.folder) == first, "their order is no change"
    shop.states(shop.admin, variables={"A": "1", "B": "3"})
    with pytest.raises(WorkspaceElsewhere, match="begins"):
        kept.ready(shop.workspace, shop.folder)


def test_a_set_up_is_kept_for_what_it_was_ordered_with(shop: Shop) -> None:
    """And not for what was stated while it waited."""
    shop.states(shop.admin, command=MADE, variables={"A": "1"})
    made = setups.run(actor=shop.operator, workspace=shop.workspace)
    shop.states(shop.admin, variables={"A": "2"})
    jobs.set_up(str(made.pk))
    with pytest.raises(WorkspaceElsewhere, match="begins"):
        kept.ready(shop.workspace, shop.folder)


class TestWhoMay:
    def test_set_variables(self, shop: Shop) -> None:
        shop.states(shop.admin, variables={"A": "1", "B": "word"})
        for actor in (shop.operator, make.user("vera", viewer=shop.project)):
            with pytest.raises(NotAllowed):
                shop.states(actor, variables={})
        shop.workspace.refresh_from_db()
        assert shop.workspace.variables == {"A": "1", "B": "word"}

    def test_the_audit_log_names_them(self, shop: Shop) -> None:
        shop.states(shop.admin, variables={"A": "1", "B": "gentle"})
        shop.states(shop.admin, variables={"A": "1", "B": "brisk", "C": "x"})
        said = AuditEvent.objects.filter(kind="workspace.changed").order_by("-id")[0]
        assert (said.detail["variables"], said.detail["changed"]) == (["A", "B", "C"], ["B", "C"])
        assert "brisk" not in str(said.detail)

    @pytest.mark.spec("S3")
    def test_a_known_secret_is_refused_and_the_way_is_said(self, shop: Shop) -> None:
        with pytest.raises(NotPossible, match=r"leave it out\. Nothing was stored\. A superuser can name the variable"):
            shop.states(shop.boss, variables={"LOGIN": "ana:mellow-otter-41"})
        shop.workspace.refresh_from_db()
        assert shop.workspace.variables == {}

    @pytest.mark.spec("S4")
    def test_name_secrets(self, shop: Shop) -> None:
        shop.states(shop.admin, command=MADE)
        with pytest.raises(NotPossible, match="which secrets it gets, is for a superuser to say"):
            shop.states(shop.admin, secrets=["SHOP_TOKEN"])
        assert AuditEvent.objects.filter(kind="access.refused", actor=shop.admin).exists()
        assert shop.workspace.granted_secrets == []
        shop.states(shop.boss, secrets=["SHOP_TOKEN", "NPM_TOKEN"])
        assert shop.workspace.granted_secrets == ["NPM_TOKEN", "SHOP_TOKEN"]
        granted = AuditEvent.objects.get(kind="workspace.network")
        assert (granted.actor, granted.detail["secrets"]) == (shop.boss, ["NPM_TOKEN", "SHOP_TOKEN"])
        shop.states(shop.admin, tests="make test", secrets=["NPM_TOKEN", "SHOP_TOKEN"])
        assert shop.workspace.granted_secrets, "as it was is no change"

    @pytest.mark.spec("S4")
    @pytest.mark.parametrize("changed", [{"command": "cp -r . /tmp"}, {"variables": {"PIP_INDEX_URL": "http://evil"}}])
    def test_what_was_granted_ends_with_what_it_was_for(self, shop: Shop, changed: dict[str, Any]) -> None:
        shop.states(shop.boss, command=MADE, hosts=["pypi.org"], secrets=["SHOP_TOKEN"])
        assert shop.states(shop.admin, **changed) == [
            f"The set-up may not {what} any more: a superuser allowed it for another command or other variables."
            for what in ("reach pypi.org", "get SHOP_TOKEN")
        ]
        made = setups.run(actor=shop.operator, workspace=shop.workspace)
        assert (made.hosts, made.secrets) == ([], [])

    def test_another_grant_leaves_the_other_half_as_it_is(self, shop: Shop) -> None:
        shop.states(shop.boss, command=MADE, hosts=["pypi.org"], secrets=["SHOP_TOKEN"])
        assert shop.states(shop.boss, hosts=[]) == []
        assert (shop.workspace.granted_hosts, shop.workspace.granted_secrets) == ([], ["SHOP_TOKEN"])

    @pytest.mark.spec("S3")
    @pytest.mark.parametrize(
        "name",
        [
            *("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "SECRET_KEY", "EMAIL_URL", "AGENTOPS_X"),
            *("ANTHROPIC_API_KEY", "OUR_MODEL_KEY", "LD_PRELOAD", "PATH", "PYTHONPATH", "A B"),
        ],
    )
    def test_no_secret_of_agentops_is_named(self, shop: Shop, name: str) -> None:
        shop.agent.actor_model.api_key_env = "OUR_MODEL_KEY"
        shop.agent.actor_model.save()
        with pytest.raises(NotPossible, match=r"AgentOps' own|cannot be set|no name of a variable"):
            shop.states(shop.boss, command=MADE, secrets=[name])
        assert shop.workspace.granted_secrets == []

    def test_one_name_is_one_of_the_two(self, shop: Shop) -> None:
        with pytest.raises(NotPossible, match="SHOP_TOKEN is among the variables as well"):
            shop.states(shop.boss, command=MADE, variables={"SHOP_TOKEN": "x"}, secrets=["SHOP_TOKEN"])


@pytest.mark.spec("S3")
class TestSecrets:
    def test_the_set_up_gets_it_and_its_log_does_not(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        command = f'{MADE} && printf %s "$SHOP_TOKEN" | sha256sum; echo "token: $SHOP_TOKEN"; env >&2'
        made = sets_up(shop, command=command, secrets=["SHOP_TOKEN"])
        assert (made.state, made.why_not) == ("ready", "")
        assert DIGEST in made.log, "it had it"
        assert "token: [masked: SHOP_TOKEN]" in made.log
        assert "SHOP_TOKEN=[masked: SHOP_TOKEN]" in made.log
        look = (
            'echo "<$SHOP_TOKEN>" > seen.txt; env > all.txt; cat /proc/*/environ >> all.txt; grep -r Tr1ckle . ; true'
        )
        run = ends(shop, begin(shop, monkeypatch, look, check='test -z "$SHOP_TOKEN"'))
        assert (run.end_reason, Path(run.workspace_path, "seen.txt").read_text()) == ("criteria_met", "<>\n")
        assert SECRET not in Path(run.workspace_path, "all.txt").read_text()
        stored = [Setup.objects.values(), Workspace.objects.values(), AuditEvent.objects.values()]
        assert SECRET not in str([list(rows) for rows in stored])

    def test_nor_does_one_without_the_grant(self, shop: Shop) -> None:
        made = sets_up(shop, command=f'{MADE} && echo "<$SHOP_TOKEN>"')
        assert made.log == "<>\n"

    def test_a_file_that_keeps_it_is_no_part_of_a_set_up(self, shop: Shop) -> None:
        command = f'{MADE} && mkdir .venv/etc && echo "//npm/:_authToken=$SHOP_TOKEN" > .venv/etc/auth'
        made = sets_up(shop, command=command, secrets=["SHOP_TOKEN"])
        assert (made.state, made.why_not) == (
            "failed",
            ".venv/etc/auth holds the value of SHOP_TOKEN, and runs would read it. Have the command leave it out.",
        )
        assert not kept.folder(made).exists()
        assert [path.name for path in copies.root().iterdir() if path.name.startswith("setup-")] == []

    @pytest.mark.parametrize(
        ("value", "why"),
        [
            ("", "Its worker has no SHOP_TOKEN: set it where"),
            ("short", "too short"),
            ("/etc/passwd", "kept out of the log"),
        ],
    )
    def test_what_cannot_be_given(self, shop: Shop, monkeypatch: pytest.MonkeyPatch, value: str, why: str) -> None:
        monkeypatch.setenv("SHOP_TOKEN", value)
        made = sets_up(shop, command=MADE, secrets=["SHOP_TOKEN"])
        assert (made.state, why in made.why_not) == ("failed", True), made.why_not

    def test_a_key_of_a_model_that_was_added_since_is_not_given(self, shop: Shop) -> None:
        shop.states(shop.boss, command=MADE, secrets=["SHOP_TOKEN"])
        shop.agent.actor_model.api_key_env = "SHOP_TOKEN"
        shop.agent.actor_model.save()
        made = setups.run(actor=shop.operator, workspace=shop.workspace)
        jobs.set_up(str(made.pk))
        made.refresh_from_db()
        assert (made.state, "the key of a model" in made.why_not) == ("failed", True)

    def test_they_need_namespaces(self, shop: Shop, level: int) -> None:
        made = sets_up(shop, command=MADE, secrets=["SHOP_TOKEN"])
        assert made.state == ("ready" if level == capability.FULL else "failed")
        assert made.why_not.startswith("It gets SHOP_TOKEN, but") == (level != capability.FULL)

"""New task: what is submitted, what is refused, and that no word is ever lost."""

import html
import os
import re

import pytest
from django.test import Client
from django.urls import reverse

from loops.models import ModelConfig, Policy, Run, Task, Workspace
from loops.services.models import ensure_script
from tests import factories as make

pytestmark = pytest.mark.django_db
FORM = "/tasks/new/"


@pytest.fixture
def agent(house):
    return make.agent(house.project, name="Engineer")


def form(house, engineer, **changes):
    fields = {
        "project": house.project.pk,
        "agent": engineer.pk,
        "goal": "Fix the failing test.",
        "criterion": ["All tests pass", ""],
        "command": ["pytest -q", ""],
        "idempotency_key": "k1",
    }
    return {**fields, **changes}


@pytest.mark.spec("J6")
def test_a_task_becomes_a_queued_run(house, agent):
    ModelConfig.objects.update(input_usd_per_mtok=1, output_usd_per_mtok=2)
    response = house.client("operator").post(FORM, form(house, agent, max_steps="7", max_cost_usd="0.5"))
    run = Run.objects.get(task__title="Fix the failing test.")
    assert response["Location"] == reverse("run", args=[run.pk])
    assert run.task.criteria == [{"text": "All tests pass", "command": "pytest -q"}]
    assert run.task.limits == {"max_steps": 7, "max_cost_microusd": 500_000}
    assert (run.status, run.max_steps) == ("queued", 7)


def test_a_second_press_submits_nothing_new(house, agent):
    client = house.client("operator")
    addresses = {client.post(FORM, form(house, agent))["Location"] for _ in range(2)}
    assert len(addresses) == 1
    assert Task.objects.filter(goal="Fix the failing test.").count() == 1


def test_a_second_press_is_told_so(house, agent):
    client = house.client("operator")
    first, second = (client.post(FORM, form(house, agent), follow=True).content.decode() for _ in range(2))
    assert "This was already sent. This is the run that it made." in second
    assert "already sent" not in first


@pytest.mark.spec("J6")
def test_a_form_that_was_sent_with_other_content_can_be_sent_again(house, agent):
    """After the browser's Back, say: the form still has the key of its run."""
    client = house.client("operator")
    client.post(FORM, form(house, agent))
    changed = form(house, agent, goal="Fix the other test.")
    refused = client.post(FORM, changed)
    page = refused.content.decode()
    assert (refused.status_code, Task.objects.filter(goal="Fix the other test.").count()) == (422, 0)
    assert "This form was already sent with other content" in page
    key = re.search(r'name="idempotency_key" value="(\w+)"', page)[1]
    assert client.post(FORM, {**changed, "idempotency_key": key}).status_code == 302
    assert Task.objects.filter(goal__in=["Fix the failing test.", "Fix the other test."]).count() == 2


def test_the_preview_names_the_share_at_which_the_agent_is_warned(house, agent):
    Policy.objects.filter(project=house.project).update(warn_at=0.6)
    page = house.client("operator").post(f"{FORM}preview/", form(house, agent)).content.decode()
    assert "The agent is warned at 60 %." in page


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"max_cost_usd": "-1"}, "Cost must be an amount from $0 to $100,000"),
        ({"criterion": ["fine", "x" * 3_000], "command": ["", ""]}, "Criterion 2 "),
        ({"criterion": ["fine"], "command": ["x" * 5_000]}, "The command of criterion 1 "),
        ({"goal": "  "}, "Say what is to be done"),
        ({"goal": "x" * 200_001}, "200,001 characters; at most 200,000 are possible"),
        ({"goal": "a\0b"}, "NUL character"),
        ({"max_steps": "0"}, "Steps must be a whole number from 1"),
        ({"max_steps": "many"}, "Steps must be a whole number from 1"),
        ({"criterion": ["x"] * 51, "command": [""] * 51}, "at most 50 are possible"),
        ({"agent": "nobody"}, "Choose an agent of"),
        ({"workspace": "0190a000-0000-7000-8000-000000000000"}, "not a workspace of"),
        ({"complexity": "impossible"}, "must be one of"),
    ],
)
def test_faults_are_named_and_nothing_typed_is_lost(house, agent, changes, said):
    kept = {"constraints_text": "Keep the API.", "title": "My title"}
    response = house.client("operator").post(FORM, form(house, agent, **kept, **changes))
    page = response.content.decode()
    assert response.status_code == 422
    assert said in page
    assert "Keep the API." in page
    assert "My title" in page
    assert Task.objects.filter(constraints_text="Keep the API.").count() == 0


def test_a_megabyte_is_refused_politely_with_every_word_kept(house, agent):
    goal = "word " * 200_000
    response = house.client("operator").post(FORM, form(house, agent, goal=goal))
    assert response.status_code == 422
    assert goal.strip() in response.content.decode()


@pytest.mark.parametrize("who", ["reviewer", "viewer", "outsider"])
def test_only_operators_submit_here(house, agent, who):
    response = house.client(who).post(FORM, form(house, agent))
    assert response.status_code == 422
    assert not Task.objects.filter(goal="Fix the failing test.").exists()


def test_people_who_may_not_submit_are_told_so(house, agent):
    assert "You may not submit tasks" in house.client("viewer").get(FORM).content.decode()


def test_rows_of_criteria_can_be_added_without_scripts(house, agent):
    response = house.client("operator").post(FORM, form(house, agent, more_criteria="1"))
    page = response.content.decode()
    assert response.status_code == 200
    assert page.split("<template")[0].count('name="criterion"') == 3
    assert "All tests pass" in page
    assert not Task.objects.filter(goal="Fix the failing test.").exists()


def test_run_again_with_changes_brings_the_task_back(house, agent):
    workspace = Workspace.objects.create(project=house.project, name="pricing")
    limits, criteria = {"max_cost_microusd": 1_500_000}, [{"text": "It builds", "command": "make"}]
    task = make.task(
        house.project, agent=agent, goal="Old goal", workspace=workspace, limits=limits, criteria=criteria,
        created_by=house.operator,
    )  # fmt: skip
    run = make.run(task)
    page = house.client("operator").get(FORM, {"from": run.pk}).content.decode()
    for text in (
        "Old goal",
        "It builds",
        'value="1.5"',
        f'value="{workspace.pk}" data-project="{house.project.pk}" selected',
    ):
        assert text in page
    foreign = house.client("outsider").get(FORM, {"from": run.pk}).content.decode()
    assert "Old goal" not in foreign


@pytest.mark.spec("D2")
def test_the_preview_says_what_will_happen_and_stores_nothing(house, agent):
    before = Task.objects.count()
    page = house.client("operator").post(reverse("task-preview"), form(house, agent, max_steps="33")).content.decode()
    for text in ("33", "yours", "<code>execute</code>", "1 of 1 criteria has a command"):
        assert text in page
    assert Task.objects.count() == before


def test_an_empty_installation_leads_its_admin_to_a_project(db):
    client = Client()
    client.force_login(make.superuser("root"))
    page = client.get(FORM).content.decode()
    assert "No project yet" in page
    assert reverse("admin:loops_project_add") in page
    assert "You may not submit tasks" not in page


def test_the_form_begins_with_a_project_that_has_an_agent(house, agent):
    assert house.elsewhere.name < house.project.name
    page = house.client("admin").get(FORM).content.decode()
    assert f'<option value="{house.project.pk}" selected>' in page


@pytest.mark.spec("X5")
def test_a_folder_that_cannot_be_used_is_said_before_a_run_says_it(house, agent, tmp_path, monkeypatch):
    real = os.access
    monkeypatch.setattr(
        os, "access", lambda path, mode: real(path, mode) and not (str(path) == str(tmp_path) and mode & os.W_OK)
    )
    shop = Workspace.objects.create(project=house.project, name="Shop", path=str(tmp_path), copy_for_each_run=False)
    said, operator = f"who may not write in {tmp_path}: `chown -R ", house.client("operator")
    assert said in html.unescape(
        operator.post(f"{FORM}preview/", form(house, agent, workspace=shop.pk)).content.decode()
    )
    boss = house.client("admin")
    saved = {"project": house.project.pk, "name": "Shop", "path": str(tmp_path)}
    page = boss.post(f"/admin/loops/workspace/{shop.pk}/change/", saved, follow=True)
    assert said in html.unescape(page.content.decode())
    boss.post(f"/admin/loops/workspace/{shop.pk}/change/", {**saved, "copy_for_each_run": "on"})
    assert said not in html.unescape(
        operator.post(f"{FORM}preview/", form(house, agent, workspace=shop.pk)).content.decode()
    )


def test_an_agent_with_a_language_model_is_proposed_before_those_that_play_scripts(house):
    played = make.agent(house.project, name="A demonstration", actor_model=ensure_script("writes_a_file"))
    make.agent(house.project, name="Engineer", actor_model=make.model(provider="openai", model_id="m"))
    page = house.client("operator").get(FORM).content.decode()
    assert page.index("Engineer") < page.index("A demonstration, scripted")
    assert f'<option value="{played.pk}" data-project="{house.project.pk}" >' in page, "it is not chosen"


@pytest.mark.spec("S4")
@pytest.mark.spec("C6")
def test_the_form_begins_with_the_workspace_that_was_come_from(house, agent):
    shop = Workspace.objects.create(project=house.project, name="shop", test_command="make test")
    page = house.client("operator").get(f"{FORM}?workspace={shop.pk}").content.decode()
    assert f'<option value="{shop.pk}" data-project="{house.project.pk}" selected' in page
    assert ('name="criterion" value="The tests pass"' in page, 'value="make test"' in page) == (True, True)
    other = Workspace.objects.create(project=house.elsewhere, name="theirs", test_command="make secret")
    for said in (other.pk, "nonsense"):
        page = house.client("operator").get(f"{FORM}?workspace={said}").content.decode()
        assert ("make secret" in page, f'{shop.pk}" data-project="{house.project.pk}" selected' in page) == (
            False,
            False,
        )

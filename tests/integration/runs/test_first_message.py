"""What a run is told before its first step: where it is, what is protected, how it is judged (SPEC X2, I7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from loops.engine import facts as f
from loops.llm.scripted.adapter import Script, Turn
from loops.llm.scripted.scripts import never_stops
from loops.models import AccessRule, Agent, Run, Workspace
from loops.runs.drive import drive
from loops.services.forks import fork_run
from loops.services.models import ensure_script
from loops.services.tasks import submit_task
from loops.storage import chain, reader
from loops.storage.rebuild import rebuild
from tests.factories import create_project

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("X2", "I7", "U1")]
REFUSED = {"path": "AGENTS.md", "content": "x"}


@pytest.fixture
def requests() -> list[Any]:
    return []


@pytest.fixture
def run(tmp_path: Path, requests: list[Any], monkeypatch: pytest.MonkeyPatch) -> Run:
    """One that reads a file and is done, in a folder that works for Python."""
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.pytest.ini_options]\n")
    turns = [
        Turn(text="I look.", calls=(("read_file", {"path": "pyproject.toml"}),)),
        Turn(text="I write.", calls=(("write_file", REFUSED),)),
        Turn(text="Done.", calls=(("task_completion", {"result": "Done."}),)),
    ]

    def play(request: Any, number: int) -> Turn:
        requests.append(request)
        return turns[min(number, len(turns) - 1)]

    monkeypatch.setattr(never_stops, "SCRIPT", Script(name="never_stops", summary="", play=play))
    boss = get_user_model().objects.create_superuser("ana", password="x")
    project = create_project(actor=boss, name="P", slug="p")
    rules = {"project": project, "operation": "write", "access": "deny"}
    AccessRule.objects.create(**rules, agent_type="general", paths=["migrations/**"], note="Ask Ana")
    AccessRule.objects.create(**rules, agent_type="reviewer", paths=["others/**"])
    agent = Agent.objects.create(project=project, name="a", actor_model=ensure_script("never_stops", pace=0))
    workspace = Workspace.objects.create(project=project, name="w", path=str(folder), protected=["db/schema.sql"])
    return submit_task(
        actor=boss, project=project, agent=agent, workspace=workspace, goal="Do it",
        criteria=[{"text": "It holds", "command": ""}], final_review="never",
    ).run  # fmt: skip


@pytest.mark.spec("I3")
def test_the_first_message_says_where_the_run_is_and_what_is_protected(run: Run, requests: list[Any]) -> None:
    drive(run.pk, "test")
    (first,) = {str(request.messages[0]) for request in requests}
    paths = ("AGENTS.md", ".venv", "`agentops.toml`", "db/schema.sql")
    for told in ("`/workspace`", "pyproject.toml (Python)", "`python3 -m pytest -q`", "It holds", *paths):
        assert told in first, told
    assert "migrations/**" in first
    assert "Ask Ana" in first
    assert "others/**" not in first, "a rule for agents of another type"
    assert "It is empty" not in first
    assert str(run.pk) not in first, "the same for each run: a provider may keep it"
    refusals = [fact for fact in reader.history(run.pk) if isinstance(fact, f.CallJudged) and fact.access == "deny"]
    assert [fact.reasons for fact in refusals] == [("'AGENTS.md' is protected (AGENTS.md): only a person changes it",)]
    assert chain.verify(run.pk).problems == []
    assert rebuild(run.pk).differences == []


def test_a_fork_is_told_the_same_words(run: Run, requests: list[Any]) -> None:
    drive(run.pk, "test")
    asked = requests[-1]
    run.refresh_from_db()
    AccessRule.objects.get(agent_type="general", note="Ask Ana").delete()
    fork = fork_run(actor=get_user_model().objects.get(), run=run, step=1, message="Look again").run
    drive(fork.pk, "test")
    assert requests[-1].messages[0] == asked.messages[0]

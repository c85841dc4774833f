"""Eight published projects, from a workspace to a delivered patch: ``make projects`` (SPEC J4, G1, O3).

Each is fetched as a source distribution by the package client of its language, gets one bug that its own tests find,
and is set up in the sandbox with the hosts of its registry alone. A coding agent, over the wire and the real SDK, looks
at the failing tests, puts the line right, and hands it in. Its patch then has to apply to the project as it was
fetched, and the project's own tests have to pass there. By hand and before a release: it needs the registries.
"""

from __future__ import annotations

import difflib
import subprocess
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from loops.models import Agent, ModelAddress, ModelConfig, Run, Setup, Workspace
from loops.services import setups
from loops.services.tasks import submit_task
from loops.workspaces import patch
from tests.e2e import plant as plants
from tests.factories import create_project
from tests.wire.say import Raw, Say, Seen
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(900), pytest.mark.spec("J4", "G1", "O3")]
PYTHON = ["pypi.org", "files.pythonhosted.org"]
NODE = ["registry.npmjs.org"]
VENV = "python3 -m venv .venv && .venv/bin/pip install -q -e . 'pytest>=8,<10'"


@dataclass(frozen=True)
class Published:
    """``right`` stands once in ``file`` of the project as it was published; ``wrong`` is the bug."""

    name: str
    version: str
    built_by: str
    file: str
    right: str
    wrong: str
    tests: str
    setup: str = VENV

    @property
    def is_node(self) -> bool:
        return self.built_by.startswith("npm")


PROJECTS = (
    Published(
        "more-itertools",
        "11.2.1",
        "flit",
        "more_itertools/more.py",
        "iterator = iter(partial(take, n, iter(iterable)), [])",
        "iterator = iter(partial(take, n + 1, iter(iterable)), [])",
        "python3 -m pytest -q tests/test_more.py -k Chunked",
    ),
    Published(
        "tomlkit",
        "0.15.2",
        "poetry-core",
        "tomlkit/_utils.py",
        "{ord(c):04x}",
        "{ord(c):02x}",
        "python3 -m pytest -q tests/test_utils.py tests/test_items.py",
        VENV + " pyyaml",
    ),
    Published(
        "humanize",
        "4.17.0",
        "hatchling",
        "src/humanize/number.py",
        "value % 100 in (11, 12, 13)",
        "value % 100 in (11, 12)",
        "python3 -m pytest -q tests/test_number.py",
        VENV + " freezegun",
    ),
    Published(
        "toolz",
        "1.2.0",
        "setuptools",
        "toolz/itertoolz.py",
        "predicate = partial(operator.is_not, itr)",
        "predicate = partial(operator.is_, itr)",
        "python3 -m pytest -q toolz/tests/test_itertoolz.py",
    ),
    Published(
        "inflection",
        "0.5.1",
        "setup.py",
        "inflection/__init__.py",
        "return word.replace('_', '-')",
        "return word.replace('_', ' ')",
        "python3 -m pytest -q test_inflection.py",
    ),
    Published(
        "minimist",
        "1.2.8",
        "npm, tape",
        "index.js",
        "(/^0x[0-9a-f]+$/i)",
        "(/^0x[0-9]+$/i)",
        "node_modules/.bin/tape 'test/**/*.js'",
        "npm install --no-save --no-package-lock --ignore-scripts tape@5",
    ),
    Published(
        "process-warning",
        "5.1.1",
        "npm, node --test",
        "index.js",
        "warning.emitted = true\n      process.emitWarning",
        "warning.emitted = false\n      process.emitWarning",
        "node --test test/",
        "npm install --no-save --no-package-lock --ignore-scripts c8@10",
    ),
    Published(
        "json-stringify-safe",
        "5.0.1",
        "npm, mocha",
        "stringify.js",
        "stack.splice(thisPos + 1)",
        "stack.splice(thisPos)",
        "node_modules/.bin/mocha test/*_test.js",
        "npm install --no-save --no-package-lock --ignore-scripts mocha@10 must@0.13 sinon@17",
    ),
)
NAMED = {one.name: one for one in PROJECTS}


def fetch(project: Published, folder: Path) -> Path:
    """The project as it was published, in a folder of its own."""
    folder.mkdir()
    if project.is_node:
        command = ["npm", "pack", "--silent", f"{project.name}@{project.version}"]
    else:
        package = f"{project.name}=={project.version}"
        command = ["python3", "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", package]
    subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=300)
    (archive,) = folder.iterdir()
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    archive.unlink()
    (inside,) = folder.iterdir()
    return inside


def seeded(project: Published, folder: Path) -> tuple[str, str]:
    """Put the bug in; (the file's text with it, without it)."""
    file = folder / project.file
    right = file.read_text()
    assert right.count(project.right) == 1, f"{project.right} stands {right.count(project.right)} times"
    wrong = right.replace(project.right, project.wrong)
    file.write_text(wrong)
    return wrong, right


def coder(diffs: dict[str, str]) -> Any:
    """Turns by the number of calls that were made: tests, the file, the change, tests, done."""

    def turn(seen: Seen) -> Say | Raw:
        project = next(one for name, one in NAMED.items() if f"[{name}]" in seen.said)
        done = len(seen.call_ids)
        ids = (f"p_{done}",)
        if done in (0, 3):
            return Say(text="I run the tests.", calls=[("run_tests", {"command": project.tests})], ids=ids)
        if done == 1:
            return Say(text="I read the file.", calls=[("read_file", {"path": project.file})], ids=ids)
        if done == 2:
            change = {"path": project.file, "diff": diffs[project.name]}
            return Say(text="This line is wrong.", calls=[("apply_diff", change)], ids=ids)
        return Say(text="They pass.", calls=[("task_completion", {"result": "The line is right again."})], ids=ids)

    return turn


@pytest.fixture
def factory(tmp_path: Path, transactional_db: None, settings: Any, monkeypatch: Any) -> Iterator[Any]:
    monkeypatch.setenv("E2E_MODEL_KEY", "key-for-nobody")
    settings.AGENTOPS_CELERY = plants.APP
    diffs: dict[str, str] = {}
    with WireServer(coder(diffs), key="key-for-nobody") as server, plants.running():
        boss = get_user_model().objects.create_superuser("boss")
        project = create_project(actor=boss, name="Published")
        project.access_rules.filter(operation="execute").update(access="allow")
        ModelAddress.objects.create(key_name="E2E_MODEL_KEY", origin=server.url, allowed_by=boss)
        model = ModelConfig.objects.create(
            name="coder", provider="anthropic", model_id="claude-test", base_url=server.url, api_key_env="E2E_MODEL_KEY"
        )
        agent = Agent.objects.create(project=project, name="Coder", actor_model=model)
        yield boss, project, agent, diffs
        assert not server.faults, server.faults


@pytest.mark.parametrize("project", PROJECTS, ids=lambda one: f"{one.name} ({one.built_by})")
def test_from_the_source_distribution_to_the_patch(factory: Any, project: Published, tmp_path: Path) -> None:
    boss, where, agent, diffs = factory
    source, pristine = fetch(project, tmp_path / "source"), fetch(project, tmp_path / "pristine")
    wrong, right = seeded(project, source)
    seeded(project, pristine)
    lines = difflib.unified_diff(wrong.splitlines(True), right.splitlines(True), project.file, project.file)
    diffs[project.name] = "".join(lines)
    workspace = Workspace.objects.create(
        project=where, name=project.name, path=str(source), allowed_by=boss, allowed_path=str(source)
    )
    hosts = NODE if project.is_node else PYTHON
    setups.state(actor=boss, workspace=workspace, stated=setups.Stated(project.setup, project.tests, hosts=hosts))
    first, took = delivered(boss, where, agent, workspace, project)
    second, again = delivered(boss, where, agent, workspace, project)
    built = Setup.objects.get(workspace=workspace)
    assert built.state == "ready"
    reached = sorted({one["host"] for one in built.requests if not one["why_not"]})
    for run in (first, second):
        result = patch.of(run)
        assert result.left_out == ()
        check = subprocess.run(
            ["git", "apply", "-p1"], input=result.diff, cwd=pristine, capture_output=True, check=False
        )
        assert check.returncode == 0, check.stderr
        assert (pristine / project.file).read_text() == right
        seeded(project, pristine)
    ratio = f"with its set-up at hand {again / took:.2f} of that"
    print(f"\n{project.name} {project.version} ({project.built_by}): {took:.1f} s, {ratio}; {', '.join(reached)}")


def delivered(boss: Any, where: Any, agent: Agent, workspace: Workspace, project: Published) -> tuple[Run, float]:
    """A run that committed with its criterion proved, and the seconds that it took."""
    began = time.monotonic()
    run = submit_task(
        actor=boss,
        project=where,
        agent=agent,
        workspace=workspace,
        goal=f"[{project.name}] The tests fail. Find out why, and put it right.",
        criteria=[{"text": "Its own tests pass", "command": project.tests}],
    ).run
    plants.wait_for_runs([run.pk], 400)
    run.refresh_from_db()
    log = Setup.objects.filter(workspace=workspace).values_list("state", "why_not", "log").first()
    assert (run.status, run.end_reason) == ("completed", "criteria_met"), (plants.told(run), log)
    return run, time.monotonic() - began

"""Nine real projects, from ``agentops init`` to a result that was delivered: ``make projects`` (SPEC J4, G1, O3, T3).

Eight are fetched as source distributions by the package client of their language, the ninth is a clone of this
repository. Each gets one bug that its own tests find. All else is typed as a person types it: ``init`` reads what the
folder says of itself, installs its packages in the sandbox with the hosts of its registry alone, tries the tests and
submits a task. A coding agent, over the wire and the real SDK, looks at the failing tests, puts the line right, and
hands it in. ``patch`` then has to apply to the project as it was fetched, ``commit`` to make the tree that was
published. By hand and before a release: it needs the registries.
"""

from __future__ import annotations

import difflib
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from agentops.embedded.process import Command
from loops.engine import facts as f
from loops.models import Project, Run, Setup, Workspace
from loops.services import steering
from loops.storage import reader
from tests.e2e import plant as plants
from tests.factories import create_project
from tests.stack import _on_test_database as on_test_database
from tests.stack import wait_until
from tests.wire.say import Raw, Say, Seen
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.timeout(2400)]
pytestmark += [pytest.mark.spec("J4", "G1", "O3", "T3")]
ROOT = Path(__file__).resolve().parents[2]
PYTEST = "python3 -m pytest -q"
PYTHON, NODE = ("files.pythonhosted.org", "pypi.org"), ("registry.npmjs.org",)
GOAL = "The tests fail. Find out why, and put it right."
PERSON = {"NAME": "Ana", "EMAIL": "ana@example.com"}


@dataclass(frozen=True)
class Real:
    """``right`` stands once in ``file`` of the project as it was published; ``wrong`` is the bug. ``tests`` are those
    that ``init`` proposes, unless ``options`` of the command say otherwise."""

    name: str
    version: str
    built_by: str
    file: str
    right: str
    wrong: str
    tests: str = PYTEST
    options: tuple[str, ...] = ()
    policy: tuple[str, ...] = ()

    @property
    def is_node(self) -> bool:
        return self.built_by.startswith("npm")


PROJECTS = (
    Real(
        "more-itertools",
        "11.2.1",
        "flit",
        "more_itertools/more.py",
        "iterator = iter(partial(take, n, iter(iterable)), [])",
        "iterator = iter(partial(take, n + 1, iter(iterable)), [])",
        "python3 -m unittest",
    ),
    Real("tomlkit", "0.15.2", "poetry-core", "tomlkit/_utils.py", "{ord(c):04x}", "{ord(c):02x}"),
    Real(
        "humanize",
        "4.17.0",
        "hatchling",
        "src/humanize/number.py",
        "value % 100 in (11, 12, 13)",
        "value % 100 in (11, 12)",
    ),
    Real(
        "toolz",
        "1.2.0",
        "setuptools",
        "toolz/itertoolz.py",
        "predicate = partial(operator.is_not, itr)",
        "predicate = partial(operator.is_, itr)",
    ),
    Real(
        "inflection",
        "0.5.1",
        "setup.py",
        "inflection/__init__.py",
        "return word.replace('_', '-')",
        "return word.replace('_', ' ')",
    ),
    Real(
        "minimist",
        "1.2.8",
        "npm, tape",
        "index.js",
        "(/^0x[0-9a-f]+$/i)",
        "(/^0x[0-9]+$/i)",
        "npx tape 'test/**/*.js'",
        ("--tests", "npx tape 'test/**/*.js'"),  # npm test asks the registry for reports, too
    ),
    Real(
        "process-warning",
        "5.1.1",
        "npm, node --test",
        "index.js",
        "if (warning.emitted === true &&",
        "if (warning.emitted === false &&",
        "npm run test:unit",
        ("--tests", "npm run test:unit"),  # npm test fetches a compiler; this leaves coverage that nothing ignores
    ),
    Real(
        "json-stringify-safe",
        "5.0.1",
        "npm, mocha",
        "stringify.js",
        "stack.splice(thisPos + 1)",
        "stack.splice(thisPos)",
        "npx mocha test/*_test.js",
        ("--tests", "npx mocha test/*_test.js"),  # npm test names a file that is not published
        ("--command-memory-mib", "8192"),  # its mocha looks at all globals, and one of Node's begins WebAssembly
    ),
)
OWN_TESTS = f"{PYTEST} -p no:playwright tests/unit/workspaces tests/unit/printable tests/unit/engine/test_trial.py"
OWN = Real(
    "this repository",
    "HEAD",
    "make, uv",
    "loops/workspaces/detection.py",
    'return Found("npm test", "package.json")',
    'return Found("npm tests", "package.json")',
    OWN_TESTS,
    ("--tests", OWN_TESTS, "--setup", "make setup", *(word for host in PYTHON for word in ("--host", host))),
    ("--workspace-mib", "3072"),
)


def agentops(*words: object) -> subprocess.CompletedProcess[bytes]:
    """Typed at a terminal of whoever set AgentOps up."""
    typed = Command("agentops", [sys.executable, "-m", "agentops", *map(str, words)])
    environ = {**os.environ, **on_test_database(typed, REDIS_URL=plants.broker()).environ}
    done = subprocess.run(
        typed.argv, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=1800, check=False
    )
    assert done.returncode == 0, f"{words[0]}: {done.stdout.decode()}\n{done.stderr.decode()}"
    return done


def git(folder: Path, *words: str, given: bytes = b"") -> str:
    who = {f"GIT_{role}_{part}": said for role in ("AUTHOR", "COMMITTER") for part, said in PERSON.items()}
    done = subprocess.run(
        ["git", *words], cwd=folder, env={**os.environ, **who}, input=given, capture_output=True, check=False
    )
    assert done.returncode == 0, f"git {words[0]}: {done.stderr.decode()}"
    return done.stdout.decode().strip()


def fetch(project: Real, folder: Path) -> Path:
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
    return inside.rename(folder / project.name)


def with_its_bug(project: Real, folder: Path) -> str:
    """Put it in; what takes it out again, as a diff."""
    file = folder / project.file
    right = file.read_text()
    assert right.count(project.right) == 1, f"{project.right} stands {right.count(project.right)} times"
    wrong = right.replace(project.right, project.wrong)
    file.write_text(wrong)
    lines = difflib.unified_diff(wrong.splitlines(True), right.splitlines(True), project.file, project.file)
    return "".join(lines)


CHEATS = {
    "tests are deleted": "find . -name node_modules -prune -o -name .venv -prune -o -name 'test*' -exec rm -rf {{}} +",
    "the process ends well": "sed -i '1i {end}' {file}",
    "a runner of its own": "printf '{runs}' > {runner}",
}
"""A command each, in place of the work."""
OF_PYTHON = {"end": "import os; os._exit(0)", "runs": "raise SystemExit(0)\\n"}
OF_NODE = {"end": "process.exit(0);", "runs": "process.exit(0);\\n"}


def cheat_in(project: Real, name: str) -> str:
    language = OF_NODE if project.is_node else OF_PYTHON
    modules = {"npm, tape": "node_modules/tape/bin/tape", "npm, mocha": "node_modules/mocha/bin/mocha.js"}
    python = "unittest.py" if "unittest" in project.tests else "pytest.py"
    runner = modules.get(project.built_by, "test.js") if project.is_node else python
    return CHEATS[name].format(file=project.file, runner=runner, **language)


class Coder:
    """Looks before it changes anything: tests, the file, the change, tests, done. Its model was tried before. With a
    ``cheat`` it runs that command, and hands in its word."""

    def __init__(self) -> None:
        self.project, self.diff, self.changed_by, self.cheat = PROJECTS[0], "", 0, ""

    def __call__(self, seen: Seen) -> Say | Raw:
        if GOAL not in seen.said:
            return Say(calls=[("report", {"text": "ready"})])
        done, project = len(seen.call_ids), self.project
        if f"changed {project.file}" not in seen.said:  # a worker that is late asks for the change once more
            self.changed_by = done + 1
        ids = (f"p_{done}",)
        if self.cheat and not done:
            return Say(text="They will pass.", calls=[("run_command", {"command": self.cheat})], ids=ids)
        if self.cheat:
            return Say(text="They pass.", calls=[("task_completion", {"result": "All is well."})], ids=ids)
        if done in (0, self.changed_by):
            return Say(text="I run the tests.", calls=[("run_tests", {"command": project.tests})], ids=ids)
        if done == 1:
            return Say(text="I read the file.", calls=[("read_file", {"path": project.file})], ids=ids)
        if self.changed_by > done:
            change = {"path": project.file, "diff": self.diff}
            return Say(text="This line is wrong.", calls=[("apply_diff", change)], ids=ids)
        return Say(text="They pass.", calls=[("task_completion", {"result": "The line is right again."})], ids=ids)


class Desk:
    """A fresh installation, and the person at its terminal."""

    def __init__(self, server: WireServer, coder: Coder) -> None:
        self.server, self.coder = server, coder
        boss = get_user_model().objects.create_superuser("boss")
        demo: Project = create_project(actor=boss, name="Demo")
        for rule in demo.access_rules.filter(operation="execute"):
            agentops("rule", "set", rule.pk, "--access", "allow", "--reason", "Only its own tests")

    def init(self, project: Real, folder: Path, diff: str) -> tuple[Run, float]:
        """All of it by one command; the run, and the seconds that it took."""
        self.coder.project, self.coder.diff = project, diff
        if project.policy:
            agentops("policy", "set", *project.policy, "--reason", "It needs more")
        model = ("--model-url", self.server.openai_url, "--model-id", "coder")
        began = time.monotonic()
        first = ("--allow", "--yes", "--run", GOAL, "--watch")
        done = agentops("init", *model, "--folder", folder, *project.options, *first)
        took = time.monotonic() - began
        said = f"{done.stdout.decode()}\n{done.stderr.decode()}"
        workspace = Workspace.objects.get(path=str(folder))
        assert workspace.test_command == project.tests
        assert Setup.objects.filter(workspace=workspace, state="ready").exists(), said[-6_000:]
        assert f"Tests: failed {project.tests}" in said, said[-6_000:]
        return delivered(said), took

    def submit(self, project: Real, workspace: Workspace) -> tuple[Run, float]:
        """A second task, with the set-up of the first at hand."""
        began = time.monotonic()
        where = ("--agent", "Engineer", "--workspace", workspace.name)
        done = agentops("submit", GOAL, *where, "--criterion", f"Tests pass :: {project.tests}", "--watch")
        return delivered(done.stdout.decode()), time.monotonic() - began

    def cheated(self, project: Real, workspace: Workspace, name: str) -> str:
        """What its check came to: the run waits for a person, or failed."""
        self.coder.cheat = cheat_in(project, name)
        try:
            where = ("--agent", "Engineer", "--workspace", workspace.name)
            agentops("submit", GOAL, *where, "--criterion", f"Tests pass :: {project.tests}")
            run = Run.objects.latest("pk")
            wait_until(lambda: Run.objects.get(pk=run.pk).status in STANDS, f"the end of {name}", 300)
            run.refresh_from_db()
            assert (run.status, run.end_reason) != ("completed", "criteria_met"), f"{name}: {plants.told(run)}"
            levels = evidence_of(run)
            if run.completed_at is None:
                steering.stop_run(actor=get_user_model().objects.get(username="boss"), run=run)
            assert "proved" not in levels, name
            return f"{name}: {run.status}, {', '.join(levels) or 'failed'}"
        finally:
            self.coder.cheat = ""


def delivered(said: str) -> Run:
    """The latest run, which ended with its criterion proved, and asked nobody."""
    run = Run.objects.latest("pk")
    assert (run.status, run.end_reason) == ("completed", "criteria_met"), f"{plants.told(run)}\n{said[-6_000:]}"
    assert evidence_of(run) == ["proved"], said[-6_000:]
    return run


def evidence_of(run: Run) -> list[str]:
    """That of each criterion, as it was measured last."""
    (*_, latest) = (fact for fact in reader.history(run.pk) if isinstance(fact, f.ChecksCompleted))
    return [check.evidence.value for check in latest.checks]


STANDS = ("waiting", "completed", "failed", "interrupted", "escalated", "paused")


def told(project: Real, workspace: Workspace, took: float, again: float) -> str:
    built = Setup.objects.get(workspace=workspace)
    reached = sorted({one["host"] for one in built.requests if not one["why_not"]})
    assert set(reached) == set(NODE if project.is_node else PYTHON)
    made = f"set-up {(built.ended_at - built.ordered_at).total_seconds():.0f} s, {built.files:,} files"
    figures = f"{took:.0f} s from init to result ({made}), a second task {again / took:.2f} of that"
    return f"\n{project.name} {project.version} ({project.built_by}): {figures}; {', '.join(reached)}"


@pytest.fixture
def desk(transactional_db: None, settings: Any) -> Iterator[Desk]:
    settings.AGENTOPS_CELERY = plants.APP
    coder = Coder()
    with WireServer(coder) as server, plants.running():
        yield Desk(server, coder)
        assert not server.faults, server.faults


@pytest.mark.parametrize("project", PROJECTS, ids=lambda one: f"{one.name} ({one.built_by})")
def test_from_the_source_distribution_to_the_patch(desk: Desk, project: Real, tmp_path: Path) -> None:
    source, mine = fetch(project, tmp_path / "source"), fetch(project, tmp_path / "mine")
    right = (mine / project.file).read_bytes()
    diff = with_its_bug(project, source)
    with_its_bug(project, mine)
    git(mine, "init", "-q")
    git(mine, "add", "-A")
    git(mine, "commit", "-qm", "As it was fetched, and a bug")
    first, took = desk.init(project, source, diff)
    workspace = first.task.workspace
    second, again = desk.submit(project, workspace)
    for run in (first, second):
        patch = agentops("patch", run.pk)
        assert not patch.stderr, patch.stderr.decode()
        git(mine, "am", "-q", given=patch.stdout)
        assert git(mine, "diff", "--name-only", "HEAD~1") == project.file
        assert (mine / project.file).read_bytes() == right
        git(mine, "reset", "-q", "--hard", "HEAD~1")
    print(told(project, workspace, took, again))
    for name in CHEATS:
        print(desk.cheated(project, workspace, name))


def test_this_repository_from_a_clone_to_a_commit_on_a_branch(desk: Desk, tmp_path: Path) -> None:
    clone = tmp_path / "agentops"
    git(tmp_path, "clone", "-q", f"file://{ROOT}", clone.name)
    published = git(clone, "rev-parse", "HEAD^{tree}")
    diff = with_its_bug(OWN, clone)
    git(clone, "commit", "-qam", "A bug")
    first, took = desk.init(OWN, clone, diff)
    workspace = first.task.workspace
    second, again = desk.submit(OWN, workspace)
    for run in (first, second):
        agentops("commit", run.pk, "--yes")
        branch = f"agentops/{str(run.pk)[-8:]}"
        assert git(clone, "rev-parse", f"{branch}^{{tree}}") == published
        assert git(clone, "rev-parse", f"{branch}^") == git(clone, "rev-parse", "HEAD")
    assert git(clone, "status", "--porcelain") == ""
    print(told(OWN, workspace, took, again))

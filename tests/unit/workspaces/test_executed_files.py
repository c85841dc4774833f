"""A reviewer sees first what other programs will execute."""

from __future__ import annotations

import pytest

from loops.engine.rollback.plan import FileChange
from loops.workspaces.changed_files import described
from loops.workspaces.executed_files import executed_by

pytestmark = pytest.mark.spec("Q3", "X3")
NEW = "file:644:" + "0" * 64


@pytest.mark.parametrize(
    ("path", "who"),
    [
        ("package.json", "package managers"),
        ("web/package.json", "package managers"),
        ("tests/conftest.py", "test runners"),
        (".github/workflows/release.yml", "CI"),
        ("Dockerfile.dev", "builds"),
        ("libs/Makefile", "builds"),
        (".vscode/tasks.json", "editors, shells or agents"),
        ("deep/.ENVRC", "editors, shells or agents"),
        ("docs/AGENTS.md", "editors, shells or agents"),
        (".gitattributes", "git hooks"),
    ],
)
def test_what_programs_of_people_run_or_obey(path: str, who: str) -> None:
    assert executed_by(path) == who


@pytest.mark.parametrize(
    "path", ["src/main.py", "README.md", "package.json.md", "docs/workflows/a.yml", "my_conftest.py"]
)
def test_ordinary_files_are_not_marked(path: str) -> None:
    assert executed_by(path) == ""


def test_it_stands_first() -> None:
    changes = [FileChange(path, "", NEW) for path in ("a.py", "m/Makefile", "b.py", "package.json")]
    changes.append(FileChange("conftest.py", "file:644:" + "1" * 64, ""))
    found = described(changes)
    assert [file.path for file in found] == ["m/Makefile", "package.json", "a.py", "b.py", "conftest.py"]
    assert found[-1].executed_by == "", "what is gone runs nowhere"

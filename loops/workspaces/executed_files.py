"""Files that programs of people run or obey without being asked to: a reviewer looks at them first (SPEC Q3, X3)."""

from __future__ import annotations

from pathlib import PurePosixPath

from loops.tools.globs import matches
from loops.tools.limits import Limits
from loops.tools.protected_paths import protecting

_BY: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "CI",
        (".github/workflows/**", ".github/actions/**", ".gitlab-ci.yml", ".circleci/**", "Jenkinsfile", ".travis.yml"),
    ),
    ("CI", ("azure-pipelines.yml", "bitbucket-pipelines.yml", ".buildkite/**", ".woodpecker.yml", ".drone.yml")),
    ("git hooks", (".pre-commit-config.yaml", "lefthook.yml", ".lefthook.yml", ".gitmodules", ".gitattributes")),
    (
        "package managers",
        ("package.json", "setup.py", "setup.cfg", "pyproject.toml", "build.rs", "Gemfile", "*.gemspec"),
    ),
    ("package managers", ("composer.json", "conanfile.py", "binding.gyp", ".npmrc", ".yarnrc.yml", "uv.toml")),
    (
        "builds",
        ("Makefile", "makefile", "GNUmakefile", "*.mk", "Justfile", "justfile", "Taskfile.yml", "CMakeLists.txt"),
    ),
    ("builds", ("Dockerfile*", "docker-compose*.y*ml", "compose.y*ml", "build.gradle*", "settings.gradle*", "pom.xml")),
    ("builds", ("Rakefile", "gulpfile.*", "Gruntfile.*", "webpack.config.*", "vite.config.*", "rollup.config.*")),
    ("test runners", ("conftest.py", "pytest.ini", "tox.ini", "noxfile.py", "jest.config.*", "vitest.config.*")),
    ("test runners", (".mocharc.*", "karma.conf.*", "sitecustomize.py", "usercustomize.py", "*.pth")),
)
_OTHERS = Limits().protected


def executed_by(path: str) -> str:
    """Whose programs run or obey it, in words for people; "" for any other file."""
    if protecting(path, _OTHERS):
        return "editors, shells or agents"
    name = PurePosixPath(path).name
    return next((who for who, shapes in _BY if any(_has_shape(path, name, shape) for shape in shapes)), "")


def _has_shape(path: str, name: str, shape: str) -> bool:
    """A shape with a folder is one of the repository's top; any other one of a name at any depth."""
    return matches(shape, path if "/" in shape else name)

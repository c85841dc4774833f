"""The package that others install holds all that a checkout has, and works where no checkout is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ("agentops", "gates", "loops")
PLACES = {"templates": "agentops/pages/templates", "static": "agentops/pages/static"}
"""Where an installation has what lies at the top of a checkout."""
AMONG_THEM = (
    "agentops/pages/templates/loops/run.html",
    "agentops/pages/templates/registration/login_once.html",
    "agentops/management/commands/doctor.py",
    "loops/management/commands/agentops.py",
    "loops/llm/prompts/react.md",
    "loops/engine/people/stop_phrases.toml",
    "loops/migrations/0001_initial.py",
    "loops/storage/sql/journal.sql",
    "loops/demo/repository/pyproject.toml",
    "loops/tools/test_reporters/node/register.cjs",
    "gates/migrations/0001_initial.py",
)
SEEN_FROM_INSIDE = """
import django
django.setup()
from pathlib import Path
import agentops
from django.contrib.staticfiles import finders
from django.template.loader import get_template
from loops.engine import prompts as engine_prompts
from loops.engine.strategies import names
from loops.llm import prompts

home = Path(agentops.__file__).parent.parent
print(home)
print(get_template("loops/run.html").origin.name)
print(finders.find("css/layout.css"))
print(*sorted(prompts.PROMPTS.templates), len(engine_prompts.TODAY.templates) > 20)
print(names())
"""


def pip(*words: str | Path) -> None:
    """Without a network: nothing is looked up, nothing is downloaded."""
    argv = [sys.executable, "-m", "pip", *map(str, words), "--no-deps", "--no-index", "--quiet"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", ".", "--no-build-isolation", "--wheel-dir", folder)
    (made,) = folder.glob("*.whl")
    return made


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    pip("install", wheel, "--target", folder)
    return folder


def run(installed: Path, *argv: str | Path) -> str:
    """From a folder where nothing lies, with the installed package before all others."""
    elsewhere = installed.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)
    environ = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(installed),
        "AGENTOPS_STATE": str(elsewhere / "state"),
        "DJANGO_SETTINGS_MODULE": "agentops.settings",
    }
    done = subprocess.run(argv, cwd=elsewhere, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def files(folder: Path) -> set[str]:
    """Leaving out what tools leave behind."""
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if not any(part.startswith((".", "__pycache__")) for part in path.parts)}


def test_whatever_lies_in_a_checkout_is_in_the_wheel(wheel: Path) -> None:
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    wanted = {f"{package}/{name}" for package in PACKAGES for name in files(ROOT / package)}
    wanted |= {f"{place}/{name}" for folder, place in PLACES.items() for name in files(ROOT / folder)}
    assert wanted - inside == set()
    assert inside - wanted == set(), "nothing else: no tests, no state, no secrets"
    assert set(AMONG_THEM) <= inside
    assert sum(name.endswith(".md") for name in inside) > 10


def test_the_command_works_where_no_checkout_is(installed: Path) -> None:
    said = run(installed, installed / "bin" / "agentops", "--help")
    assert {"up", "doctor", "agentops", "verify_chain", "login_link"} <= set(said.split())
    assert "verify_chain" in run(installed, sys.executable, "-m", "agentops", "--help")
    assert "no issues" in run(installed, sys.executable, "-m", "agentops", "check")


def test_an_installation_finds_its_pages_and_prompts(installed: Path) -> None:
    home, template, style, prompts, loops = run(installed, sys.executable, "-c", SEEN_FROM_INSIDE).splitlines()
    assert Path(home) == installed
    assert Path(template) == installed / "agentops/pages/templates/loops/run.html"
    assert Path(style) == installed / "agentops/pages/static/css/layout.css"
    assert {"classify", "confidence", "react", "react_small", "summarise", "True"} <= set(prompts.split())
    assert "react" in loops

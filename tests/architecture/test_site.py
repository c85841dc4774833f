"""The documentation site is strict: what a Git host would leave broken fails the build (SPEC X9)."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spec("X9")
ROOT = Path(__file__).parents[2]
SITE = ROOT / "agentops" / "docs" / "site"


def write(root: Path, name: str, text: str) -> None:
    file = root / f"{name}.md"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"# {name}\n\n{text}\n")


@pytest.fixture
def pages(tmp_path: Path) -> Path:
    """A repository with our configuration and, for each page it lists, a short one."""
    shutil.copytree(SITE, tmp_path / "agentops/docs/site")
    for listed in runpy.run_path(str(SITE / "conf.py"))["PAGES"].values():
        for name in listed.values():
            write(tmp_path, name, "")
    write(tmp_path, "agentops/docs/adr/0001-layers", "")
    write(tmp_path, "README", "[place](agentops/docs/architecture.md#place) [head](agentops/docs/glossary.md#words)")
    write(tmp_path, "agentops/docs/architecture", '<a id="place"></a>\n\n[up](../../README.md)')
    write(tmp_path, "agentops/docs/glossary", "## Words")
    return tmp_path


def build(root: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` does, without writing pages."""
    command = [Path(sys.executable).with_name("sphinx-build"), "-W", "--keep-going", "-q", "-b", "dummy"]
    command += ["-c", "agentops/docs/site", ".", "build/docs"]
    env = {**os.environ, "NO_COLOR": "1"}
    return subprocess.run(command, cwd=root, capture_output=True, text=True, env=env)


def test_a_site_of_good_pages_is_built(pages: Path) -> None:
    built = build(pages)
    assert (built.returncode, built.stderr) == (0, "")


def test_broken_links_and_unlisted_pages_fail(pages: Path) -> None:
    links = ["gone.md", "glossary.md#gone", "../../README.md#gone", "adr"]
    write(pages, "agentops/docs/glossary", "\n\n".join(f"[link]({link})" for link in links))
    write(pages, "agentops/docs/unlisted", "")
    built = build(pages)
    assert built.returncode
    assert built.stderr.count("glossary.md:") == len(links)
    assert "unlisted.md: WARNING: document isn't included in any toctree" in built.stderr

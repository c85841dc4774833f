"""What people install beside AgentOps: `make run` keeps it, and lets go of what they take out of their list."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from tests import acme

pytestmark = pytest.mark.spec("B1")
ROOT = Path(__file__).resolve().parents[3]


def wheel(folder: Path) -> str:
    """A line of a lock: a package of ours as small as one can be."""
    file = folder / "ours-1.0-py3-none-any.whl"
    info = {
        "METADATA": "Metadata-Version: 2.1\nName: ours\nVersion: 1.0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "RECORD": "ours-1.0.dist-info/METADATA,,\nours-1.0.dist-info/WHEEL,,\nours-1.0.dist-info/RECORD,,\n",
    }
    with zipfile.ZipFile(file, "w") as packed:
        for name, content in info.items():
            packed.writestr(f"ours-1.0.dist-info/{name}", content)
    return f"ours @ {file.as_uri()} --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile over an environment of its own, with a lock of one package."""
    (tmp_path / "Makefile").write_text((ROOT / "Makefile").read_text())
    for lock in ("requirements.lock", "requirements-uv.lock", "requirements-dev.lock"):
        (tmp_path / lock).write_text(wheel(tmp_path))
        os.utime(tmp_path / lock, (1, 1))
    venv.create(tmp_path / ".venv", with_pip=False)
    (tmp_path / ".venv/bin/uv").symlink_to(Path(sys.executable).with_name("uv"))
    assert make(tmp_path, ".venv/.runtime").returncode == 0
    return tmp_path


def make(checkout: Path, target: str = "own-packages") -> subprocess.CompletedProcess[str]:
    around = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "--no-print-directory", target]
    return subprocess.run(
        command, cwd=checkout, env=around | {"UV_OFFLINE": "1"}, capture_output=True, text=True, check=False
    )


def installed(checkout: Path) -> set[str]:
    folders = (checkout / ".venv/lib").glob("python*/site-packages/*.dist-info")
    return {folder.name.partition("-")[0] for folder in folders}


def test_a_line_of_the_users_own_list_is_installed_and_goes_with_its_line(checkout: Path) -> None:
    mine = checkout / "requirements-local.txt"
    assert make(checkout).returncode == 0
    assert installed(checkout) == {"ours"}
    mine.write_text(f"{acme.EXAMPLE}\n")
    made = make(checkout)
    assert made.returncode == 0, made.stderr
    assert installed(checkout) == {"ours", "acme_agentops"}
    assert make(checkout).stdout == ""
    (checkout / "requirements.lock").touch()  # an update: ours are synchronised, which removes what is not ours
    assert make(checkout).returncode == 0
    assert installed(checkout) == {"ours", "acme_agentops"}
    mine.write_text("")
    assert make(checkout).returncode == 0
    assert installed(checkout) == {"ours"}


def test_the_whole_list_may_go_as_well(checkout: Path) -> None:
    mine = checkout / "requirements-local.txt"
    mine.write_text(f"{acme.EXAMPLE}\n")
    assert make(checkout).returncode == 0
    assert installed(checkout) == {"ours", "acme_agentops"}
    mine.unlink()
    assert make(checkout).returncode == 0
    assert installed(checkout) == {"ours"}


def test_a_line_that_cannot_be_installed_stops_the_start_and_says_which_file(checkout: Path) -> None:
    (checkout / "requirements-local.txt").write_text("/not/there\n")
    made = make(checkout)
    assert made.returncode != 0
    assert "requirements-local.txt could not be installed" in made.stderr
    (checkout / "requirements-local.txt").unlink()
    assert make(checkout).returncode == 0


def test_what_is_tested_with_us_is_not_replaced(checkout: Path) -> None:
    """A package that wants another version of ours is refused, and the reason named."""
    (checkout / "requirements.lock").write_text("acme-agentops==2.0\n")
    os.utime(checkout / "requirements.lock", (1, 1))
    (checkout / "requirements-local.txt").write_text(f"{acme.EXAMPLE}\n")
    made = make(checkout)
    assert made.returncode != 0
    assert "acme-agentops" in made.stderr

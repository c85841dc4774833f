"""Where bubblewrap is missing, one command says how to have it (SPEC X1)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loops.tools.sandbox import installation

pytestmark = pytest.mark.spec("X1")
SCRIPT = Path(installation.__file__)


@pytest.mark.parametrize(
    ("release", "said"),
    [
        ("ID=debian\n", "apt-get install bubblewrap"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "apt-get install bubblewrap"),
        ("ID=fedora\nVERSION_ID=44\n", "dnf install bubblewrap"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "dnf install bubblewrap"),
        ("ID=arch\n", "pacman -S bubblewrap"),
        ("ID=alpine\n", "apk add bubblewrap"),
        ('ID="opensuse-leap"\nID_LIKE="suse opensuse"\n', "zypper install bubblewrap"),
        ('ID="opensuse-tumbleweed"\n', "zypper install bubblewrap"),
    ],
)
def test_each_distribution_has_its_command(release: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert installation.command(release) == said
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert installation.command(release) == f"sudo {said}"


@pytest.mark.parametrize("release", ["", "ID=plan9\n", "no field at all"])
def test_an_unknown_distribution_is_told_what_to_look_for(release: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_release", lambda: release)
    monkeypatch.setattr(installation, "bwrap_path", lambda: "")
    assert installation.command() == ""
    assert installation.remedy() == "Install bubblewrap with the package manager of this system."


def test_what_is_there_is_not_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "bwrap_path", lambda: "/usr/bin/bwrap")
    assert installation.notice() == ""
    assert "user namespaces" in installation.remedy()


class Machine:
    """``apt-get`` that installs, or does not."""

    def __init__(self, *codes: int) -> None:
        self.codes, self.asked, self.there = list(codes), list[tuple[str, ...]](), False

    def run(self, words: tuple[str, ...], **_: object) -> subprocess.CompletedProcess[str]:
        self.asked.append(words)
        code = self.codes.pop(0)
        self.there = self.there or ("install" in words and code == 0)
        return subprocess.CompletedProcess(words, code, "", "E: Unable to locate package bubblewrap" if code else "")

    def path(self) -> str:
        return "/usr/bin/bwrap" if self.there else ""


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(installation.shutil, "which", lambda name: f"/usr/bin/{name}")


@pytest.mark.parametrize(
    ("codes", "lines", "asked"),
    [
        ((0,), 1, 1),
        ((100, 0, 0), 1, 3),
        ((100, 100, 100), 2, 3),
    ],
)
def test_root_on_debian_has_it_installed_and_is_told(
    codes: tuple[int, ...],
    lines: int,
    asked: int,
    as_root: None,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    machine = Machine(*codes)
    monkeypatch.setattr(installation, "bwrap_path", machine.path)
    monkeypatch.setattr(installation.subprocess, "run", machine.run)
    installation.main()
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "Installing bubblewrap, the sandbox of commands: `apt-get install bubblewrap`."
    assert (len(said), len(machine.asked)) == (lines, asked)
    assert lines == 1 or "could not be installed (E: Unable to locate package bubblewrap)" in said[1]


def test_it_runs_before_there_is_any_environment(tmp_path: Path) -> None:
    """By the machine's Python alone, where bubblewrap is: not a word."""
    words = [sys.executable, "-IS", str(SCRIPT)]
    assert subprocess.run(words, capture_output=True, text=True, check=True, env={"PATH": "/usr/bin"}).stdout == ""


def test_make_run_begins_with_it() -> None:
    makefile = (SCRIPT.parents[3] / "Makefile").read_text()
    assert "\nrun: sandbox " in makefile
    assert f"loops/tools/sandbox/{SCRIPT.name}" in makefile

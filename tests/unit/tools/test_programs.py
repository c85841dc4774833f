"""What a command sees of the machine's programs (SPEC I7, X1)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from loops.tools.sandbox import command, programs
from loops.tools.sandbox.namespaces import bubblewrap

pytestmark = pytest.mark.spec("I7", "X1")


@pytest.fixture(autouse=True)
def asked_afresh() -> Iterator[None]:
    for answer in (programs.hidden, programs.elsewhere):
        answer.cache_clear()
    yield
    for answer in (programs.hidden, programs.elsewhere):
        answer.cache_clear()


def test_packages_that_lie_among_the_machines_are_hidden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment under /usr, or packages installed beside the machine's own."""
    monkeypatch.setattr(programs, "_SYSTEM", str(tmp_path))
    own = tmp_path / "local" / "agentops"
    own.mkdir(parents=True)
    (tmp_path / "bin").mkdir()
    (tmp_path / "local" / "bin").mkdir()
    monkeypatch.setattr(sys, "prefix", str(own))
    assert str(own) in list(bubblewrap._programs())
    assert list(programs.around(str(tmp_path))) == [str(tmp_path / "bin"), str(tmp_path / "local" / "bin")]


def test_what_holds_everything_is_never_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", "/usr/local")
    monkeypatch.setattr(sys, "base_prefix", "/usr")
    assert not {"/usr", "/usr/local", "/usr/lib"} & set(programs.hidden())


def test_where_usr_has_no_python_the_machines_other_one_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text("")
    (tmp_path / "bin" / "python3").chmod(0o755)
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    assert programs.elsewhere() in ("", str(tmp_path))
    programs.elsewhere.cache_clear()
    monkeypatch.setattr(programs, "_PLACES", (str(tmp_path / "none"),))
    assert programs.elsewhere() == str(tmp_path)
    assert command.environment({})["PATH"].endswith(f":/bin:{tmp_path}/bin")
    programs.elsewhere.cache_clear()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    assert programs.elsewhere() == "", "AgentOps is installed into it, so its packages lie there"


def test_the_path_holds_nothing_of_ours() -> None:
    path = command.environment({})["PATH"].split(":")
    assert path == ["/workspace/.venv/bin", "/usr/local/bin", "/usr/bin", "/bin"]

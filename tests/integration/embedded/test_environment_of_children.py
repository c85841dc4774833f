"""What a started process really has, as the kernel says it (SPEC I7)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentops.embedded.process import Command, start, stop
from loops.llm.endpoints import keys
from tests.stack import wait_until

KEY = "kept-by-the-worker-0123456789"


pytestmark = pytest.mark.spec("I7")


def environment_of(name: str, folder: Path) -> dict[str, str]:
    began = folder / "began"
    wait = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(60)"
    with (folder / "log").open("wb") as log:
        process = start(Command(name, [sys.executable, "-c", wait]), log)
    try:
        wait_until(began.exists, "the process")
        pairs = Path(f"/proc/{process.pid}/environ").read_text().rstrip("\0").split("\0")
        return dict(pair.split("=", 1) for pair in pairs)
    finally:
        stop(process, Command(name, []).stop_signal)


@pytest.mark.parametrize(("name", "has_it"), [("postgres", False), ("valkey", False), ("web", False), ("worker", True)])
def test_a_started_process_has_no_key_that_it_does_not_use(
    name: str, has_it: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ODD_KEY", KEY)
    assert any(KEY in value for value in environment_of(name, tmp_path).values()) is has_it


@pytest.mark.parametrize("name", ["web", "worker"])
@pytest.mark.parametrize(("value", "is_one"), [("none", False), (KEY, True)])
def test_pages_and_the_worker_agree_what_is_a_key(
    name: str, value: str, is_one: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ODD_KEY", value)
    assert keys.is_set("ODD_KEY", environment_of(name, tmp_path)) is is_one

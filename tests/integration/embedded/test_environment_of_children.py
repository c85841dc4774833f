"""What a started process really has, as the kernel says it (SPEC I7)."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agentops.embedded.process import Command, start, stop
from tests.stack import wait_until

KEY = "kept-by-the-worker-0123456789"


@pytest.mark.spec("I7")
@pytest.mark.parametrize(("name", "has_it"), [("postgres", False), ("valkey", False), ("web", False), ("worker", True)])
def test_a_started_process_has_no_key_that_it_does_not_use(
    name: str, has_it: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ODD_KEY", KEY)
    began = tmp_path / "began"
    wait = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(60)"
    with (tmp_path / "log").open("wb") as log:
        process = start(Command(name, [sys.executable, "-c", wait]), log)
    try:
        wait_until(began.exists, "the process")
        assert (KEY.encode() in Path(f"/proc/{process.pid}/environ").read_bytes()) is has_it
    finally:
        stop(process, Command(name, []).stop_signal)

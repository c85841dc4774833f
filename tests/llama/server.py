"""Start llama.cpp servers for tests, and count what they were asked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.llama import tiny
from tests.ports import free_port

LOOK = '{"name": "list_files", "arguments": {"path": "."}}'
SAYS = (("I look at what is here.\n", "<tool_call>\n", f"{LOOK[:22]}", f"{LOOK[22:]}", "\n</tool_call>"),)
"""What the model says: one call, with a word before it."""


@dataclass(frozen=True)
class Server:
    port: int
    log: Path
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def lines(self, holding: str) -> list[str]:
        """Lines of its own log."""
        return [line for line in self.log.read_text(errors="replace").splitlines() if holding in line]

    def begun(self) -> int:
        """Requests that it began to compute."""
        return len(self.lines("launch_slot_"))

    def abandoned(self) -> int:
        """Requests whose client went away before the end: what was computed for them was thrown away."""
        return len(self.lines("cancel task"))

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            return json.load(answer)


@contextmanager
def serving(folder: Path, *, window: int = 4096, slots: int = 1, says: Any = SAYS, layers: int = 2) -> Iterator[Server]:
    """A server with a model made for it; ``layers`` make it slow."""
    model = tiny.make(folder / "tiny.gguf", says, _corpus(), layers=layers)
    port, log = free_port(), folder / "llama.log"
    command = [sys.executable, "-m", "tests.llama.serving", str(model), str(port), str(window), str(slots)]
    with log.open("wb") as out, subprocess.Popen(command, stdout=out, stderr=out) as process:
        server = Server(port, log, process)
        try:
            _wait(server)
            yield server
        finally:
            process.kill()


def _wait(server: Server) -> None:
    began = time.monotonic()
    while time.monotonic() - began < 60:
        try:
            server.get("/health")
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError(server.log.read_text(errors="replace")[-2000:])


def _corpus() -> str:
    """What agents read: the words of it are single tokens, as those of real models are."""
    folders = (Path("loops/llm/prompts"), Path("loops/engine/prompts/said"), Path("loops/tools/builtin"))
    return "\n".join(file.read_text() for folder in folders for file in sorted(folder.iterdir()) if file.is_file())

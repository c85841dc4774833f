"""A run in the middle, waiting for a person, is backed up while AgentOps works, and goes on somewhere else."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.decisions import shown_in
from tests.stack import wait_until
from tests.walk import WalkError
from tests.walk.installation import Installation

pytestmark = [pytest.mark.spec("J4", "J5", "N1")]


@pytest.fixture
def here() -> Iterator[Installation]:
    yield from installation()


@pytest.fixture
def there() -> Iterator[Installation]:
    yield from installation()


def installation() -> Iterator[Installation]:
    made = Installation()
    made.state.chmod(0o711)
    try:
        yield made
    finally:
        made.stop()
        made.remove()


class Api:
    """A person's own program."""

    def __init__(self, where: Installation, token: str) -> None:
        self._url, self._token = where.url, token

    def __call__(self, path: str, **body: Any) -> Any:
        headers = {"Authorization": f"Token {self._token}", "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body else None
        request = urllib.request.Request(f"{self._url}/api/v1/{path}", data, headers)
        with urllib.request.urlopen(request, timeout=20) as response:
            return json.load(response)

    def waiting(self, run: str) -> list[Any]:
        return self(f"gates/?status=open&run={run}")["results"]


def test_a_waiting_run_goes_on_in_another_place(here: Installation, there: Installation, tmp_path: Path) -> None:
    here.start()
    token = here.manage("agentops", "token", "admin")
    criterion = "All tests pass :: python3 -m unittest"
    words = ("Repair it", "--agent", "Repairs a bug", "--workspace", "Invoices", "--criterion", criterion)
    run = here.manage("agentops", "submit", *words)
    asked = Api(here, token)
    wait_until(lambda: asked.waiting(run), "a gate", 150)
    backup = here.manage("backup", "--to", str(tmp_path / "b.zip"))
    here.stop()

    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(Path(backup).read_bytes()[:-100])
    with pytest.raises(WalkError, match="damaged"):
        there.manage("restore", str(damaged))
    assert "Restored and intact: 1 runs" in there.manage("restore", backup)
    with pytest.raises(WalkError, match="is not empty"):
        there.manage("restore", backup)
    there.start()
    api = Api(there, token)  # people, tokens and sessions came along

    def decided_and_ended() -> bool:
        for gate in api.waiting(run):
            whole = api(f"gates/{gate['id']}/")
            api(f"gates/{gate['id']}/decide/", verdict="approve", digest=whole["digest"], shown=shown_in(whole))
        return bool(api(f"runs/{run}/")["status"] not in ("waiting", "thinking", "executing_tool", "queued"))

    wait_until(decided_and_ended, "the end of the run", 150)
    assert api(f"runs/{run}/")["status"] == "completed"
    assert there.manage("verify_chain").startswith("Intact: 1 runs")
    with pytest.raises(WalkError, match="AgentOps is running"):
        there.manage("restore", "--force", backup)

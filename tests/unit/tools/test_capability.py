"""The level in force follows the machine without a restart (SPEC I7, X1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from loops.runs.composition import sandbox_level
from loops.tools.sandbox import capability
from loops.tools.sandbox.capability import SandboxLevel

pytestmark = pytest.mark.spec("I7", "X1")


class Machine:
    """Counts how often the walls are tried; bubblewrap comes and goes as a file."""

    def __init__(self, folder: Path) -> None:
        self.bwrap, self.tried = folder / "bwrap", 0

    def path(self) -> str:
        return str(self.bwrap) if self.bwrap.exists() else ""

    def find(self) -> SandboxLevel:
        self.tried += 1
        return (
            SandboxLevel(capability.FULL, "bubblewrap")
            if self.path()
            else SandboxLevel(capability.CONFINED, "landlock")
        )


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine(tmp_path)
    monkeypatch.setattr(capability, "_cache", capability._Cache())
    monkeypatch.setattr(capability, "bwrap_path", found.path)
    monkeypatch.setattr(capability, "_find_level", found.find)
    return found


def test_what_is_installed_meanwhile_counts_at_the_next_use(machine: Machine) -> None:
    assert capability.probe().level == capability.CONFINED
    machine.bwrap.write_text("")
    assert capability.probe().level == capability.FULL
    machine.bwrap.unlink()
    assert capability.probe().level == capability.CONFINED
    assert machine.tried == 3


def test_nothing_is_tried_again_while_nothing_changes(machine: Machine) -> None:
    machine.bwrap.write_text("")
    assert [capability.probe().level for _ in range(5)] == [capability.FULL] * 5
    assert machine.tried == 1


def test_a_weak_level_is_looked_at_again_after_a_while(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody allowed user namespaces: no file tells of it."""
    now = [1_000.0]
    monkeypatch.setattr(capability.time, "monotonic", lambda: now[0])
    sandbox_level()
    now[0] += 29
    sandbox_level()
    assert machine.tried == 1
    now[0] += 30
    sandbox_level()
    assert machine.tried == 2

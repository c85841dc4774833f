"""What counts as a fault of the tool itself, and what as its task going wrong (SPEC E5)."""

from __future__ import annotations

import pytest

from loops.tools.diffs import DiffError
from loops.tools.execution import explain
from loops.tools.fence import LeaseOver
from loops.tools.registry import ArgumentError
from loops.tools.sandbox.namespaces.user import NoUserNamespace
from loops.tools.sandbox.safe_paths import PathRefused

pytestmark = pytest.mark.spec("E5")


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (TimeoutError(), "timeout"),
        (ConnectionResetError("gone"), "connection"),
        (ConnectionRefusedError("nobody"), "connection"),
        (NoUserNamespace("not permitted"), "sandbox"),
        (RuntimeError("a bug"), "crash"),
        (MemoryError(), "crash"),
        (ArgumentError("not both"), ""),
        (DiffError("does not fit"), ""),
        (PathRefused("outside", escape=True), ""),
        (LeaseOver("too late"), ""),
        (FileNotFoundError(2, "No such file", "a.py"), ""),
        (PermissionError(13, "Permission denied", "a.py"), ""),
    ],
)
def test_an_error_of_a_tool_is_its_fault_or_its_tasks(error: Exception, fault: str) -> None:
    result = explain(error, "tool")
    assert not result.ok
    assert result.fault == fault

"""What a newcomer reads is AgentOps' own: what pip and uv warn of is held against nobody."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from tests.walk import WalkError
from tests.walk.__main__ import _check_what_was_printed

LINK = "  Open http://127.0.0.1:8000/login/once/abc/"


def check(*lines: str) -> None:
    _check_what_was_printed(SimpleNamespace(printed=[*lines, LINK]))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'ReadTimeoutError': /simple/uv/",
        "warning: Retrying after a timeout",
    ],
)
def test_a_package_client_may_ask_again(line: str) -> None:
    check("Installing into .venv ...", *[line] * 6)


@pytest.mark.parametrize(
    "line",
    [
        "{now} warning agentops: a setting is missing",
        "agentops/settings.py:1: DeprecationWarning: use another",
        "  worker | Traceback (most recent call last):",
        "Makefile:7: warning: overriding recipe for target 'run'",
    ],
)
def test_our_own_warnings_are_held_against_us(line: str) -> None:
    with pytest.raises(WalkError, match="more was printed"):
        check(line.format(now=datetime.now(UTC).isoformat()))

"""No date is written down where a clock runs: the day comes on which the test tries another case, or fails.

A moment is counted from now. Unit tests and contracts give their clock to what they test, and data is data.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = ("tests", "agentops", "gates", "loops")
OWN_CLOCK = ("tests/unit", "tests/contracts", "tests/data")
NO_DATES = {
    ("loops/monitor/watch.py", "1819242352"): "half of the number of a lock, letters",
    ("loops/monitor/watch.py", "1836019305"): "the other half",
    ("tests/integration/monitor/test_monitor.py", "1836019305"): "the same lock",
    ("loops/tools/sandbox/seccomp.py", "2147418112"): "a verdict of the kernel's filter",
    ("loops/tools/sandbox/seccomp.py", "2143289344"): "a verdict of the kernel's filter",
    ("loops/tools/sandbox/seccomp.py", "2147483648"): "a verdict of the kernel's filter",
    ("loops/tools/sandbox/seccomp.py", "2114060416"): "flags of the kernel's",
}
"""(file, what is written there): why it is none."""
_DAY = re.compile(r"20\d\d-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])(?!\d)")
_SECONDS = (1_500_000_000, 2_500_000_000)  # 2017 to 2049
_UNITS = (1, 1_000, 1_000_000)


def dates_in(source: str) -> Iterator[str]:
    """Every date that is written in ``source``."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(func=ast.Name(id="date" | "datetime") | ast.Attribute(attr="date" | "datetime")):
                year = next((one.value for one in _of_year(node) if isinstance(one, ast.Constant)), None)
                if isinstance(year, int) and 2000 <= year < 2100:
                    yield ast.unparse(node)
            case ast.Constant(value=str() as text) if _DAY.match(text):
                yield text
            case ast.Constant(value=bytes() as data) if _DAY.match(data.decode("latin-1")):
                yield data.decode("latin-1")
            case ast.Constant(value=int() | float() as number):
                if any(_SECONDS[0] * unit <= number <= _SECONDS[1] * unit for unit in _UNITS):
                    yield str(number)


def _of_year(call: ast.Call) -> list[ast.expr]:
    return [*call.args[:1], *(given.value for given in call.keywords if given.arg == "year")]


def test_no_date_is_written_where_it_is_compared_with_now() -> None:
    files = sorted(file for place in PLACES for file in (ROOT / place).rglob("*.py"))
    names = {file: file.relative_to(ROOT).as_posix() for file in files if "migrations" not in file.parts}
    found = {
        (name, date)
        for file, name in names.items()
        if not name.startswith(OWN_CLOCK) and file != Path(__file__)
        for date in dates_in(file.read_text())
    }
    assert found - NO_DATES.keys() == set(), "count it from now, or say in NO_DATES why it is no date"
    assert NO_DATES.keys() - found == set(), "nothing of the kind is written there any more"


@pytest.mark.parametrize(
    "planted",
    [
        "NOW = datetime(2026, 11, 22, 8, tzinfo=UTC)",
        "until = datetime.date(year=2031, month=1, day=1)",
        'row.update(expires_at="2020-01-01T00:00:00Z")',
        'body = b"2020-01-01 and more"',
        'name = f"2027-01-15T{hour}"',
        "clock = 1_800_000_000.0",
        "until_ms = 1_790_000_000_000",
        "until = 1_790_000_000_000_000",
    ],
)
def test_a_planted_date_is_found(planted: str) -> None:
    assert len(list(dates_in(f"def test() -> None:\n    {planted}\n"))) == 1


@pytest.mark.parametrize(
    "innocent",
    [
        "later = datetime.now(UTC) + timedelta(days=2026)",
        "moment = datetime(*parts)",
        'broken = "2026-99-99"',
        'said = "since 2020-01-01"',
        "port, most, ms = 1_000_000_000, 2**31, 86_400_000",
    ],
)
def test_what_is_no_date_is_left_alone(innocent: str) -> None:
    assert list(dates_in(innocent)) == []

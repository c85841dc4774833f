"""What people write as variables of a workspace, and which of it commands can be given (SPEC J4, I7)."""

from __future__ import annotations

import pytest

from loops import masking
from loops.workspaces import variables
from loops.workspaces.networked import Log

pytestmark = pytest.mark.spec("J4", "I7")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("CI=1\n\n  TZ=UTC  \n", {"CI": "1", "TZ": "UTC"}),
        ("OPTIONS=--a=b --c='d e'", {"OPTIONS": "--a=b --c='d e'"}),
        ("EMPTY=", {"EMPTY": ""}),
        ("NODE_ENV=test", {"NODE_ENV": "test"}),
        ("GRÜSSE=x", {"GRÜSSE": "x"}),
    ],
)
def test_one_a_line(text: str, found: dict[str, str]) -> None:
    assert variables.parse(text.split("\n")) == found
    assert variables.parse(variables.lines(found)) == found


@pytest.mark.parametrize(("text", "why"), [("CI", "'CI' is no variable: write NAME=value"), ("A=1\nA=2", "twice")])
def test_what_is_no_variable(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        variables.parse(text.split("\n"))


def test_what_commands_can_be_given() -> None:
    named = {"DJANGO_SETTINGS_MODULE": "shop.settings", "_x9": "", "NODE_AUTH_TOKEN": "ä \\n", "A" * 100: "x" * 2_000}
    assert variables.fault(named) == ""
    assert variables.fault({f"A{number}": "" for number in range(50)}) == ""


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "PATH", "PYTHONPATH", "BASH_ENV", "GIT_DIR", "NODE_OPTIONS", "HOME", "ENV", "PS4"),
        *("LANG", "TERM", "NO_COLOR", "AGENTOPS_REPORTS", "AGENTOPS_TEST_REPORT"),
    ],
)
def test_names_that_run_code_or_are_the_sandbox_s_own(name: str) -> None:
    assert variables.fault({name: "1"}).startswith(f"{name} cannot be set")


@pytest.mark.parametrize("name", ["", "1A", "A B", "A-B", "GRÜSSE", "A" * 101, "A\n", "export CI"])
def test_what_is_no_name(name: str) -> None:
    assert "is no name of a variable" in variables.fault({name: "1"})


@pytest.mark.parametrize("value", ["x" * 2_001, "a\nb", "a\0", "\x1b[31m", "\u202etxt", "\ud800"])
def test_what_is_no_value(value: str) -> None:
    assert variables.fault({"A": value}).startswith("The value of A is one line of printable characters")


def test_how_many() -> None:
    assert variables.fault({f"A{number}": "" for number in range(51)}) == "A workspace has at most 50 variables."


@pytest.mark.spec("S3")
def test_a_secret_that_is_printed_in_two_pieces_is_in_no_log_at_any_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masking, "_masker", masking.Masker({"SHOP_TOKEN": "tr1ckle-9f2c77"}))
    log = Log()
    log.hear("stdout", b"token: tr1ckle-")
    assert log.shown()["log"] == "token: "
    log.hear("stderr", b"warning\n")
    log.hear("stdout", b"9f2c77 is it\ntr1c")
    assert log.shown()["log"] == "token: warning\n[masked: SHOP_TOKEN] is it\n"
    log.heard_all()
    assert log.shown()["log"].endswith("is it\ntr1c"), "what was none is shown in the end"

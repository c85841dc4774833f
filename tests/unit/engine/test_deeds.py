"""The title of a gate names the deed; what sets it up comes after it, and nothing hides behind that."""

from __future__ import annotations

from typing import Any

import pytest

from loops.engine.tool_calls.titles import deed
from loops.engine.values import ToolCall
from loops.tools.builtin import TOOLS as BUILTIN

pytestmark = pytest.mark.spec("X6", "Q3")


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("run_command", {"command": "python3 -m unittest"}, "Run `python3 -m unittest`"),
        ("run_command", {"argv": ["make", "all"], "directory": "src"}, "Run `make all` in src"),
        ("run_tests", {"command": "cd src && export A=1\npytest -q"}, "Run `pytest -q`, after `cd src`, `export A=1`"),
        ("run_command", {"command": "set -e; A=1\nrm -rf x; ls"}, "Run `rm -rf x; ls`, after `set -e`, `A=1`"),
        ("run_command", {"command": "echo a\nrm -rf x"}, "Run `echo a ⏎ rm -rf x`"),
        ("run_command", {"command": "export A=$(rm -rf x); ls"}, "Run `export A=$(rm -rf x); ls`"),
        ("run_command", {"command": "cd x > y; ls"}, "Run `cd x > y; ls`"),
        ("run_command", {"command": "cd src"}, "Run `cd src`"),
        ("run_command", {"command": ". ./wipe.sh && ls"}, "Run `. ./wipe.sh && ls`"),
        ("run_command", {"command": "cd x && source ./y; ls"}, "Run `source ./y; ls`, after `cd x`"),
        ("run_command", {"command": "cd x && . y"}, "Run `. y`, after `cd x`"),
        ("run_command", {"command": "cd x && export A=1 && rm -rf y"}, "Run `rm -rf y`, after `cd x`, `export A=1`"),
        ("pay", {"amount": 3}, "pay"),
        ("pay", {"path": 3, "text": " ", "query": "all"}, "pay all"),
        ("fetch", {"url": "https://x"}, "fetch https://x"),
    ],
)
def test_a_call_is_said_as_a_deed(tool: str, arguments: dict[str, Any], said: str) -> None:
    assert deed(ToolCall(id="1", name=tool, arguments=arguments)) == said


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("write_file", {"path": "a.md", "content": "x"}, "Write a.md"),
        ("write_file", {"path": "{content}", "content": "x"}, "Write {content}"),
        ("apply_diff", {"path": "a.md", "edits": []}, "Change a.md"),
        ("delete_file", {"path": "a.md"}, "Delete a.md"),
        ("move_file", {"path": "a.md", "target": "b.md"}, "Move a.md to b.md"),
        ("move_file", {"path": "a.md"}, "move_file a.md"),
        ("make_directory", {"path": "a\nb"}, "Make the folder a ⏎ b"),
        ("list_files", {}, "list_files"),
        ("search_files", {"pattern": "a.*b"}, "Search for a.*b"),
    ],
)
def test_a_tool_declares_what_its_calls_do(tool: str, arguments: dict[str, Any], said: str) -> None:
    declared = {one.spec.name: one.spec.deed for one in BUILTIN}[tool]
    assert deed(ToolCall(id="1", name=tool, arguments=arguments), declared) == said


def test_what_a_tool_made_of_its_arguments_is_the_deed() -> None:
    """A call of run_tests names neither the command of the project nor what its paths are given to."""
    call = ToolCall(id="1", name="run_tests", arguments={"paths": ["a_test.py"]})
    assert deed(call, "Run the tests") == "Run the tests"
    assert deed(call, "Run the tests", "python3 -m pytest -q a_test.py") == "Run `python3 -m pytest -q a_test.py`"


def test_a_deed_fits_a_title_and_says_that_it_is_cut() -> None:
    said = deed(ToolCall(id="1", name="run_command", arguments={"command": "x" * 5_000}))
    assert len(said) < 300
    assert said.endswith("…`")

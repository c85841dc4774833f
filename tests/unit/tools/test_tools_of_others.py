"""Tools of other packages: what is broken is named, adds nothing, and stops nobody else (I2)."""

from __future__ import annotations

import itertools
import logging
from pathlib import Path

import pytest

from loops.engine.values import Reversibility, ToolSpec
from loops.tools.builtin import builtin_registry
from loops.tools.registry import RegistrationError, Tool, ToolRegistry
from tests import acme

pytestmark = pytest.mark.spec("I2")
_number = itertools.count()
OBJECT = {"type": "object"}
HEAD = """
from loops.engine.values import Access, Reversibility, ToolSpec
from loops.tools.registry import Tool
OBJECT = {"type": "object"}
def good(name="extra", **more):
    return Tool(ToolSpec(name, "", OBJECT, **more))
def found(registry):
    registry.add(good())
"""
BROKEN = {
    "an import that fails": ("import not_there", "No module named 'not_there'"),
    "the wrong kind of object": ("found = ToolSpec = 3", "names a int"),
    "nothing added": ("def found(registry): pass", "added no tool"),
    "a name that is taken": (HEAD + "    registry.add(good('read_file'))", "'read_file' is taken"),
    "a bad name": (HEAD + "    registry.add(good('no name'))", "a tool name is"),
    "no tool": (HEAD + "    registry.add(ToolSpec('x', '', OBJECT))", "is no Tool"),
    "a schema that is none": (HEAD + "    registry.add(Tool(ToolSpec('x', '', {'type': 7})))", "'x'"),
    "a schema that cannot be written down": (HEAD + "    registry.add(Tool(ToolSpec('x', '', {'a': {1, 2}})))", "'x'"),
    "half of it": (HEAD + "    raise OSError('no account')", "OSError: no account"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_package_is_named_and_adds_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    code, reason = BROKEN[case]
    bad, fine = f"t{next(_number)}", f"t{next(_number)}"
    monkeypatch.syspath_prepend(acme.write(tmp_path / "bad", "tools", bad, code))
    monkeypatch.syspath_prepend(acme.write(tmp_path / "fine", "tools", fine, HEAD.replace("extra", "fine")))
    registry = builtin_registry()
    with caplog.at_level(logging.ERROR):
        (broken,) = registry.load_entry_points()
    assert (broken.name, broken.package) == (bad, f"acme-{bad} 1.0")
    assert reason in broken.reason
    assert str(broken) in caplog.text
    assert set(registry.names()) == {*builtin_registry().names(), "fine"}


@pytest.mark.parametrize(
    "declared",
    [
        {"reversibility": "IRREVERSIBLE"},
        {"default_access": "deny"},
        {"operation": None},
        {"danger": 3},
        {"timeout_s": "30"},
        {"timeout_s": 0},
        {"retriable": "no"},
        {"deed": None},
        {"deed": "Pay {amount}"},
        {"deed": "Pay {0}"},
        {"deed": "Pay {customer.name}"},
        {"deed": "Pay {customer[0]}"},
        {"deed": "Pay {customer:d}"},
        {"deed": "Pay {customer!r}"},
        {"deed": "Pay {customer"},
    ],
    ids=str,
)
def test_a_declaration_that_guards_cannot_read_is_refused(declared: dict[str, object]) -> None:
    """A word in place of a Reversibility would be none of them, and pass every guard."""
    takes = {"type": "object", "properties": {"customer": {"type": "string"}}}
    with pytest.raises(RegistrationError):
        ToolRegistry().add(Tool(ToolSpec("x", "", takes, **declared)))  # type: ignore[arg-type]
    ToolRegistry().add(Tool(ToolSpec("x", "", takes, reversibility=Reversibility.PURE, deed="Pay {customer} {{all}}")))

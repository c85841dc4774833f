"""Whatever is written to the audit log has words for people, and every such word is written by something (SPEC N2)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from loops.models.audit_kinds import AUDIT_KINDS
from loops.models.journal import MailboxItem
from loops.services.steering import RETRY

pytestmark = pytest.mark.spec("N2")
ROOT = Path(__file__).resolve().parents[2]
KIND = re.compile(r"[a-z]+\.[a-z_]+")
WRITERS = {"audit.record": 0, "audit_log.record": 0, "audit_rows.insert": 1, "counts.add": 0, "self.add": 0}
"""Functions that write a row or count one, and which of their arguments is its kind."""
STEERED = {*MailboxItem.Kind.values, RETRY} - {"decision", "detected", "rollback"}
"""What ``_steer`` names its two rows after."""


def trees() -> Iterator[ast.Module]:
    for part in ("loops", "gates", "agentops"):
        for file in (ROOT / part).rglob("*.py"):
            if file.name != "audit_kinds.py" and "migrations" not in file.parts:
                yield ast.parse(file.read_text())


def written(tree: ast.Module) -> Iterator[str]:
    """Kinds that a writer is called with."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            place = WRITERS.get(".".join(ast.unparse(node.func).split(".")[-2:]), 99)
            yield from (kind for one in node.args[place : place + 1] for kind in texts(one))


def named(tree: ast.Module) -> Iterator[str]:
    """Those that something has a name for, as far as they begin like one of the table."""
    known = {kind.partition(".")[0] for kind in AUDIT_KINDS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and re.match(r"\(?([A-Z_]+\b|kind = )", ast.unparse(node)):
            yield from (kind for kind in texts(node.value) if kind.partition(".")[0] in known)


def texts(node: ast.expr) -> Iterator[str]:
    for one in ast.walk(node):
        if isinstance(one, ast.Constant) and isinstance(one.value, str) and KIND.fullmatch(one.value):
            yield one.value


def test_every_kind_has_words_and_every_word_is_used() -> None:
    found = {kind for tree in trees() for kind in (*written(tree), *named(tree))}
    steered = {f"run.{kind}{end}" for kind in STEERED for end in ("", "_refused")}
    assert found | steered <= AUDIT_KINDS.keys(), "its line belongs into loops/models/audit_kinds.py"
    assert AUDIT_KINDS.keys() <= found | steered, f"nothing that is seen here writes it: {', '.join(WRITERS)}"


def test_a_new_kind_is_noticed() -> None:
    tree = ast.parse('AT, REFUSED = "x.y", "run.unheard_of"\naudit.record("plan.made", actor=None)\nrow.insert("a.b")')
    assert ([*written(tree)], [*named(tree)]) == (["plan.made"], ["run.unheard_of"])


def test_nobody_writes_around_the_writer() -> None:
    """One shape, one masking: rows are made by `services.audit` and, without the ORM, by `storage.audit_rows` alone."""
    makers = [
        str(file.relative_to(ROOT))
        for part in ("loops", "gates", "agentops")
        for file in (ROOT / part).rglob("*.py")
        if re.search(r"AuditEvent(\.objects\.(create|bulk_create)|\()|INSERT INTO loops_auditevent", file.read_text())
    ]
    assert [name for name in makers if "migrations" not in name and name != "loops/models/provenance.py"] == [
        "loops/services/audit.py",
        "loops/storage/audit_rows.py",
    ]

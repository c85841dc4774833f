"""The access matrix as a table: which rule wins, and why (SPEC I3, O1)."""

from __future__ import annotations

import pytest

from loops.engine.text.patterns import BadPattern, regular_expression
from loops.engine.values import Access, Reversibility, ToolSpec
from loops.tools.globs import matches
from loops.tools.policy import AccessRule, evaluate, may_ask

ALLOW, ASK, DENY = Access.ALLOW, Access.ASK, Access.DENY
WRITE = ToolSpec("write_file", "", {}, operation="write", reversibility=Reversibility.REVERSIBLE)
FETCH = ToolSpec("fetch", "", {}, operation="network", reversibility=Reversibility.PURE, default_access=DENY)
PAY = ToolSpec("pay", "", {}, operation="pay", reversibility=Reversibility.IRREVERSIBLE)

TABLE = [
    ("no rule: a person is asked", [], WRITE, ("a",), ASK),
    ("no rule: a default of deny", [], FETCH, (), DENY),
    ("any beats the default", [AccessRule(ASK)], WRITE, ("a",), ASK),
    ("a named tool beats any", [AccessRule(DENY), AccessRule(ALLOW, tool="write_file")], WRITE, ("a",), ALLOW),
    (
        "a whole name beats part",
        [AccessRule(DENY, tool="write_*"), AccessRule(ALLOW, tool="write_file")],
        WRITE,
        (),
        ALLOW,
    ),
    ("two names beat one", [AccessRule(DENY, "coder"), AccessRule(ASK, "coder", "write_file")], WRITE, (), ASK),
    ("among equals deny wins", [AccessRule(ALLOW, "coder"), AccessRule(DENY, "*", "write_file")], WRITE, (), DENY),
    ("among equals ask beats allow", [AccessRule(ALLOW, tool="write_file"), AccessRule(ASK, "coder")], WRITE, (), ASK),
    ("another agent's rule is not ours", [AccessRule(DENY, "reviewer")], WRITE, (), ASK),
    ("another operation's rule is not ours", [AccessRule(DENY, operation="read")], WRITE, (), ASK),
    ("a path rule needs the path", [AccessRule(DENY, paths=("secret/**",))], WRITE, ("src/a",), ASK),
    (
        "a path rule beats names",
        [AccessRule(DENY, paths=("secret/**",)), AccessRule(ALLOW, "coder", "write_file", "write")],
        WRITE,
        ("secret/a/b",),
        DENY,
    ),
    (
        "the longer path wins",
        [AccessRule(DENY, paths=("secret/**",)), AccessRule(ALLOW, tool="write_file", paths=("secret/open/**",))],
        WRITE,
        ("secret/open/a",),
        ALLOW,
    ),
    ("the strictest path decides", [AccessRule(DENY, paths=("x/**",))], WRITE, ("src/a", "x/b"), DENY),
    ("irreversible is never below ask", [AccessRule(ALLOW, "coder", "pay", "pay")], PAY, (), ASK),
    ("irreversible by default as well", [], PAY, (), ASK),
    ("irreversible may be denied", [AccessRule(DENY)], PAY, (), DENY),
]


@pytest.mark.spec("I3", "O1")
@pytest.mark.parametrize(
    ("rules", "spec", "paths", "expected"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE]
)
def test_the_winning_rule(rules: list[AccessRule], spec: ToolSpec, paths: tuple[str, ...], expected: Access) -> None:
    verdict = evaluate(rules, spec, "coder", paths=paths)
    assert verdict.access is expected
    assert verdict.reason


def test_the_reason_names_the_rule() -> None:
    rule = AccessRule(DENY, tool="write_file", paths=("secret/**",), note="keys live there")
    reason = evaluate([rule], WRITE, "coder", paths=["secret/a"]).reason
    assert reason == ("access matrix for 'secret/a': deny write_file on secret/** (keys live there)")


@pytest.mark.spec("I3")
@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (AccessRule(ASK), "ask before any tool"),
        (AccessRule(ALLOW, agent_type="coder", operation="read"), "allow any tool whose operation is read by coder"),
        (AccessRule(DENY, tool="fetch", hosts=("*.example.org",)), "deny fetch at *.example.org"),
    ],
)
def test_a_rule_says_only_what_it_speaks_of(rule: AccessRule, said: str) -> None:
    assert str(rule) == said


def test_hosts_are_judged_like_paths() -> None:
    rules = [AccessRule(ALLOW, tool="fetch", hosts=("*.example.org",))]
    assert evaluate(rules, FETCH, "coder", hosts=["docs.example.org"]).access is ALLOW
    assert evaluate(rules, FETCH, "coder", hosts=["example.org.evil.net"]).access is DENY


@pytest.mark.spec("I3")
def test_a_tool_is_hidden_only_when_every_call_is_denied() -> None:
    assert not may_ask([AccessRule(DENY, tool="write_file")], WRITE, "coder")
    assert may_ask([AccessRule(DENY, tool="write_file"), AccessRule(ASK, paths=("src/**",))], WRITE, "coder")


def test_a_pattern_that_hangs_python_is_linear_here() -> None:
    """Row 49 of the attack list: 26 characters took Python's own engine 7.7 s."""
    assert regular_expression("(a+)+$").search("a" * 5_000 + "!") is None
    assert not matches("*a*a*a*a*a*a*a*b", "a" * 5_000)
    with pytest.raises(BadPattern):
        regular_expression("(?=a)")


@pytest.mark.parametrize(
    ("glob", "path", "fits"),
    [
        ("*.py", "a.py", True),
        ("*.py", "a/b.py", False),
        ("**/*.py", "a.py", True),
        ("**/*.py", "a/b/c.py", True),
        ("src/**", "src/a/b", True),
        ("src/**", "srcs/a", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a.c", "abc", False),
        ("a[b]+(c)", "a[b]+(c)", True),
    ],
)
def test_globs(glob: str, path: str, *, fits: bool) -> None:
    assert matches(glob, path) is fits

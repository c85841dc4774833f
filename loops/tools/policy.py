"""Who may do what: agent type x tool x operation, with paths and hosts -> allow, ask or deny (SPEC I3). Pure.

The most specific rule wins: first the one whose path or host pattern has more fixed characters (so that "deny
secrets/**" holds against "allow write_file"), then the one with more exact names; among equals deny beats ask beats
allow. A call that touches several paths or hosts is
judged for each, and the strictest answer holds. IRREVERSIBLE tools are never below ask, whatever a rule says (O1).

Silence means ask. Only a rule that names the tool or its operation can allow a call; where no rule speaks of it, or
only one for anything at all, a person is asked, whatever the tool says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from loops.engine.values import UNDECLARED, Access, Reversibility, ToolSpec
from loops.tools.globs import literal_length, matches

DEFAULT_MATRIX = (
    # operation, access, why
    ("read", "allow", "Reading inside the workspace changes nothing."),
    ("write", "allow", "Writes stay inside the run's own workspace and are shown as a diff."),
    ("delete", "ask", "Deleting loses work."),
    ("execute", "ask", "A command can do anything that the sandbox lets it."),
    ("network", "ask", "What is sent to another host cannot be taken back."),
)
"""What a project begins with, until an admin changes it."""
_STRICTNESS = {Access.ALLOW: 0, Access.ASK: 1, Access.DENY: 2}
_SAID = {Access.ALLOW: "allow", Access.ASK: "ask before", Access.DENY: "deny"}
_ANY = ("*", "**")


@dataclass(frozen=True, slots=True)
class AccessRule:
    """Globs all over: ``agent_type``, ``tool`` and ``operation`` may be "*". A rule with ``paths`` speaks only of
    calls that touch such a path, one with ``hosts`` only of calls that reach such a host. ``note`` is for people."""

    access: Access
    agent_type: str = "*"
    tool: str = "*"
    operation: str = "*"
    paths: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    note: str = ""

    def __str__(self) -> str:
        """For people: only what the rule speaks of."""
        tool = "any tool" if self.tool in _ANY else self.tool
        parts = (
            ("whose operation is", "" if self.operation in _ANY else self.operation),
            ("on", " ".join(self.paths)),
            ("at", " ".join(self.hosts)),
            ("by", "" if self.agent_type in _ANY else self.agent_type),
        )
        scope = "".join(f" {word} {what}" for word, what in parts if what)
        note = f" ({self.note})" if self.note else ""
        return f"{_SAID[self.access]} {tool}{scope}{note}"


@dataclass(frozen=True, slots=True)
class Verdict:
    access: Access
    reason: str


def evaluate(
    rules: Sequence[AccessRule],
    spec: ToolSpec,
    agent_type: str,
    *,
    paths: Sequence[str] = (),
    hosts: Sequence[str] = (),
) -> Verdict:
    """The strictest verdict over all (path, host) the call touches, with the rule that gave it named."""
    usable = [rule for rule in rules if _concerns(rule, spec.name, spec.operation, agent_type)]
    subjects: list[tuple[str, str]] = [(path, "") for path in paths] + [("", host) for host in hosts]
    verdicts = [_one(usable, spec, path, host) for path, host in subjects or [("", "")]]
    worst = max(verdicts, key=lambda verdict: _STRICTNESS[verdict.access])
    if spec.reversibility is Reversibility.IRREVERSIBLE and worst.access is Access.ALLOW:
        return Verdict(Access.ASK, f"{spec.name} is irreversible: a person decides each time")
    return worst


def may_ask(rules: Sequence[AccessRule], spec: ToolSpec, agent_type: str) -> bool:
    """False only when every call of the tool would be denied: then the model is not shown it."""
    usable = [rule for rule in rules if _concerns(rule, spec.name, spec.operation, agent_type)]
    if _one(usable, spec, "", "").access is not Access.DENY:
        return True
    return any(rule.access is not Access.DENY for rule in usable if rule.paths or rule.hosts)


def denied_paths(rules: Sequence[AccessRule], agent_type: str) -> list[AccessRule]:
    """The rules that deny an agent of this type some paths."""
    denying = (rule for rule in rules if rule.access is Access.DENY and rule.paths)
    return [rule for rule in denying if matches(rule.agent_type, agent_type)]


def without_rule(spec: ToolSpec) -> Access:
    """What holds for a tool of which no rule speaks: at least ask, but for one that ends a step and runs nothing."""
    if spec.loop_breaking:
        return spec.default_access
    return max(spec.default_access, Access.ASK, key=_STRICTNESS.__getitem__)


def may_allow(rule: AccessRule) -> bool:
    """Does the rule name what it speaks of? Who may and where is not enough: it would allow what nobody thought of."""
    return bool(literal_length(rule.tool) or literal_length(rule.operation))


@lru_cache(maxsize=4096)  # asked of every rule for every call, and nothing of it comes from a model
def _concerns(rule: AccessRule, tool: str, operation: str, agent_type: str) -> bool:
    return matches(rule.agent_type, agent_type) and matches(rule.tool, tool) and matches(rule.operation, operation)


def _one(rules: Iterable[AccessRule], spec: ToolSpec, path: str, host: str) -> Verdict:
    best: tuple[tuple[int, int, int], AccessRule] | None = None
    for rule in rules:
        path_length, host_length = _fit(rule.paths, path), _fit(rule.hosts, host)
        if path_length is None or host_length is None:
            continue
        key = (path_length + host_length, _exactness(rule), _STRICTNESS[rule.access])
        if best is None or key > best[0]:
            best = (key, rule)
    subject = f" for {path or host!r}" if path or host else ""
    if best is None:
        access = without_rule(spec)
        return Verdict(access, f"access matrix: no rule{subject} names {_named(spec)}: {access}")
    rule = best[1]
    if rule.access is Access.ALLOW and not may_allow(rule):
        reason = f"access matrix{subject}: {rule}, but that names neither a tool nor an operation: ask"
        return Verdict(Access.ASK, reason)
    return Verdict(rule.access, f"access matrix{subject}: {rule}")


def _named(spec: ToolSpec) -> str:
    undeclared = "which it does not declare" if spec.operation == UNDECLARED else repr(spec.operation)
    return f"{spec.name} or its operation ({undeclared})"


def _fit(globs: tuple[str, ...], text: str) -> int | None:
    """Length of the longest glob that fits, 0 without globs, None when there are globs and none fits."""
    if not globs:
        return 0
    fitting = [literal_length(glob) for glob in globs if text and matches(glob, text)]
    return max(fitting, default=None)


def _exactness(rule: AccessRule) -> int:
    """Two for each field with an exact value, one for each with a partial pattern, none for "*"."""
    names = (rule.agent_type, rule.tool, rule.operation)
    return sum(0 if name in _ANY else 1 if "*" in name or "?" in name else 2 for name in names)

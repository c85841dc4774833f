"""What a task says about tests: does it ask to change them? Then changes of tests are its work."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

LONGEST = 20_000
_TESTS = re.compile(r"\b(?:unit ?tests?|tests?|test suite|test cases?|specs|coverage|assertions?|fixtures?)\b", re.I)
_CHANGES = re.compile(
    r"\b(?:update|change|refactor|rewrite|adapt|delete|remove|drop|rename|move|split|merge|migrate|port|convert|moderni[sz]e|"
    r"clean|simplify|skip|mark|disable|replace|reorgani[sz]e|deduplicate|parametri[sz]e)\b",
    re.I,
)
_NOT = re.compile(r"\b(?:not|never|without|don't|no|neither|nor|must(?:n't)?|instead of|rather than)\b", re.I)
_REMOVES = re.compile(r"\b(?:remove|delete|drop|rename|deprecat\w{0,10}|replace|retire|clean)\b", re.I)
_PASS = re.compile(r"\s*(?:\w+ ){0,3}(?:pass|passes|succeed|succeeds|green|work|hold)\b", re.I)
_PARTS = re.compile(r"[.;!?\n]+\s+|\n")
_WORD = re.compile(r"[\w./-]{1,300}")
_NEAR = 60
"""Characters between a verb and its tests."""


@dataclass(frozen=True)
class Goal:
    text: str

    @cached_property
    def changes_tests(self) -> bool:
        """Those that were there before may be other ones afterwards."""
        return self._asks(_CHANGES)

    @cached_property
    def removes(self) -> bool:
        """Something is to go, and its tests with it."""
        return _REMOVES.search(self.text[:LONGEST]) is not None

    def names(self, path: str) -> bool:
        """Does it speak of this file by name?"""
        return PurePosixPath(path).name in self._files

    @cached_property
    def _files(self) -> frozenset[str]:
        return frozenset(PurePosixPath(word.rstrip(".")).name for word in _WORD.findall(self.text[:LONGEST]))

    def _asks(self, verbs: re.Pattern[str]) -> bool:
        """One of the verbs stands shortly before a word for tests, and nothing says no."""
        for part in _PARTS.split(self.text[:LONGEST]):
            for verb in verbs.finditer(part):
                tests = _TESTS.search(part, verb.end(), verb.end() + _NEAR)
                if tests and not _PASS.match(part, tests.end()) and not _NOT.search(part, 0, verb.start()):
                    return True
        return False

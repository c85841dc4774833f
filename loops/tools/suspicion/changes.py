"""A changed file as the detectors see it, and which files are tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePosixPath

from loops.engine.state.remark import Level, Remark

LARGEST = 1_000_000
"""Bytes of a file that are looked at."""
_TEST_FOLDERS = frozenset({
    "test", "tests", "__tests__", "__mocks__", "__snapshots__", "__fixtures__", "spec", "specs", "testing", "e2e",
})  # fmt: skip
_TEST_NAME = re.compile(
    r"(?:test|tests)|(?:test_|tests_).{0,200}|.{1,200}(?:[_.-](?:test|tests|spec)|Test|Tests|Spec)", re.DOTALL
)
_SETS_UP = re.compile(
    r"(?:jest|vitest|mocha|karma)[._-]?(?:setup|globals?|env(?:ironment)?|preset)|setup[._-]?(?:jest|vitest)", re.I
)
RECORDED = "snap"
_SCRIPT = frozenset({"js", "cjs", "mjs", "jsx", "ts", "cts", "mts", "tsx"})
_CODE = _SCRIPT | {
    "py",
    "pyi",
    "go",
    "rs",
    "rb",
    "java",
    "kt",
    "php",
    "cs",
    "swift",
    "c",
    "cc",
    "cpp",
    "h",
    "ex",
    "exs",
}
_APART = frozenset({"examples", "benchmarks", "bench", "scripts", "bin", "tools", "docs"})
_ENTRY_FILES = frozenset({"__main__", "cli", "main", "manage", "setup", "noxfile", "app", "server", "wsgi", "conf"})


@dataclass(frozen=True)
class Change:
    """``before`` and ``after`` are None where there was, or is, no such file."""

    path: str
    before: bytes | None
    after: bytes | None

    @cached_property
    def ending(self) -> str:
        return PurePosixPath(self.path).suffix.removeprefix(".").lower()

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name

    @property
    def is_python(self) -> bool:
        return self.ending == "py"

    @property
    def is_script(self) -> bool:
        """JavaScript or TypeScript."""
        return self.ending in _SCRIPT

    @cached_property
    def is_test(self) -> bool:
        """Code that tests; what only lies beside it, such as data, is not."""
        return self.ending in _CODE and is_in_tests(self.path)

    @property
    def is_recorded(self) -> bool:
        """What tests compare with, as a runner wrote it down."""
        return self.ending == RECORDED

    @property
    def is_apart(self) -> bool:
        """Of a program or a script that tests do not import as a library: it may end its process."""
        place = PurePosixPath(self.path)
        return place.stem.lower() in _ENTRY_FILES or bool(_APART & set(place.parts[:-1]))

    @property
    def is_edited(self) -> bool:
        return self.before is not None and self.after is not None


def is_in_tests(path: str) -> bool:
    place = PurePosixPath(path)
    ending = place.suffix.removeprefix(".")
    sets_up = ending in _SCRIPT and _SETS_UP.fullmatch(place.stem)
    named = _TEST_NAME.fullmatch(place.stem) or sets_up or ending == RECORDED
    return bool(_TEST_FOLDERS & set(place.parts[:-1])) or bool(named)


def whole_text(data: bytes | None) -> str:
    """As source is read: UTF-8, whatever cannot be read marked."""
    return (data or b"").decode("utf-8-sig", "replace")


def too_large(changes: Sequence[Change]) -> list[Remark]:
    """One remark for each file of code that nobody looks into; new size is what makes it suspicious."""
    found = []
    for one in changes:
        before, after = len(one.before or b""), len(one.after or b"")
        if one.ending in _CODE and max(before, after) > LARGEST:
            grew = before <= LARGEST < after
            text = f"Not looked at: too large ({max(before, after):,} bytes, at most {LARGEST:,} are read)."
            level = Level.SUSPICIOUS if grew else Level.TO_KNOW
            found.append(Remark("not_looked_at", one.path, text, level=level))
    return found

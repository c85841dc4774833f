"""What .gitignore leaves out, as git itself reads it, whatever whoever wrote it had in mind (SPEC I5, X5)."""

from __future__ import annotations

import os
import random
import subprocess
import time
from pathlib import Path

import pytest

from loops.tools.git_ignore import LONGEST_RULE, MOST_BYTES, MOST_RULES, GitIgnore, TooLong

pytestmark = pytest.mark.spec("I5")
PIECES = [
    *("a", "b", "ab", "*", "**", "?", "/", "/", "/", "x.y", "*.y", "!", "#", " ", "\\ ", ".", "***", "\u00e9"),
    *("[ab]", "[!a]", "[^b]", "[a-c]", "\\a", "\\*", "[[:alpha:]]", "[[:nothing:]]", "[]a]", "[a", "[.-0]", "\\"),
    *("[a\\]b]", "[z-a]", "[^/]"),
]
NAMES = ["a", "b", "ab", "x.y", "c", "a b", "\u00e9", "*", "#a", "!a", "0", " ", "]"]


def of(**texts: str | bytes) -> GitIgnore:
    """Rules by folder; ``top`` for those at the top."""
    named = {".gitignore" if name == "top" else f"{name}/.gitignore": text for name, text in texts.items()}
    read = {name: text if isinstance(text, bytes) else text.encode() for name, text in named.items()}
    return GitIgnore(lambda path: read.get(path, b""))


def rule(rnd: random.Random) -> str:
    pieces = "".join(rnd.choice(PIECES) for _ in range(rnd.randint(1, 4)))
    return f"{rnd.choice(['', '!', '', '/'])}{pieces}{rnd.choice(['', '', '/', ' ', chr(13)])}"


def folder_of(rnd: random.Random, top: Path) -> tuple[list[str], list[str]]:
    """(folders, files) below ``top``, with rules in three of the folders."""
    folders = [""]
    for name in rnd.sample(NAMES, 3):
        folders += [name, *(f"{name}/{inner}" for inner in rnd.sample(NAMES, 2))]
    files = [path for folder in folders for name in NAMES if (path := f"{folder}/{name}".strip("/")) not in folders]
    for path in folders:
        (top / path).mkdir(parents=True, exist_ok=True)
    for path in files:
        (top / path).touch()
    for path in rnd.sample(folders, 3):
        rules = "\n".join(rule(rnd) for _ in range(rnd.randint(1, 4)))
        (top / path / ".gitignore").write_bytes(rules.encode() + rnd.choice([b"", b"\n"]))
    return [path for path in folders if path], files


def said_by_git(top: Path, paths: list[str]) -> dict[str, bool]:
    command = ["git", "check-ignore", "--stdin", "-z", "-v", "-n", "--no-index"]
    words = subprocess.run(command, input="\0".join(paths).encode(), cwd=top, capture_output=True).stdout
    fields = os.fsdecode(words).split("\0")
    rows = zip(fields[::4], fields[2::4], fields[3::4], strict=False)
    return {path: bool(source) and not pattern.startswith("!") for source, pattern, path in rows}


@pytest.mark.parametrize("seed", range(4))
def test_it_is_what_git_says(seed: int, tmp_path: Path) -> None:
    """Some thousand paths below folders with arbitrary rules, nested and negated."""
    rnd, ignored = random.Random(seed), 0
    for number in range(12):
        top = tmp_path / str(number)
        folders, files = folder_of(rnd, top)
        subprocess.run(["git", "init", "-q", str(top)], check=True)
        theirs = said_by_git(top, [*folders, *files])
        ours = GitIgnore(lambda path, top=top: (top / path).read_bytes() if (top / path).is_file() else b"")
        for path, expected in theirs.items():
            said = ours.ignores(path, is_folder=path in folders)
            rules = {str(file): file.read_text() for file in top.rglob(".gitignore")}
            assert said == expected, (path, rules)
            ignored += expected
    assert ignored > 20


@pytest.mark.parametrize(
    ("rules", "path", "ignored"),
    [
        ({"top": "*.log\n", "x": "!a.log\n"}, "x/a.log", False),
        ({"top": "*.log\n", "x": "!a.log\n"}, "y/a.log", True),
        ({"top": "d/\n!d/sub/*\n"}, "d/sub/f.txt", True),
        ({"top": "vendor/\n", "a": "!vendor\n"}, "a/vendor/f.txt", False),
        ({"top": "build/\n"}, "build", False),
        ({"top": b"\xef\xbb\xbffoo\r\n"}, "foo", True),
        ({"top": b"\xff*.x\n"}, "\udcffa.x", True),
        ({"top": "?.x\n"}, "\udcff.x", True),
    ],
)
def test_what_other_readings_get_wrong(rules: dict[str, str], path: str, ignored: bool) -> None:
    assert of(**rules).ignores(path) == ignored


@pytest.mark.spec("X5")
@pytest.mark.parametrize(
    "rules",
    [
        "\n".join(f"x{number}" for number in range(1_000_000)),
        "\n".join(f"{'*a' * 100}b{number}" for number in range(300)),
        "\n".join(f"{'**/' * 100}b{number}" for number in range(200)),
        "\n".join(f"{'[a-z]*' * 100}b{number}" for number in range(100)),
        "\n".join(f"*a{number}*b*c" for number in range(MOST_RULES)),
        "[" * 60_000,
        "\\" * 60_001,
    ],
    ids=["very many", "stars", "folders", "classes", "as many as are read", "brackets", "backslashes"],
)
def test_no_rules_take_for_ever(rules: str) -> None:
    """A backtracking match of some of them would outlive whoever waits."""
    began = time.process_time()
    found = of(top=rules)
    assert not any(found.ignores(f"{'a' * 200}{number}/{'a' * 20}") for number in range(100))
    assert time.process_time() - began < 20


def test_a_rule_after_a_strange_one_still_holds() -> None:
    """The positive control of the test before."""
    assert of(top=f"{'*a' * 100}b\n[\n*.log\n").ignores("x.log")


def test_what_is_too_much_is_named_and_leaves_nothing_out() -> None:
    first = of(top="\n".join(["kept", *["x"] * (MOST_RULES - 1), "beyond"]))
    assert (first.ignores("kept"), first.ignores("beyond"), first.unread) == (True, False, [".gitignore"])
    second = of(top=f"{'x' * (LONGEST_RULE + 1)}\nkept\n")
    assert (second.ignores("kept"), second.ignores("x" * (LONGEST_RULE + 1)), second.unread) == (
        True,
        False,
        [".gitignore"],
    )
    fits = of(top="\n".join(["x"] * (MOST_RULES - 1) + ["last"]))
    assert (fits.ignores("last"), fits.unread) == (True, [])


def test_rules_have_only_so_much_time() -> None:
    with pytest.raises(TooLong):
        GitIgnore(lambda path: b"*.log\n", seconds=0.0).ignores("a.log")
    assert GitIgnore(lambda path: b"*.log\n", seconds=5.0).ignores("a.log")
    assert MOST_BYTES < 1 << 20

"""Patches hold what became of files, as git reads them; the git program is the judge (SPEC O2)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loops.engine.rollback.plan import FileChange
from loops.tools import patches

pytestmark = pytest.mark.spec("O2")

Tree = dict[str, tuple[int, bytes]]
"""Path to (mode, bytes); the mode of a link is 0."""

NAMES = st.sampled_from(["a", "b.txt", "ä ö", "q'uo\"te", "deep/x", "deep/er/y", "-dash", "$(touch x)", "d", "d/x"])
BODIES = st.one_of(
    st.binary(max_size=200),
    st.text(st.sampled_from("ab\n\r\t ä"), max_size=60).map(str.encode),
    st.just(b""),
    st.just(b"line\n" * 500),
    st.just(b"caf\xe9\n"),
    st.just(b"-- \ndiff --git a/x b/x\n"),
)
FILES = st.tuples(st.sampled_from([0o644, 0o755]), BODIES)
LINKS = st.tuples(st.just(0), st.sampled_from([b"a", b"../out", b"deep/x"]))
TREES = st.dictionaries(NAMES, st.one_of(FILES, LINKS), max_size=6).filter(lambda tree: not {"d", "d/x"} <= {*tree})


def state(tree: Tree, path: str) -> str:
    if path not in tree:
        return ""
    mode, body = tree[path]
    return f"file:{mode:o}:{hashlib.sha256(body).hexdigest()}" if mode else f"link:{os.fsdecode(body)}"


def made(before: Tree, after: Tree) -> bytes:
    paths = sorted(before.keys() | after.keys())
    changes = [FileChange(path, state(before, path), state(after, path)) for path in paths]
    bodies = {hashlib.sha256(body).hexdigest(): body for tree in (before, after) for _, body in tree.values()}
    return patches.patch([one for one in changes if one.before != one.after], bodies)


def fill(folder: Path, tree: Tree) -> None:
    for path, (mode, body) in tree.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if mode:
            place.write_bytes(body)
            place.chmod(mode)
        else:
            place.symlink_to(os.fsdecode(body))


def look(folder: Path) -> Tree:
    found: Tree = {}
    for place in folder.rglob("*"):
        name = str(place.relative_to(folder))
        if place.is_symlink():
            found[name] = 0, os.fsencode(place.readlink())
        elif place.is_file():
            found[name] = 0o755 if place.stat().st_mode & 0o100 else 0o644, place.read_bytes()
    return found


def applied(before: Tree, patch: bytes, environment: Mapping[str, str] | None = None) -> Tree:
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), before)
        words = ["git", "apply", "--whitespace=nowarn"]
        done = subprocess.run(words, cwd=folder, input=patch, capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr.decode()
        return look(Path(folder))


@given(TREES, TREES)
@example({"a": (0o644, b"x" * 3000 + b"\0")}, {"b.txt": (0o755, b"x" * 3000 + b"\0y")})
@example({"a": (0o644, b"one\n")}, {"a": (0, b"b.txt"), "b.txt": (0o644, b"one\n")})
@example({"a": (0o644, b"\0"), "b.txt": (0o644, b"")}, {"a": (0, b"a"), "ä ö": (0o644, b"")})
def test_git_makes_the_states_after_of_those_before(before: Tree, after: Tree) -> None:
    patch = made(before, after)
    if patch:
        assert applied(before, patch) == after
    else:
        assert before == after


def test_a_move_is_told_as_one() -> None:
    body = b"line\n" * 50
    patch = made({"a": (0o644, body)}, {"b.txt": (0o644, body + b"more\n")})
    assert b"rename from a\nrename to b.txt\n" in patch
    assert patch.count(b"\n+") == 2, "its header and the line"


def test_what_somebody_set_for_git_changes_no_patch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = {"a": (0o644, b"1\n")}, {"a": (0o644, b"2\n")}
    (tmp_path / ".gitconfig").write_text("[diff]\n\tnoprefix = true\n\tcontext = 0\n[core]\n\tquotePath = false\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert b"--- a/a\n+++ b/a\n" in made(before, after)


@pytest.mark.parametrize(
    ("told", "fits"),
    [
        ("", True),
        ("directory", True),
        ("file:644:" + "0" * 64, True),
        ("link:a", True),
        ("large:9:9", False),
        ("other", False),
    ],
)
def test_what_git_cannot_tell_is_known(told: str, fits: bool) -> None:
    assert patches.fits(told) is fits

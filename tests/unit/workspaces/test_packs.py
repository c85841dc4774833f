"""Objects of packs: what git itself reads there, and nothing worse than a word of refusal where somebody built them."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.workspaces.git import packs
from loops.workspaces.git.repository import object_name

pytestmark = pytest.mark.spec("X3", "X5")
NAME = "ab" * 20


@contextmanager
def opened(folder: Path) -> Iterator[packs.Packs]:
    with SafeDirectory(str(folder), strict=True) as directory, ExitStack() as files:
        yield packs.Packs(directory.listed(), files)


def git(folder: Path, *words: str) -> str:
    who = {f"GIT_{one}_{what}": "a@localhost" for one in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {**os.environ, **who, "GIT_CONFIG_GLOBAL": os.devnull}
    done = subprocess.run(["git", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A history whose objects are differences to one another, in two packs."""
    folder = tmp_path_factory.mktemp("packed")
    git(folder, "init", "-q", ".")
    numbers = random.Random(1)
    lines = [str(numbers.random()) for _ in range(3_000)]
    for number in range(40):
        lines[numbers.randrange(3_000)] = "x" * number
        for name in ("a", "d/b", f"d/{number}"):
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text("\n".join(lines))
        git(folder, "add", "-A")
        git(folder, "commit", "-qm", f"{number}")
        if number == 20:
            git(folder, "repack", "-dq")
    git(folder, "repack", "-dq", "--depth=40", "--window=40")
    return folder


def test_every_object_is_what_git_reads(packed: Path) -> None:
    listed = git(packed, "cat-file", "--batch-all-objects", "--batch-check=%(objectname) %(objecttype) %(deltabase)")
    rows = [line.split() for line in listed.splitlines()]
    assert sum(base != "0" * 40 for _, _, base in rows) > 50, "control: many are differences"
    assert len(list((packed / ".git/objects/pack").glob("*.idx"))) == 2
    with opened(packed) as found:
        for name, kind, _ in rows:
            its = found.read(name)
            assert its is not None
            assert (its[0], object_name(*its)) == (kind, name)
            assert found.has(name)
        assert found.read(NAME) is None
        assert not found.has(NAME)


def test_what_is_damaged_is_said_to_be(packed: Path, tmp_path: Path) -> None:
    """Whatever byte is another, an object is as it was, or not there, or refused."""
    names = git(packed, "rev-list", "--objects", "--all", "--no-object-names").split()
    target = tmp_path / ".git/objects/pack"
    target.mkdir(parents=True)
    stem = max((packed / ".git/objects/pack").glob("*.pack"), key=lambda path: path.stat().st_size)
    whole = {path.suffix: path.read_bytes() for path in (stem, stem.with_suffix(".idx"))}
    numbers, refused = random.Random(7), 0
    for trial in range(150):
        for suffix, data in whole.items():
            changed = bytearray(data)
            if (trial % 2 == 0) == (suffix == ".pack"):
                for _ in range(max(1, len(changed) // 400)):
                    changed[numbers.randrange(8, len(changed))] = numbers.randrange(256)
            (target / f"p{suffix}").write_bytes(changed[: len(changed) // 2] if trial % 5 == 4 else changed)
        try:
            with opened(tmp_path) as found:
                for name in numbers.sample(names, 10):
                    found.read(name)
        except packs.Damaged:
            refused += 1
    assert refused > 50


def made(folder: Path, entry: bytes) -> None:
    """A pack with one object, called NAME."""
    target = folder / ".git/objects/pack"
    target.mkdir(parents=True)
    (target / "p.pack").write_bytes(b"PACK\0\0\0\2\0\0\0\1" + entry + bytes(20))
    key = bytes.fromhex(NAME)
    table = b"".join((1 if byte >= key[0] else 0).to_bytes(4) for byte in range(256))
    (target / "p.idx").write_bytes(b"\xfftOc\0\0\0\2" + table + key + bytes(4) + (12).to_bytes(4) + bytes(40))


def header(kind: int, size: int) -> bytes:
    bytes_, size = [kind << 4 | size & 15], size >> 4
    while size:
        bytes_[-1] |= 0x80
        bytes_.append(size & 0x7F)
        size >>= 7
    return bytes(bytes_)


TREE, OFFSET, REFERENCE = 2, 6, 7
COPY_NOTHING = b"\x05\x05\x00"
ENTRIES = {
    "control": header(TREE, 5) + zlib.compress(b"hello"),
    "bomb": header(TREE, 5) + zlib.compress(bytes(200_000_000)),
    "huge": header(TREE, 1 << 40) + zlib.compress(b"hello"),
    "short": header(TREE, 500) + zlib.compress(b"hello"),
    "to itself": header(REFERENCE, 3) + bytes.fromhex(NAME) + zlib.compress(COPY_NOTHING),
    "to another": header(REFERENCE, 3) + bytes(20) + zlib.compress(COPY_NOTHING),
    "back by nothing": header(OFFSET, 3) + b"\0" + zlib.compress(COPY_NOTHING),
    "back too far": header(OFFSET, 3) + b"\x80" * 30 + b"\x01" + zlib.compress(COPY_NOTHING),
    "no kind": header(5, 5) + zlib.compress(b"hello"),
    "no zlib": header(TREE, 5) + b"hello",
}


@pytest.mark.parametrize("case", ENTRIES)
def test_a_pack_that_somebody_built_is_refused(tmp_path: Path, case: str) -> None:
    made(tmp_path, ENTRIES[case])
    with opened(tmp_path) as found:
        if case == "control":
            assert found.read(NAME) == ("tree", b"hello")
        else:
            with pytest.raises(packs.Damaged):
                found.read(NAME)


@pytest.mark.parametrize(
    ("difference", "what"),
    [
        (b"\x05\x05\x05hello", b"hello"),
        (b"\x05\x03\x91\x01\x03", b"ell"),
        (b"\x05\x05\x05hell", None),
        (b"\x05\x09\x91\x03\x09", None),
        (b"\x04\x05\x05hello", None),
        (b"\x05\x05\x00", None),
        (b"\x05\x02\x05hello", None),
        (b"\x05\x06\x05hello", None),
        (b"\x05" + b"\xff" * 12, None),
        (b"", None),
    ],
)
def test_a_difference_makes_what_it_says_or_nothing(difference: bytes, what: bytes | None) -> None:
    if what is None:
        with pytest.raises(packs.Damaged):
            packs._applied(difference, b"hello")
    else:
        assert packs._applied(difference, b"hello") == what


def test_a_difference_to_much_and_often_is_refused() -> None:
    ground = bytes(packs.MOST_BYTES)
    size = bytes([*(packs.MOST_BYTES >> shift & 0x7F | 0x80 for shift in (0, 7, 14)), packs.MOST_BYTES >> 21])
    whole = (
        size
        + size
        + b"".join(
            bytes([0x80 | 0x0F, *(at * 0x10000).to_bytes(4, "little")]) for at in range(packs.MOST_BYTES // 0x10000)
        )
    )
    assert hashlib.sha1(packs._applied(whole, ground)).digest() == hashlib.sha1(ground).digest()
    with pytest.raises(packs.Damaged, match="more than one of anybody's"):
        packs._built(ground, [whole] * 20)


def test_no_link_to_a_pack_is_followed(packed: Path, tmp_path: Path) -> None:
    (tmp_path / ".git/objects").mkdir(parents=True)
    (tmp_path / ".git/objects/pack").symlink_to(packed / ".git/objects/pack")
    with pytest.raises(PathRefused), opened(tmp_path):
        pass
    (tmp_path / ".git/objects/pack").unlink()
    (tmp_path / ".git/objects/pack").mkdir()
    index = next((packed / ".git/objects/pack").glob("*.idx"))
    (tmp_path / ".git/objects/pack/p.idx").symlink_to(index)
    with pytest.raises(PathRefused), opened(tmp_path):
        pass

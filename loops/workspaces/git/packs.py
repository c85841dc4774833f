"""Objects out of packs (gitformat-pack(5)), by descriptors and within bounds: what somebody put there holds nobody up.

Read here and not by a library, since each maps packs into memory, follows paths, or unpacks whatever size is said.
"""

from __future__ import annotations

import os
import stat
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field

from loops.printable.text import printable
from loops.tools.sandbox.safe_paths import SafeDirectory

PACKS = ".git/objects/pack"
MOST_PACKS = 128
MOST_BYTES = 8 * 1024 * 1024
"""Of one object, and of all differences that it is made of."""
MOST_UNPACKED = 16 * MOST_BYTES
"""Of all that lies between them."""
_DEEPEST = 4_096
"""Differences on the way to one object: git makes no longer chains."""
_KINDS = {1: "commit", 2: "tree", 3: "blob", 4: "tag"}
_BY_OFFSET, _BY_NAME = 6, 7
_TABLES = 8 + 256 * 4
_NAME, _CHECKSUM, _OFFSET, _FAR = 20, 4, 4, 8
_IS_FAR = 1 << 31
_CHUNK = 64 * 1024
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


class Damaged(Exception):
    """It is no pack, no object, or one too large to be a folder or a commit of anybody's."""


@dataclass(slots=True)
class _Pack:
    """An index and, once something of it is read, the pack beside it."""

    stem: str
    index: int
    firsts: list[int]
    pack: int = -1

    def offset_of(self, name: bytes) -> int:
        """Where the object is in the pack; 0 where it is not in it."""
        low, high = self.firsts[name[0]], self.firsts[name[0] + 1]
        while low < high:
            middle = (low + high) // 2
            found = _exactly(self.index, _NAME, _TABLES + middle * _NAME)
            if found == name:
                return self._offset(middle)
            low, high = (middle + 1, high) if found < name else (low, middle)
        return 0

    def _offset(self, number: int) -> int:
        count = self.firsts[-1]
        near = _TABLES + count * (_NAME + _CHECKSUM)
        offset = int.from_bytes(_exactly(self.index, _OFFSET, near + number * _OFFSET))
        if offset < _IS_FAR:
            return offset
        return int.from_bytes(_exactly(self.index, _FAR, near + count * _OFFSET + (offset - _IS_FAR) * _FAR))


@dataclass(slots=True)
class Packs:
    """Those of a repository, while ``files`` are open. Every method raises Damaged, PathRefused or OSError."""

    folder: SafeDirectory
    files: ExitStack
    _packs: list[_Pack] = field(default_factory=list)

    def __post_init__(self) -> None:
        try:
            with self.folder.opened(PACKS, os.O_RDONLY | os.O_DIRECTORY) as directory, os.scandir(directory) as found:
                names = sorted(one.name for one in found if one.name.endswith(".idx"))
        except FileNotFoundError:
            return
        if len(names) > MOST_PACKS:
            raise Damaged(f"The repository has {len(names):,} packs, too many to look into: `git gc` makes one.")
        self._packs = [self._indexed(f"{PACKS}/{name}") for name in names]

    def has(self, name: str) -> bool:
        return any(pack.offset_of(bytes.fromhex(name)) for pack in self._packs)

    def read(self, name: str) -> tuple[str, bytes] | None:
        """(kind, body) of an object; None where no pack has it."""
        key = bytes.fromhex(name)
        for pack in self._packs:
            if offset := pack.offset_of(key):
                return self._read(pack, offset)
        return None

    def _read(self, pack: _Pack, offset: int) -> tuple[str, bytes]:
        """What an object is a difference to is read first, however long the chain is."""
        if pack.pack < 0:
            pack.pack = self._opened(f"{pack.stem}.pack")
        differences = list[bytes]()
        while len(differences) < _DEEPEST:
            kind, size, start = _header(pack.pack, offset)
            if kind == _BY_OFFSET:
                back, start = _backwards(pack.pack, start)
                offset -= back
            elif kind == _BY_NAME:
                offset, start = pack.offset_of(_exactly(pack.pack, _NAME, start)), start + _NAME
            if offset <= 0 or size + sum(map(len, differences)) > MOST_BYTES:
                break
            body = _inflated(pack.pack, start, size)
            if kind in _KINDS:
                return _KINDS[kind], _built(body, differences)
            differences.append(body)
        raise Damaged(f"An object of {printable(pack.stem)}.pack is too large, or leads out of it.")

    def _indexed(self, path: str) -> _Pack:
        index = self._opened(path)
        table = _exactly(index, _TABLES, 0)
        counts = [int.from_bytes(table[at : at + 4]) for at in range(8, _TABLES, 4)]
        if table[:8] != b"\xfftOc\0\0\0\2" or counts != sorted(counts):
            raise Damaged(f"{printable(path)} is no index of a pack, or one of an old form: `git gc` makes it anew.")
        return _Pack(path.removesuffix(".idx"), index, [0, *counts])

    def _opened(self, path: str) -> int:
        descriptor = self.files.enter_context(self.folder.opened(path, _FILE))
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Damaged(f"{printable(path)} is no ordinary file.")
        return descriptor


def _exactly(descriptor: int, size: int, at: int) -> bytes:
    data = os.pread(descriptor, size, at)
    if len(data) < size:
        raise Damaged("A pack of the repository ends too early.")
    return data


def _header(pack: int, offset: int) -> tuple[int, int, int]:
    """(kind, size, where the rest begins)."""
    first = _exactly(pack, 1, offset)[0]
    kind, size, shift, at = first >> 4 & 7, first & 15, 4, offset + 1
    while first & 0x80:
        first = _exactly(pack, 1, at)[0]
        size, shift, at = size | (first & 0x7F) << shift, shift + 7, at + 1
        if size > MOST_BYTES:
            raise Damaged(f"An object of a pack has {size:,} bytes or more, too many for a folder or a commit.")
    if kind not in (*_KINDS, _BY_OFFSET, _BY_NAME):
        raise Damaged("An object of a pack is of no kind that git knows.")
    return kind, size, at


def _backwards(pack: int, at: int) -> tuple[int, int]:
    """(how far before the difference its ground lies, where the rest begins)."""
    byte = _exactly(pack, 1, at)[0]
    back, at = byte & 0x7F, at + 1
    while byte & 0x80:
        byte = _exactly(pack, 1, at)[0]
        back, at = (back + 1) << 7 | byte & 0x7F, at + 1
        if back >= 1 << 62:
            raise Damaged("A difference in a pack leads out of it.")
    return back, at


def _inflated(pack: int, at: int, size: int) -> bytes:
    reader, body = zlib.decompressobj(), b""
    try:
        while len(body) <= size and not reader.eof:
            data = reader.unconsumed_tail or os.pread(pack, _CHUNK, at)
            if not reader.unconsumed_tail:
                at += len(data)
            piece = reader.decompress(data, size + 1 - len(body))
            if not data and not piece:
                break
            body += piece
    except zlib.error:
        raise Damaged("An object of a pack is damaged.") from None
    if len(body) != size:
        raise Damaged("An object of a pack is not as long as it says.")
    return body


def _built(ground: bytes, differences: list[bytes]) -> bytes:
    """The latest difference is the first."""
    room = MOST_UNPACKED
    for difference in reversed(differences):
        ground = _applied(difference, ground)
        room -= len(ground)
        if room < 0:
            raise Damaged("An object of a pack is made of more than one of anybody's would be.")
    return ground


def _applied(difference: bytes, ground: bytes) -> bytes:
    """What the difference makes of its ground: pieces of that, and pieces of its own."""
    steps = iter(difference)
    try:
        if _number(steps) != len(ground) or (size := _number(steps)) > MOST_BYTES:
            raise Damaged("A difference in a pack is to something else, or too large.")
        pieces, length = list[bytes](), 0
        for order in steps:
            if order & 0x80:
                start = sum(next(steps) << 8 * at for at in range(4) if order >> at & 1)
                count = sum(next(steps) << 8 * at for at in range(3) if order >> (4 + at) & 1) or 0x10000
                piece = ground[start : start + count]
            else:
                count = order
                piece = bytes(next(steps) for _ in range(count))
            length += count
            if not order or len(piece) != count or length > size:
                raise Damaged("A difference in a pack is damaged.")
            pieces.append(piece)
    except (StopIteration, RuntimeError):
        raise Damaged("A difference in a pack ends too early.") from None
    if length != size:
        raise Damaged("A difference in a pack ends too early.")
    return b"".join(pieces)


def _number(steps: Iterator[int]) -> int:
    found = shift = 0
    for byte in steps:
        found, shift = found | (byte & 0x7F) << shift, shift + 7
        if not byte & 0x80:
            return found
        if shift > 63:
            break
    raise Damaged("A difference in a pack has no size.")

"""What a run made of the files of its workspace, file by file, as people compare it (SPEC Q3, R4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from loops.engine.rollback import plan as rb
from loops.engine.rollback.plan import FileChange, Undo
from loops.engine.rollback.result import left_behind, with_forked
from loops.models import Blob, Run
from loops.storage import facts_by_kind, journal
from loops.tools.file_changes import difference
from loops.tools.snapshots import FOLDER, NOTHING, hash_of
from loops.workspaces.executed_files import executed_by

READ_BYTES = 16 * 1024 * 1024
NAMED = 10
"""Paths in one line."""
SHOWN_CHARS = 400_000
"""Of all diffs on one page; what is beyond it is shown when it is opened."""
OPENED_BYTES = 2_000_000
"""A file before and after, together: what is larger is shown to nobody."""
RUNS = 0o7111
"""Permissions by which a file is a program, or one with somebody else's rights."""


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """``what`` is created, changed, deleted, moved or permissions; ``source`` is where a moved one was. ``diff`` is
    empty where there is none to show, and ``note`` then says why."""

    path: str
    what: str
    source: str = ""
    permissions: str = ""
    """In words, where they are not as they were, or let a new file be run."""
    diff: str = ""
    note: str = ""
    is_folder: bool = False
    has_contents: bool = False
    """There is more to be seen of it than where it is and what became of it."""
    is_apart: bool = False
    """Its contents are not here: they are shown when it is opened."""
    is_hidden: bool = False
    """Its contents can be shown to nobody."""

    @property
    def executed_by(self) -> str:
        """Whose programs run or obey it; "" for most files."""
        return "" if self.is_folder or self.what == "deleted" else executed_by(self.path)


@dataclass(frozen=True, slots=True)
class Recorded:
    """``net`` is what became of each file, ``by_call`` what each call did, by its id; of ``unknown`` nobody knows.
    ``others`` are changes that no call made."""

    net: list[FileChange]
    by_call: Mapping[str, list[ChangedFile]]
    unknown: list[Undo]
    others: Sequence[OtherChanges] = ()


@dataclass(frozen=True, slots=True)
class OtherChanges:
    """``what`` says in words whose they may be; ``paths`` are the first of ``count``."""

    what: str
    paths: Sequence[str]
    count: int

    @property
    def more(self) -> int:
        return self.count - len(self.paths)


def recorded(run: Run) -> Recorded:
    """Out of the journal; nothing where retention has taken its long parts away."""
    try:
        history = facts_by_kind.read(journal.raw_connection(), run.pk, rb.LEDGER)
    except KeyError:
        return Recorded([], {}, [])
    net, unknown = left_behind(history)
    by_call = {undo.id: described(rb.files(undo.compensation)) for undo in rb.ledger(history) if undo.ok or undo.learnt}
    return Recorded(net, by_call, unknown, [*map(_of_others, rb.of_others(history))])


def _of_others(undo: Undo) -> OtherChanges:
    paths = [one.path for one in rb.files(undo.compensation)]
    return OtherChanges(undo.summary, paths[:NAMED], len(paths))


def since_the_start(run: Run) -> tuple[list[FileChange], list[Undo]]:
    """(what became of each file of the folder that the history began with, calls of which nobody recorded what they
    did): of a fork, what it took over as well. Raises KeyError where retention has taken the long parts away."""
    history = facts_by_kind.read(journal.raw_connection(), run.pk, rb.LEDGER)
    return left_behind(with_forked(history))


def described(changes: Sequence[FileChange]) -> list[ChangedFile]:
    """Each change in words, moves as moves; what programs of people execute stands first."""
    moved, rest = _moves(_without_obvious_folders(changes))
    return sorted([*moved, *map(_described, rest)], key=lambda file: (not file.executed_by, file.path))


def outlined(changes: Sequence[FileChange]) -> list[ChangedFile]:
    """Each change in words, and whether its contents can be shown; one query."""
    return _outlined(changes)[0]


def compared(changes: Sequence[FileChange]) -> list[ChangedFile]:
    """Each change with its diff, as far as there is room; two queries."""
    by_path = {one.path: one for one in changes}
    outline, sizes = _outlined(changes)
    bytes_of = stored([by_path[file.path] for file in outline if file.has_contents], sizes, READ_BYTES)
    room, found = SHOWN_CHARS, list[ChangedFile]()
    for file in outline:
        shown = _with_diff(file, by_path[file.path], bytes_of, room) if file.has_contents else file
        room -= len(shown.diff)
        found.append(shown)
    return found


def opened(changes: Sequence[FileChange], path: str) -> ChangedFile | None:
    """One of them with its whole diff, however long; None where none is called so."""
    by_path = {one.path: one for one in changes}
    outline, sizes = _outlined(changes)
    file = next((file for file in outline if file.path == path), None)
    if file is None or not file.has_contents:
        return file
    return _with_diff(file, by_path[path], stored([by_path[path]], sizes, OPENED_BYTES), None)


def _outlined(changes: Sequence[FileChange]) -> tuple[list[ChangedFile], Mapping[str, int]]:
    """The changes in words, and the sizes of what is stored of them, by hash."""
    by_path = {one.path: one for one in changes}
    found = described(changes)
    names = {name for file in found if file.has_contents for name in hashes(by_path[file.path])}
    sizes = dict(Blob.objects.filter(pk__in=names).values_list("sha256", "size"))
    return [_if_kept(file, by_path[file.path], sizes) if file.has_contents else file for file in found], sizes


def hashes(one: FileChange) -> list[str]:
    """Of its bytes before and after, as far as it is a file there."""
    return [name for name in map(hash_of, (one.before, one.after)) if name]


def _if_kept(file: ChangedFile, change: FileChange, sizes: Mapping[str, int]) -> ChangedFile:
    names = hashes(change)
    if any(name not in sizes for name in names):
        return _without_contents(file, "Its contents are not stored any more.")
    total = sum(sizes[name] for name in names)
    if total > OPENED_BYTES:
        said = f"Its {total:,} bytes before and after are too many to be shown: {OPENED_BYTES:,} at most."
        return _without_contents(file, said)
    return file


def _without_contents(file: ChangedFile, note: str) -> ChangedFile:
    """What a result does not hold any more, its name tells."""
    return replace(file, has_contents=False, is_hidden=file.what != "deleted", note=note)


def stored(changes: Sequence[FileChange], sizes: Mapping[str, int], room: int) -> dict[str, bytes]:
    """Hash to bytes, of as many as fit; ``room`` is in bytes, ``sizes`` has each hash."""
    wanted = list[str]()
    for name in dict.fromkeys(name for one in changes for name in hashes(one)):
        room -= sizes[name]
        if room >= 0:
            wanted.append(name)
    return {key: bytes(body) for key, body in Blob.objects.filter(pk__in=wanted).values_list("sha256", "body")}


def _moves(changes: Iterable[FileChange]) -> tuple[list[ChangedFile], list[FileChange]]:
    """(what is somewhere else as it was, everything else)."""
    gone = {one.before: one for one in changes if one.after == NOTHING and hash_of(one.before)}
    moved, taken = [], set[str]()
    for one in changes:
        was = gone.pop(one.after, None) if one.before == NOTHING else None
        if was is not None:
            moved.append(ChangedFile(one.path, "moved", source=was.path))
            taken |= {one.path, was.path}
    return moved, [one for one in changes if one.path not in taken]


def _without_obvious_folders(changes: Sequence[FileChange]) -> list[FileChange]:
    """A folder in which something changed need not be named beside it."""
    paths = [one.path for one in changes]

    def says_nothing(one: FileChange) -> bool:
        return FOLDER in (one.before, one.after) and any(path.startswith(f"{one.path}/") for path in paths)

    return [one for one in changes if not says_nothing(one)]


def _described(one: FileChange) -> ChangedFile:
    what = "created" if one.before == NOTHING else "deleted" if one.after == NOTHING else "changed"
    if FOLDER in (one.before, one.after):
        return ChangedFile(one.path, what, is_folder=True)
    if what == "changed" and hash_of(one.before) and hash_of(one.before) == hash_of(one.after):
        return ChangedFile(one.path, "permissions", note=f"{_permissions(one).capitalize()}.")
    odd = next((state for state in (one.before, one.after) if state and not hash_of(state)), "")
    note = _why_no_diff(odd) if odd else ""
    is_hidden = odd.startswith("large:") and what != "deleted"
    return ChangedFile(one.path, what, "", _permissions(one), note=note, has_contents=not note, is_hidden=is_hidden)


def _permissions(one: FileChange) -> str:
    before, after = (state.split(":")[1] if hash_of(state) else "" for state in (one.before, one.after))
    if before and after:
        return f"permissions {before} became {after}" if before != after else ""
    return f"permissions {after}" if after and int(after, 8) & RUNS else ""


def _why_no_diff(state: str) -> str:
    kind, _, rest = state.partition(":")
    if kind == "link":
        return f"A link to {rest}."
    if kind == "large":
        return f"A file of {int(rest.partition(':')[0]):,} bytes, too large to be kept for comparison."
    return "Neither a file nor a folder."


def _with_diff(file: ChangedFile, change: FileChange, bytes_of: Mapping[str, bytes], room: int | None) -> ChangedFile:
    """``room`` is in characters, None where any length will do."""
    if any(name not in bytes_of for name in hashes(change)):
        return replace(file, is_apart=True, note="Its diff is too long for this page.")
    before, after = (bytes_of.get(hash_of(state), b"") for state in (change.before, change.after))
    diff = difference(file.path, before, after)
    if room is not None and len(diff) > room:
        return replace(file, is_apart=True, note=f"Its diff of {len(diff):,} characters is too long for this page.")
    return replace(file, diff=diff, note="" if diff else "The file is empty.")

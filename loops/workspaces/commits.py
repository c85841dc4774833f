"""A result as a commit on a branch of its own: what HEAD has, with the run's changes. Work tree, index, HEAD stay.

A run that began with a commit goes on from that one, wherever HEAD is by now. Else nothing is taken over where the last
commit has something else than the run began with: what was not committed when the copy was taken would become a part
of the commit, or be undone by it. Bytes go in as they lie.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any

from loops.engine.encoding.canonical import sha256
from loops.engine.rollback.plan import FileChange
from loops.engine.text.truncation import shortened
from loops.models import Delivery, Run
from loops.printable.text import printable
from loops.tools.limits import Limits
from loops.tools.protected_paths import protecting
from loops.tools.sandbox.safe_paths import PathRefused
from loops.tools.snapshots import FOLDER, NOTHING, hash_of
from loops.tools.workspace import Workspace
from loops.workspaces import copies, patch
from loops.workspaces.changed_files import ChangedFile, described
from loops.workspaces.delivery import LEADS_OUT, may_lead_out
from loops.workspaces.git import repository as git
from loops.workspaces.git import rules, writer
from loops.workspaces.git.trees import FILE, LINK, PROGRAM, Entry, Obstructed, Tree
from loops.workspaces.git.trees import FOLDER as GIT_FOLDER

WRITTEN_TO = (git.OBJECTS, f".git/{git.BRANCHES}")
UNCOMMITTED = (
    "the last commit has it otherwise than the run found it. Commit your own changes first, or merge the patch by "
    "`git am --3way`"
)
UNLIKE = (
    "the commit has it otherwise than the run found it, as where git converts the ends of lines: merge the patch by "
    "`git am --3way`"
)
OF_GIT = "git would obey it, or keeps such a name for itself"
CONVERTED = "git passes it through a program or a conversion ({}), and AgentOps runs none: take the patch"
IGNORED = ".gitignore leaves it out"
MOST_NAMED = 20
"""Paths that .gitignore leaves out, in the message of the commit."""
CHECKED_OUT = "HEAD stands for {}, which the commit would be on. Check out another branch first."
ANOTHER = "The result changed since it was shown. Open the preview again."
_LINKS_REFUSED = frozenset({".gitmodules", ".gitattributes", ".gitignore", ".mailmap"})
_OURS = Limits()
_EMAIL = re.compile(r"[^\s<>@]+@[^\s<>@]+")
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])


@dataclass(frozen=True, slots=True)
class Plan:
    """``parent`` is where the run began if ``is_of_a_commit``, else where HEAD is, or "" before the first commit.
    ``steps`` are the paths that would be in the commit as the run left them, and none where it is there already;
    ``files`` are the same as people compare them. ``conflicts`` and ``obeyed`` as in ``delivery.Plan``."""

    folder: str
    branch: str
    parent: str
    tree: str
    steps: tuple[str, ...]
    files: tuple[ChangedFile, ...]
    conflicts: tuple[tuple[str, str], ...]
    obeyed: tuple[str, ...]
    left_out: tuple[str, ...]
    is_of_a_commit: bool = False

    @property
    def digest(self) -> str:
        conflicts = [list(one) for one in self.conflicts]
        return sha256({"folder": self.folder, "commit": self.rows, "conflicts": conflicts})

    @property
    def rows(self) -> dict[str, Any]:
        known = {"branch": self.branch, "parent": self.parent, "tree": self.tree}
        return {**known, "files": len(self.steps), "left_out": list(self.left_out)}


@dataclass(slots=True)
class _Draft:
    """``objects`` are the bodies of blobs by name, ``kept`` the changes that are in the tree. ``unlike`` is said of
    what the tree has otherwise than the run began with."""

    tree: Tree
    contents: Mapping[str, bytes]
    unlike: str
    objects: dict[str, bytes] = field(default_factory=dict)
    kept: list[tuple[FileChange, Entry | None]] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)
    conflicts: list[tuple[str, str]] = field(default_factory=list)

    @property
    def changes(self) -> list[FileChange]:
        return [one for one, _ in self.kept]

    def take(self, change: FileChange, found: rules.Rules) -> None:
        """Raises Obstructed where it cannot be in the commit."""
        if any(map(_is_of_git, re.split(r"[/\\]", change.path))):
            raise Obstructed(OF_GIT)
        now = self.tree.find(_parts(change.path))
        before, after = (self._entry(state) for state in (change.before, change.after))
        keeps_mode = before is not None and after is not None and before.mode == after.mode
        if _same(now, after, keeps_mode):
            return
        if (now is None or now.mode == GIT_FOLDER) and found.ignores(change.path):
            self.ignored.append(printable(change.path))
            return
        if not _same(now, before, keeps_mode):
            raise Obstructed(self.unlike)
        if after is not None and after.mode == LINK and PurePosixPath(change.path).name.casefold() in _LINKS_REFUSED:
            raise Obstructed(OF_GIT)
        if after is not None and after.is_file and (how := found.converts(change.path)):
            raise Obstructed(CONVERTED.format(printable(shortened(how, 80))))
        if after is not None and now is not None and keeps_mode:
            after = Entry(now.mode, after.name)
        self.kept.append((change, after))

    def put(self) -> None:
        """What goes first, then what comes."""
        for change, entry in self.kept:
            if entry is None:
                self.tree.remove(_parts(change.path))
        for change, entry in self.kept:
            if entry is not None:
                self._try(change, entry)
        for change in self.changes:
            if change.after.startswith("link:") and may_lead_out(change, self._is_link):
                self.conflicts.append((printable(change.path), LEADS_OUT))

    def _try(self, change: FileChange, entry: Entry) -> None:
        try:
            self.tree.put(_parts(change.path), entry)
        except Obstructed as error:
            self.conflicts.append((printable(change.path), str(error)))
        body = self._body(change.after)
        self.objects[entry.name] = body

    def _is_link(self, path: str) -> bool:
        try:
            found = self.tree.find(_parts(path))
        except Obstructed:
            return True  # nobody here knows what a submodule holds
        return found is not None and found.mode == LINK

    def _entry(self, state: str) -> Entry | None:
        if state in (NOTHING, FOLDER):
            return None
        name = git.object_name("blob", self._body(state))
        if not hash_of(state):
            return Entry(LINK, name)
        return Entry(PROGRAM if int(state.split(":")[1], 8) & 0o100 else FILE, name)

    def _body(self, state: str) -> bytes:
        return self.contents[hash_of(state)] if hash_of(state) else os.fsencode(state.removeprefix("link:"))


def branch_of(run: Run) -> str:
    """By the end of its id: the beginning is a time, which runs that were submitted together share."""
    return f"agentops/{run.pk.hex[-8:]}"


def plan(found: patch.Portable, folder: str, run: Run, after: str = "") -> Plan:
    """What a commit would be now: after HEAD, or what the run began with, or after the commit ``after``, for a
    repository elsewhere, whose branches nobody knows here. Raises Unusable, PathRefused or OSError."""
    branch, began_with = branch_of(run), after or copies.where(run).commit
    with Workspace(folder, _OURS, order="look") as workspace, git.opened(workspace.beneath) as repository:
        parent, there = after, ""
        if not after:
            head, there = repository.head(), repository.resolve(f"{git.BRANCHES}/{branch}")
            _refuse_branch(repository, head, branch)
            parent = began_with or head.commit
        draft = _drafted(found, repository, parent, is_of_a_commit=bool(began_with))
        tree = draft.tree.written({})
        if there and not draft.conflicts and repository.tree_of(there) != tree:
            raise git.Unusable(writer.TAKEN.format(branch))
    more = len(draft.ignored) - MOST_NAMED
    ignored = [f"{path}: {IGNORED}" for path in draft.ignored[:MOST_NAMED]]
    ignored += [f"{more:,} more paths: {IGNORED}"] if more > 0 else []
    return Plan(
        folder,
        branch,
        parent,
        tree,
        () if there else tuple(one.path for one in draft.changes),
        tuple(described(draft.changes)),
        tuple(draft.conflicts),
        tuple(printable(one.path) for one in draft.changes if protecting(one.path, _OURS.protected)),
        (*found.left_out, *ignored),
        bool(began_with),
    )


def write(order: Delivery, found: patch.Portable, workspace: Workspace) -> tuple[str, str]:
    """(the commit that was planned, why it cannot be or ""). Done again it comes to the same."""
    rows, key = order.plan or {}, order.pk.hex
    try:
        with git.opened(workspace.beneath) as repository:
            is_of_a_commit = order.kind == Delivery.Kind.PUSH or bool(copies.where(order.run).commit)
            trees = dict[str, bytes]()
            draft = _drafted(found, repository, rows["parent"], is_of_a_commit=is_of_a_commit)
            if draft.tree.written(trees) != rows["tree"] or draft.conflicts:
                return "", ANOTHER
            commit = _commit(order, rows)
            name = git.object_name("commit", commit)
            for kind, bodies in (("blob", draft.objects), ("tree", trees), ("commit", {name: commit})):
                for one in (one for one in bodies if not repository.has(one)):
                    writer.write_object(workspace.beneath, one, kind, bodies[one], key)
            writer.make_branch(repository, f"{git.BRANCHES}/{rows['branch']}", name, key)
    except (git.Unusable, patch.NoPatch, PathRefused, OSError) as error:
        return "", printable(str(error))
    return name, ""


def _refuse_branch(repository: git.Repository, head: git.Head, branch: str) -> None:
    if head.branch == f"{git.BRANCHES}/{branch}":
        raise git.Unusable(CHECKED_OUT.format(branch))
    above = branch.partition("/")[0]
    if repository.resolve(f"{git.BRANCHES}/{above}"):
        raise git.Unusable(writer.PART_OF_A_NAME.format(above, branch))


def _drafted(found: patch.Portable, repository: git.Repository, parent: str, *, is_of_a_commit: bool) -> _Draft:
    """The tree of ``parent`` with the changes. Raises Unusable, NoPatch or OSError."""
    had = repository.tree_of(parent) if parent else ""
    changes = [one for one in found.changes if {one.before, one.after} - {NOTHING, FOLDER}]
    tree = Tree(lambda name: repository.read(name, "tree"), had)
    draft = _Draft(tree, found.contents(), UNLIKE if is_of_a_commit else UNCOMMITTED)
    texts = [one for one in changes if PurePosixPath(one.path).name in rules.FILES]
    left = {one.path: draft.contents.get(hash_of(one.after), b"") for one in texts}
    in_it = partial(_text_of, repository, Tree(lambda name: repository.read(name, "tree"), had))
    with rules.of(repository, [one.path for one in changes], left, in_it if is_of_a_commit else None) as its_rules:
        for change in changes:
            try:
                draft.take(change, its_rules)
            except Obstructed as error:
                draft.conflicts.append((printable(change.path), str(error)))
    draft.put()
    return draft


def _text_of(repository: git.Repository, tree: Tree, path: str) -> bytes:
    """A file of rules of the commit; "" where git would read none there either. Raises Unusable."""
    try:
        found = tree.find(_parts(path))
    except Obstructed:
        return b""
    return repository.read(found.name, "blob") if found is not None and found.is_file else b""


def _commit(order: Delivery, rows: Mapping[str, Any]) -> bytes:
    """The agent is its author, whoever ordered it the committer; neither moment is that of the try."""
    run, person = order.run, order.ordered_by
    email = person.email if _EMAIL.fullmatch(person.email or "") else patch.no_reply()
    lines = [
        f"tree {rows['tree']}",
        *([f"parent {rows['parent']}"] if rows["parent"] else []),
        f"author {_signed(*patch.author(run), run.completed_at or order.ordered_at)}",
        f"committer {_signed(patch.name_of(person.get_full_name() or str(person)), email, order.ordered_at)}",
        "",
        patch.subject(run),
        "",
        *patch.message_body(run, rows["left_out"], "commit"),
        "",
    ]
    return "\n".join(lines).encode()


def _signed(name: str, address: str, moment: datetime) -> str:
    return f"{name} <{address}> {int(moment.timestamp())} +0000"


def _same(now: Entry | None, state: Entry | None, keeps_mode: bool) -> bool:
    """Whether it is a program counts where the run changed that; a folder is nothing that git keeps."""
    now = None if now is not None and now.mode == GIT_FOLDER else now
    if now is None or state is None:
        return now is state
    modes = [(one.is_file, bool(one.mode & 0o100) and not keeps_mode) for one in (now, state)]
    return now.name == state.name and modes[0] == modes[1]


def _is_of_git(part: str) -> bool:
    """``.git``, also as other systems spell it: they drop what is odd at its end, or all that is not seen."""
    plain = part.translate(_HFS_IGNORED).casefold().split(":")[0].rstrip(". ")
    return plain in (".git", "git~1")


def _parts(path: str) -> list[bytes]:
    return os.fsencode(path).split(b"/")

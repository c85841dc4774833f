"""Settings of git that run programs or lead elsewhere, found without git (SPEC I7, git-config(1)).

Only what is known to be harmless, in the form in which git itself writes it, may appear while a command runs. All else
is an *order*: git would run a program, read another file, or write to another folder for whoever uses it there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Set

SETTINGS = frozenset({"config", "config.worktree"})
TODO = "git-rebase-todo"
"""What a rebase that is not finished yet does next; ``exec`` runs a program."""
STRATEGY = "strategy"
_MERGING = frozenset({("rebase-merge", STRATEGY), ("sequencer", "opts")})
"""How a rebase, or picks, that are not finished yet merge: file by folder. A strategy that is none of git's own, such
as ``x/y``, runs the file ``git-merge-x/y`` of the work tree."""
UNFINISHED = frozenset(folder for folder, _ in _MERGING)
"""Folders in that of a repository, for work that is not finished yet."""
FIT_TO_BE_EMPTY = SETTINGS | {TODO}
_STRATEGIES = frozenset({"octopus", "ort", "ours", "recursive", "resolve", "subtree"})
HOOKS = "hooks"
HARMLESS_ENDING = ".sample"
"""Hooks of this name never run."""
SHAPE = frozenset({"head", "objects", "refs", "commondir"})
"""What git goes by to tell that a folder is a repository."""
NOT_PLAIN = "it is no plain file, or too large"

_LINE = re.compile(rb"[^\n]*\n|[^\n]+")
_SECTION = re.compile(r'\[([A-Za-z0-9-]+)(?: "((?:[^"\\]|\\["\\])*)")?\]')
_ENTRY = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=[ \t]*(.*))?")
_PERSON = frozenset({"name", "email"})
_HARMLESS = {
    "advice": None,
    "author": _PERSON,
    "branch": frozenset({"remote", "merge", "rebase", "description", "pushremote"}),
    "color": None,
    "committer": _PERSON,
    "core": frozenset(
        {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "symlinks", "ignorecase", "autocrlf", "eol"}
        | {"precomposeunicode", "quotepath", "abbrev", "safecrlf", "sparsecheckout"}
        | {"sparsecheckoutcone", "worktree"}
    ),
    "extensions": frozenset({"objectformat", "refstorage", "worktreeconfig"}),
    "fetch": frozenset({"prune"}),
    "gc": frozenset({"auto"}),
    "init": frozenset({"defaultbranch"}),
    "merge": frozenset({"conflictstyle", "ff"}),
    "options": frozenset(
        {"allow-empty", "allow-empty-message", "allow-ff", "allow-rerere-auto", "default-msg-cleanup", "edit"}
        | {"drop-redundant-commits", "gpg-sign", "keep-redundant-commits", "mainline", "no-commit", "record-origin"}
        | {"signoff", "strategy", "strategy-option"}
    ),
    "pull": frozenset({"rebase", "ff"}),
    "push": frozenset({"default", "autosetupremote"}),
    "rebase": frozenset({"autostash", "autosquash"}),
    "remote": frozenset({"url", "pushurl", "fetch", "tagopt", "prune"}),
    "rerere": frozenset({"enabled"}),
    "submodule": frozenset({"url", "active", "branch", "path", "ignore"}),
    "user": _PERSON,
}
"""Section -> its harmless keys; None for all of them. ``git config`` writes both in any case of letters."""


def is_repository(folder: str, names: Set[str]) -> bool:
    """Could git take the folder for a repository, or go by settings in it? ``names``: what lies in it, casefolded."""
    is_git = os.path.basename(folder).casefold() == ".git"
    return is_git or {"objects", "refs"} <= names or {"head", "commondir"} <= names


def obeys(parent: str, name: str, of_git: bool) -> bool:
    """Does git take orders from a file of this name in a folder of the name ``parent``, which is a repository or none?
    Both in small letters."""
    return name == TODO or (parent, name) in _MERGING or (of_git and name in SETTINGS)


def orders(name: str, data: bytes | None, folder: str) -> tuple[str, ...]:
    """The orders in the file ``name`` (one that git ``obeys``), in words; ``data`` None for what is no plain
    file. ``folder`` is the folder of the repository, relative to the workspace."""
    if data is None:
        return (NOT_PLAIN,)
    return tuple(said for _, said in _judged(name, data, folder) if said)


def without_orders(name: str, data: bytes, folder: str) -> bytes:
    """The same file with the lines of its orders left out."""
    return b"".join(line for line, said in _judged(name, data, folder) if not said)


def is_harmless(section: str, key: str) -> bool:
    """Is it known that git runs nothing and reads no other settings for it? Both in small letters."""
    keys = _HARMLESS.get(section, frozenset())
    return keys is None or key in keys


def _judged(name: str, data: bytes, folder: str) -> Iterator[tuple[bytes, str]]:
    """(line as it stands, what it orders or "")."""
    lines: list[bytes] = _LINE.findall(data)
    if judge := {TODO: _of_rebase, STRATEGY: _of_strategy}.get(name):
        yield from ((line, judge(line)) for line in lines)
        return
    section: tuple[str, str] | None = None
    for line in lines:
        text = line.decode(errors="surrogateescape").strip(" \t\r\n")
        if heading := _SECTION.fullmatch(text):
            section = heading[1].lower(), heading[2] or ""
            yield line, ""
        elif text.startswith("["):
            section = None
            yield line, text
        else:
            yield line, "" if not text or text[0] in "#;" else _order(section, text, folder)


def _of_rebase(line: bytes) -> str:
    words = line.split(None, 1)
    return line.decode(errors="replace").strip() if words and words[0] in (b"x", b"exec") else ""


def _of_strategy(line: bytes) -> str:
    name = line.decode(errors="replace").strip()
    return "" if name in _STRATEGIES else name


def _order(section: tuple[str, str] | None, text: str, folder: str) -> str:
    entry = _ENTRY.fullmatch(text)
    if section is None or entry is None or not text.isprintable() or text.endswith("\\"):
        return text
    key, value = entry[1].lower(), entry[2] or ""
    said = f"{section[0]}.{section[1]}.{key}" if section[1] else f"{section[0]}.{key}"
    if not is_harmless(section[0], key):
        return f"{said} = {value}"
    leads = key in ("url", "pushurl") and ("::" in value or any(sign in value for sign in '"\\'))
    leads = leads or ((section[0], key) == ("core", "worktree") and not _stays(folder, value))
    leads = leads or ((section[0], key) == ("options", "strategy") and value not in _STRATEGIES)
    return f"{said} = {value}" if leads else ""


def _stays(folder: str, value: str) -> bool:
    """Does a working tree that git names relative to its own folder lie in the workspace?"""
    plain = bool(value) and not value.startswith(("/", "~")) and not any(sign in value for sign in '"\\#;')
    return plain and not os.path.normpath(f"{folder}/{value}").startswith("..")

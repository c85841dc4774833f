"""Files of a workspace that a person's git runs or reads settings from, because its settings name them (SPEC I7).

``core.fsmonitor = ./tools/watch.sh`` makes that script what ``.git/hooks`` is. Settings that are known to run nothing
name nothing (git_settings.py); of all others every word counts that could be a path of the workspace, for a list of
settings that run programs would always lack the next one.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise

from loops.tools.sandbox.safe_paths import PathRefused, SafeDirectory
from loops.tools.sandbox.workspace_guard.git_settings import SETTINGS, is_harmless, is_repository
from loops.tools.sandbox.workspace_guard.survey import COMMON, LARGEST_SETTINGS, LEADS

MOST_NAMED = 1_000
"""Paths that the settings of one workspace may name; with more of them nothing is changed in it."""
_DEEPEST_INCLUDE = 10
"""Files of settings that include one another: git reads no more of them either (git-config(1))."""
_MOST_LINKS = 40
"""Links on the way to one file: the kernel follows no more of them either (path_resolution(7))."""
_WHOLE = frozenset({("core", "hookspath"), ("include", "path"), ("includeif", "path"), ("init", "templatedir")})
"""Their whole value is one path, which may be a folder."""
_INCLUDES = frozenset({"include", "includeif"})
_RUN_BY_NAME = frozenset({"alias", "difftool", "guitool", "mergetool"})
"""A person runs these by their names, as they run ``make``: what they start is the work itself (ADR 0048)."""
_ONLY_READ = frozenset(
    {("core", "excludesfile"), ("core", "attributesfile"), ("commit", "template"), ("mailmap", "file")}
    | {("blame", "ignorerevsfile")}
)
"""Text by which nothing runs; attributes name settings, and nothing else is run by them."""
_HOOKS = (
    *("applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg"),
    *("commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update"),
    *("proc-receive", "post-receive", "post-update", "reference-transaction", "push-to-checkout", "pre-auto-gc"),
    *("post-rewrite", "sendemail-validate", "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist"),
    *("p4-post-changelist", "p4-pre-submit", "post-index-change"),
)
"""All hooks there are (githooks(5)): protected one by one where their folder is a whole work tree."""

_TOKEN = re.compile(
    r"""
      \s+ | [#;][^\n]*
    | \[ \s* (?P<section>[\w.-]+) (?: \s* "(?P<sub>(?:[^"\\\n]|\\.)*)" )? \s* \]
    | (?P<key>[A-Za-z][\w-]*) [ \t]*
      (?: = (?P<value> (?: \\\r?\n | \\. | "(?:\\\r?\n|\\.|[^"\\\n])*" | [^\n\#;"\\] )* ) )?
    | .
    """,
    re.VERBOSE,
)
_FOR_A_SHELL = re.compile(r"[\s;|&()<>`]+")
_MODULE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_DEEPEST_LINE = 3
"""Lines for a shell within one another."""
_PIECE = re.compile(r'\\\r?\n|\\(.)|(")|([^\\"]+)', re.DOTALL)
_LETTERS = {"n": "\n", "t": "\t", "b": "\b"}

Entry = tuple[str, str, str]
"""(section, key, value); both names in small letters."""


def named(root: SafeDirectory, settings: Mapping[str, bytes | None], trees: Iterable[str] = ()) -> frozenset[str]:
    """Paths, with the links that lead to them, that the settings name; they need not exist. ``settings``: bytes by
    path, None for what is no plain file; ``trees``: folders from which a file leads to a repository elsewhere. Raises
    PathRefused where there are too many."""
    found: set[str] = set()
    tops: dict[str, set[str]] = {}
    for tree in trees:
        for place in _repositories(root, tree):
            tops.setdefault(place, set()).add(tree)
    for path, data in settings.items():
        folder, name = os.path.split(path)
        if name.casefold() not in SETTINGS:
            continue
        if data is None:
            data = _read(root, path)
            found |= set(_ways(root, path)) - {path}
        found |= set(_of_one(root, folder, list(entries(data)), tops.get(folder, set())))
        if len(found) > MOST_NAMED:
            raise PathRefused(f"the settings of git in {folder!r} name more than {MOST_NAMED:,} files of the workspace")
    return frozenset(found)


def named_above(root: SafeDirectory, path: str) -> frozenset[str]:
    """The same of the settings of all repositories in whose work tree ``path`` lies, without a walk."""
    parts = path.split("/")[:-1]
    trees = ["/".join(parts[:at]) for at in range(len(parts) + 1)]
    folders = {place for tree in trees for place in _repositories(root, tree)}
    settings = {f"{folder}/{name}".lstrip("/"): None for folder in folders for name in SETTINGS}
    return frozenset(one for one in named(root, settings, trees) if one not in settings)


def entries(data: bytes) -> Iterator[Entry]:
    """What a file of settings sets, read as git does; what git could not read is passed over."""
    section = ""
    for token in _TOKEN.finditer(os.fsdecode(data)):
        if token["section"] is not None:
            section = token["section"].lower().partition(".")[0]
        elif token["key"] is not None and section:
            yield section, token["key"].lower(), _plain(token["value"] or "")


def _plain(value: str) -> str:
    pieces = (_LETTERS.get(one[1], one[1]) if one[1] else one[3] or "" for one in _PIECE.finditer(value.strip()))
    return "".join(pieces).strip()


def _of_one(root: SafeDirectory, folder: str, found: list[Entry], trees: set[str]) -> Iterator[str]:
    """What the settings of the repository ``folder`` name, and those that they include. ``trees`` lead to it."""
    tree = next((value for section, key, value in found if (section, key) == ("core", "worktree")), "")
    own = os.path.join(folder, tree or (".." if os.path.basename(folder).casefold() == ".git" else "."))
    included, waiting = set[str](), [(folder, found, 0)]
    while waiting:
        place, found, depth = waiting.pop()
        for section, key, value in found:
            if section in _RUN_BY_NAME or (section, key) in _ONLY_READ or is_harmless(section, key):
                continue
            includes = section in _INCLUDES
            seen_from = [place] if includes else [own, *trees]
            for ways in (ways for top in seen_from for ways in _of_value(root, top, (section, key), value)):
                yield from _protected(folder, key, ways)
                if includes and ways[-1] not in included and depth < _DEEPEST_INCLUDE:
                    included.add(ways[-1])
                    waiting.append((os.path.dirname(ways[-1]), list(entries(_read(root, ways[-1]))), depth + 1))


def _of_value(root: SafeDirectory, place: str, name: tuple[str, str], value: str) -> Iterator[list[str]]:
    """The ways to what a value names, seen from ``place``."""
    for word in filter(None, [value] if name in _WHOLE else _words(value)):
        ways = list(_ways(root, os.path.join(place, word)))
        if ways and (name in _WHOLE or _counts(root, ways[-1], word)):
            yield ways


def _protected(folder: str, key: str, ways: list[str]) -> Iterator[str]:
    """All of one way; but of a folder that holds the repository itself its hooks alone, for the rest is the work."""
    yield from ways[:-1]
    if not _lies_in(folder, ways[-1]):
        yield ways[-1]
    elif key == "hookspath":
        yield from (f"{ways[-1]}/{hook}".lstrip("/") for hook in _HOOKS)


def _counts(root: SafeDirectory, path: str, word: str) -> bool:
    """May a word of a command mean this path? One without a slash does where a file is; a folder, on which the command
    works, is no program."""
    with suppress(OSError, PathRefused):
        status = root.stat(path or ".")
        return _is_path(word) if status is None else stat.S_ISREG(status.st_mode)
    return False


def _lies_in(path: str, folder: str) -> bool:
    return not folder or f"{os.path.normpath(path)}/".startswith(f"{folder}/")


def _words(value: str) -> list[str]:
    """Of a command line; the first is looked up among the machine's programs unless it is a path."""
    try:
        words = shlex.split(value.lstrip("!"))
    except ValueError:
        words = value.lstrip("!").split()
    named = [word for at, word in enumerate(words) if at or _is_path(word)]
    named += [*_modules(words), *(inner for word in words for inner in _of_a_shell(word))]
    parts = [part for word in named for part in dict.fromkeys((word, word.partition("=")[2]))]
    return [part for part in parts if part and part[0] not in "-~$%" and "://" not in part]


def _of_a_shell(word: str, depth: int = 0) -> Iterator[str]:
    """What a word says that is itself a line for a shell, also seen from the folder that the line changes to."""
    if depth == _DEEPEST_LINE or not _FOR_A_SHELL.search(word):
        return
    try:
        lexer = shlex.shlex(word, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        words = _FOR_A_SHELL.split(word)
    folder = ""
    for before, one in zip(["", *words], words, strict=False):
        folder = os.path.join(folder, one) if before == "cd" else folder
        yield from dict.fromkeys((one, os.path.join(folder, one)))
        yield from _of_a_shell(one, depth + 1)
    yield from (os.path.join(folder, one) for one in _modules(words))


def _modules(words: list[str]) -> Iterator[str]:
    """Files that Python would run for ``-m NAME``: git starts it at the top of the work tree, where it looks first."""
    for before, name in pairwise(words):
        if before == "-m" and _MODULE.fullmatch(name):
            parts = name.split(".")
            packages = ["/".join(parts[:count]) for count in range(1, len(parts) + 1)]
            yield f"./{packages[-1]}.py"
            yield from (f"./{package}/__init__.py" for package in packages)
            yield f"./{packages[-1]}/__main__.py"


def _is_path(word: str) -> bool:
    return "/" in word


def _ways(root: SafeDirectory, path: str) -> Iterator[str]:
    """The links on the way to ``path`` and, last, where it leads, "" for the workspace itself; nothing for outside."""
    found: list[str] = []
    done, parts = "", deque(_inside(root, path))
    while parts and len(found) <= _MOST_LINKS:
        part = parts.popleft()
        if part == "..":
            if not done:
                return
            done = os.path.dirname(done)
        elif part not in ("", "."):
            here = f"{done}/{part}".lstrip("/")
            target = _link(root, here)
            if target is None:
                done = here
                continue
            found.append(here)
            done = "" if target.startswith("/") else done
            parts.extendleft(reversed(_inside(root, target)))
    yield from (*found, done)


def _inside(root: SafeDirectory, path: str) -> list[str]:
    """The parts of a path; of an absolute one those below the workspace, or ".." for one that is outside."""
    if not path.startswith("/"):
        return path.split("/")
    plain = os.path.normpath(path)
    return plain[len(root.root) :].split("/") if f"{plain}/".startswith(f"{root.root}/") else [".."]


def _link(root: SafeDirectory, path: str) -> str | None:
    with suppress(OSError, PathRefused), root.opened(path, os.O_PATH | os.O_NOFOLLOW) as descriptor:
        if stat.S_ISLNK(os.fstat(descriptor).st_mode):
            return os.readlink("", dir_fd=descriptor)
    return None


def _read(root: SafeDirectory, path: str) -> bytes:
    with suppress(OSError, PathRefused):
        return root.read(path, LARGEST_SETTINGS)[0]
    return b""


def _repositories(root: SafeDirectory, folder: str) -> Iterator[str]:
    """Where the settings are of the repository whose work tree, or whose own folder, this is."""
    git = f"{folder}/.git".lstrip("/")
    if _is_there(root, git):
        pointer = os.fsdecode(_read(root, git)).removesuffix("\n")
        start = os.path.join(folder, pointer.removeprefix(LEADS)) if pointer.startswith(LEADS) else git
        for place in list(_ways(root, start))[-1:]:
            yield place
            if common := os.fsdecode(_read(root, f"{place}/{COMMON}")).removesuffix("\n"):
                yield from list(_ways(root, os.path.join(place, common)))[-1:]
    if is_repository(folder, set(_shape(root, folder))):
        yield folder


def _shape(root: SafeDirectory, folder: str) -> Iterator[str]:
    """Of what tells a repository by its shape, what lies in the folder, as far as it takes to tell."""
    for first, second in (("objects", "refs"), (COMMON, "HEAD")):
        if _is_there(root, f"{folder}/{first}".lstrip("/")) and _is_there(root, f"{folder}/{second}".lstrip("/")):
            yield from (first.casefold(), second.casefold())


def _is_there(root: SafeDirectory, path: str) -> bool:
    with suppress(OSError, PathRefused):
        return root.stat(path) is not None
    return False

"""What a command says that it did not find to load: one row for each way to say so (SPEC E1). Pure.

Every row begins at the start of a line, with what the interpreter, compiler or package manager itself writes there: a
test that quotes such words says nothing. A row also knows where its ecosystem looks for a module of the project.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

LOOKED_AT = 4_000
"""Characters at the end of an output: there whoever gives up says why."""
_HERE = ("", "src")


@dataclass(frozen=True, slots=True)
class Form:
    """The first group of ``pattern`` is the name. ``parts`` of it, between separators, are what somebody installs or
    writes; ``roots`` are where a project has its own, ``endings`` those of its files.

    ``is_run``: the command runs it as a program. ``declared``: a package manager says it, of what the project wants.
    ``own`` begins a name that can be nothing but the project's. ``nested``: of a name in parts all but the last was
    found.
    """

    ecosystem: str
    pattern: re.Pattern[str]
    separator: str = "."
    parts: int = 1
    roots: tuple[str, ...] = _HERE
    endings: tuple[str, ...] = ()
    is_run: bool = False
    declared: bool = False
    own: tuple[str, ...] = ()
    nested: bool = False


@dataclass(frozen=True, slots=True)
class MissingModule:
    """``name`` is what a person would install, ``path`` where it would stand below one of the roots of its form."""

    name: str
    path: str
    form: Form
    is_own: bool = False
    """By its very name: nobody can install it."""
    is_within: bool = False
    """What it belongs to was found, so a slip in the name is likelier than something that is not installed."""


_PY = ("py", "so", "pyd")
_JS = ("js", "mjs", "cjs", "jsx", "ts", "mts", "cts", "tsx", "node", "vue")
_JAVA_ROOTS = (*_HERE, "src/main/java", "src/test/java", "src/main/kotlin", "src/test/kotlin", "src/main/scala")
_RELATIVE = (".", "/")
FORMS = (
    Form(
        "python",
        re.compile(
            r"^(?:E {1,8})?(?:ModuleNotFound|Import)Error: (?:[^\n]{1,200}: )?No module named ['\"]?([\w.]{1,200})",
            re.MULTILINE,
        ),
        endings=_PY,
        nested=True,
    ),
    Form(
        "python",
        re.compile(r"^\S{0,200}python[0-9.]{0,8}(?:\.exe)?: No module named ['\"]?([\w.]{1,200})", re.MULTILINE),
        endings=_PY,
        nested=True,
        is_run=True,
    ),
    Form(
        "python",
        re.compile(
            r"^\S{0,200}python[0-9.]{0,8}(?:\.exe)?: Error while finding module specification for [^\n]{1,200}"
            r"No module named ['\"]?([\w.]{1,200})",
            re.MULTILINE,
        ),
        endings=_PY,
        nested=True,
        is_run=True,
    ),
    Form(
        "node",
        re.compile(
            r"^ {0,8}(?:\S{1,300} (?:- )?error TS2307: |(?:Module not found: )?[Ee]rror(?: \[\w{1,40}\])?: )?"
            r"(?:Cannot find (?:module|package)|Can't resolve|Failed to (?:resolve import|load url)) "
            r"['\"]?([^\s'\"]{1,300})",
            re.MULTILINE,
        ),
        separator="/",
        endings=_JS,
        own=(*_RELATIVE, "~", "#", "@/", "file:"),
    ),
    Form(
        "go",
        re.compile(
            r"^\S{1,300}\.go:\d+:\d+: (?:no required module provides package|cannot find package|"
            r"cannot find module providing package|missing go\.sum entry for module providing package) "
            r"\"?([^\s\";:()]{1,300})",
            re.MULTILINE,
        ),
        separator="/",
        parts=99,
        endings=("go",),
        own=_RELATIVE,
    ),
    Form(
        "go",
        re.compile(r"^\S{1,300}\.go:\d+:\d+: package ([^\s\";:()]{1,300}) is not in (?:std|GOROOT)\b", re.MULTILINE),
        separator="/",
        parts=99,
        endings=("go",),
        own=_RELATIVE,
    ),
    Form(
        "go",
        re.compile(r"^(?:\S{1,300}\.go:\d+:\d+|go): ([\w./~-]{1,300})@v[^\s:]{1,100}: Get \"", re.MULTILINE),
        separator="/",
        parts=99,
        declared=True,
    ),
    Form(
        "rust",
        re.compile(
            r"^error(?:\[E0\d{3}\])?: (?:unresolved import|can't find crate for|cannot find module or crate|"
            r"failed to resolve: use of (?:undeclared crate or module|unresolved module or unlinked crate)) "
            r"[`']([\w:-]{1,200})",
            re.MULTILINE,
        ),
        separator="::",
        roots=("src", ""),
        endings=("rs",),
        own=("crate", "self", "super", "std", "core", "alloc"),
        nested=True,
    ),
    Form(
        "rust",
        re.compile(r"^error: (?:no matching package named|failed to get) [`']([\w-]{1,200})", re.MULTILINE),
        separator="::",
        declared=True,
    ),
    Form(
        "rust",
        re.compile(r"^error: (?:linker|no such (?:sub)?command:?) [`']([\w-]{1,100})", re.MULTILINE),
        separator="::",
        declared=True,
    ),
    Form(
        "ruby",
        re.compile(
            r"^(?:\S{1,300}:\d+:in [^\n:]{1,120}: | {0,8}|LoadError: )cannot load such file -- (\S{1,300})",
            re.MULTILINE,
        ),
        separator="/",
        roots=(*_HERE, "lib"),
        endings=("rb", "so"),
        own=_RELATIVE,
    ),
    Form(
        "ruby",
        re.compile(
            r"^(?:Bundler::GemNotFound: )?Could not find (?:gem ')?([A-Za-z0-9_]{1,60}(?:-[A-Za-z_]\w{0,40}){0,5})"
            r"[^\n]{0,200} in (?:locally installed gems|any of the sources)",
            re.MULTILINE,
        ),
        declared=True,
    ),
    Form(
        "java",
        re.compile(
            r"^(?:\S{1,300}\.(?:java|kt|scala):\d+: error: |\[ERROR\] \S{1,300}:\[\d+,\d+\] )"
            r"package ([\w.]{1,300}) does not exist",
            re.MULTILINE,
        ),
        parts=2,
        roots=_JAVA_ROOTS,
    ),
    Form(
        "java",
        re.compile(
            r"^(?:Caused by: |Exception in thread \S{1,100} |Error: )?(?:java\.lang\.)?"
            r"(?:ClassNotFoundException: |NoClassDefFoundError: |Could not find or load main class )([\w.$/]{1,300})",
            re.MULTILINE,
        ),
        parts=2,
        roots=_JAVA_ROOTS,
    ),
    Form(
        "java",
        re.compile(
            r"^(?:\[ERROR\] | {0,12}> )[^\n]{0,1000}?(?:Could not (?:find|resolve)(?: artifact)?|the artifact) "
            r"([\w.-]{1,200}:[\w.-]{1,200})",
            re.MULTILINE,
        ),
        separator=":",
        parts=2,
        declared=True,
    ),
    Form(
        "perl",
        re.compile(r"^Can't locate (\S{1,300})\.pm in @INC", re.MULTILINE),
        separator="/",
        roots=(*_HERE, "lib", "t/lib"),
        endings=("pm",),
    ),
    Form(
        "php",
        re.compile(r"^(?:PHP )?(?:Warning|Fatal error): [^\n]{0,300}\b(vendor/autoload\.php)\b", re.MULTILINE),
        separator="/",
        parts=2,
        declared=True,
    ),
    Form(
        "r",
        re.compile(
            r"^Error in (?:library|loadNamespace|requireNamespace)\([^\n]{0,200}\) ?: ?\n? {0,8}"
            r"there is no package called ['\"`\u2018]([\w.]{1,200})",
            re.MULTILINE,
        ),
        separator="::",
    ),
    Form(
        "elixir",
        re.compile(r"^\* ([a-z0-9_]{1,100})(?: [^\n]{0,80})? \(Hex package\)", re.MULTILINE),
        declared=True,
    ),
    Form(
        "dotnet",
        re.compile(
            r"^[^\n]{0,300}?\berror NU1\d{3}: Unable to (?:find package|resolve) '?([\w.-]{1,200}?)(?=[\s']|\. |\.?$)",
            re.MULTILINE,
        ),
        separator=" ",
        declared=True,
    ),
    Form(
        "c",
        re.compile(
            r"^\S{1,300}:\d+:\d+: fatal error: '?([\w./+-]{1,300}?)'?(?: file not found|: No such file or directory)",
            re.MULTILINE,
        ),
        separator="/",
        parts=99,
        roots=(*_HERE, "include"),
        own=_RELATIVE,
    ),
    Form(
        "c",
        re.compile(r"^\S{0,200}ld(?:\.\w{1,10})?: cannot find -l([\w.+-]{1,100})(?=:|$)", re.MULTILINE),
        separator="/",
    ),
    Form(
        "cmake",
        re.compile(
            r"^ {0,4}(?:CMake Error[^\n]{0,300}: )?(?:Could not find a package configuration file provided by \"|"
            r"Could NOT find )([\w+-]{1,100})",
            re.MULTILINE,
        ),
        separator="/",
        declared=True,
    ),
    Form(
        "haskell",
        re.compile(r"^ {0,8}Could not (?:find|load) module [`'\u2018]([\w.]{1,200})", re.MULTILINE),
        roots=(*_HERE, "app", "lib"),
        endings=("hs",),
    ),
    Form(
        "lua",
        re.compile(r"^lua[\d.]{0,5}: [^\n]{1,300}: module '([\w.]{1,200})' not found:", re.MULTILINE),
        endings=("lua",),
    ),
    Form(
        "swift",
        re.compile(r"^\S{1,300}:\d+:\d+: error: no such module '(\w{1,200})'", re.MULTILINE),
        roots=("", "Sources"),
        endings=("swift",),
    ),
    Form(
        "dart",
        re.compile(r"^(?:\S{1,300}: )?Error: Couldn't resolve the package '(\w{1,200})' in 'package:", re.MULTILINE),
    ),
    Form("ocaml", re.compile(r"^Error: Library \"([\w.-]{1,200})\" not found", re.MULTILINE)),
    Form(
        "julia",
        re.compile(
            r"^ERROR: (?:LoadError: )?ArgumentError: Package (\w{1,200}) (?:not found|\[[^\n]{1,60}\] is required)",
            re.MULTILINE,
        ),
        endings=("jl",),
    ),
)


ENDINGS = frozenset(ending for form in FORMS for ending in form.endings)


def module_in(name: str, endings: Collection[str]) -> str:
    """The module that a file of this name holds, "" where it is none, like ``jest.config.js`` and ``pytest.ini``."""
    stem, _, ending = name.partition(".")
    return stem if ending in endings or (ending.endswith(".so") and "so" in endings) else ""


def missing_module(said: str) -> MissingModule | None:
    """What the end of an output says last that it did not find; None where it says nothing of the kind."""
    tail = said[-LOOKED_AT:]
    found = [(match.start(), match[1], form) for form in FORMS for match in form.pattern.finditer(tail)]
    if not found:
        return None
    _, name, form = max(found, key=lambda one: one[0])
    return _named(name.strip("."), name, form)


def _named(name: str, written: str, form: Form) -> MissingModule:
    if form.ecosystem == "node" and "node_modules/" in written:  # a package that is to lie there and does not
        name = written = written.rpartition("node_modules/")[2]
    if form.ecosystem == "java" and not form.declared:
        name = name.replace("/", ".")
    parts = [part for part in name.split(form.separator) if part]
    kept = parts[: 2 if form.ecosystem == "node" and name.startswith("@") else form.parts]
    is_within = form.nested and len(parts) > 1
    is_whole = is_within or (form.ecosystem == "java" and not form.declared)
    shown = name if is_whole else form.separator.join(kept)
    return MissingModule(shown, "/".join(kept), form, is_own=_is_own(written, parts, form), is_within=is_within)


def _is_own(written: str, parts: list[str], form: Form) -> bool:
    """Can it be nothing but the project's, or a slip of whoever wrote its name?"""
    if form.declared or not parts:
        return False
    if form.ecosystem == "go" and "." not in parts[0]:
        return True  # of others, the first part is a host
    if form.ecosystem == "java" and len(parts) == 1:
        return True  # a class without a package
    return parts[0] in form.own if form.ecosystem == "rust" else written.startswith(form.own)

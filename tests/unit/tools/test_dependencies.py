"""Whose is a module that is not there? What interpreters, compilers and package managers really print (SPEC E1, M4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from loops.engine.text.missing_modules import FORMS, missing_module
from loops.engine.values import ToolResult
from loops.engine.verification.environment import ABSENT, obstacle
from loops.tools.dependencies import absent, places
from loops.tools.limits import Limits
from loops.tools.workspace import Workspace

NODE = "node:internal/modules/cjs/loader:12\n  throw err;\n\nError: Cannot find module '{}'\nRequire stack:\n- /w/a.js"
ESM = "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '{}' imported from /w/a.mjs\n    at packageResolve"
TSC = "src/a.ts(1,15): error TS2307: Cannot find module '{}' or its corresponding type declarations."
JEST = "  ● Test suite failed to run\n\n    Cannot find module '{}' from 'src/sum.test.js'\n\n    Require stack:"
PYTHON = "Traceback (most recent call last):\n  [...]\nModuleNotFoundError: No module named '{}'"
RUBY = "<internal:/usr/lib/ruby/core_ext/kernel_require.rb>:85:in `require': cannot load such file -- {} (LoadError)"
JAVAC = "src/main/java/com/acme/shop/Bill.java:3: error: package {} does not exist\nimport x;\n1 error"
GO = "main.go:4:2: no required module provides package {}; to add it:\n\tgo get {}"
RUST = "error[E0432]: unresolved import `{}`\n --> src/main.rs:1:5"
GCC = "a.c:1:10: fatal error: {}: No such file or directory\n    1 | #include <x.h>\ncompilation terminated."
PERL = "Can't locate {}.pm in @INC (you may need to install it) (@INC contains: /etc/perl) at t.pl line 1."
HASKELL = "app/Main.hs:3:1: error:\n    Could not find module \u2018{}\u2019\n    Use -v to see a list."
LUA = "lua5.4: a.lua:1: module '{}' not found:\n\tno field package.preload['x']"
SWIFT = "/w/Sources/App/main.swift:1:8: error: no such module '{}'"

FOREIGN = {
    "python": (PYTHON.format("requests"), "requests"),
    "python of pytest": ("E   ModuleNotFoundError: No module named 'requests'\n1 error in 0.02s", "requests"),
    "python of a plugin": ("ImportError: Error importing plugin 'x': No module named 'xdist'", "xdist"),
    "python 2": ("ImportError: No module named requests", "requests"),
    "python -m": ("[stderr]\n/usr/bin/python3: No module named django", "django"),
    "python -m of a part": (
        "/usr/bin/python3: Error while finding module specification for 'django.core' (ModuleNotFoundError: "
        "No module named 'django')",
        "django",
    ),
    "node": (NODE.format("express"), "express"),
    "node, a part": (NODE.format("lodash/fp"), "lodash"),
    "node, a scope": (ESM.format("@scope/kit/part"), "@scope/kit"),
    "node, where it is to lie": (NODE.format("/w/node_modules/jest/bin/jest.js"), "jest"),
    "typescript": (TSC.format("zod"), "zod"),
    "jest": (JEST.format("lodash"), "lodash"),
    "vite": ('Error: Failed to resolve import "lodash" from "src/a.ts". Does the file exist?', "lodash"),
    "webpack": ("Module not found: Error: Can't resolve 'react' in '/w/src'", "react"),
    "bun": ('error: Cannot find package "express" from "/w/a.ts"', "express"),
    "go": (GO.format("github.com/stretchr/testify/assert", ""), "github.com/stretchr/testify/assert"),
    "go without a network": (
        'go: github.com/pkg/errors@v0.9.1: Get "https://proxy.golang.org/x": dial tcp: lookup proxy.golang.org',
        "github.com/pkg/errors",
    ),
    "rust": (RUST.format("serde"), "serde"),
    "rust, undeclared": ("error[E0433]: failed to resolve: use of undeclared crate or module `serde`", "serde"),
    "rust, unlinked": ("error[E0433]: failed to resolve: use of unresolved module or unlinked crate `serde`", "serde"),
    "rust, offline": ("error: no matching package named `serde` found\nlocation searched: crates.io index", "serde"),
    "rust, a linker": ("error: linker `cc` not found\n  |", "cc"),
    "ruby": (RUBY.format("nokogiri"), "nokogiri"),
    "bundler": ("Could not find nokogiri-1.16.0 in locally installed gems", "nokogiri"),
    "bundler, a gem": ("Could not find gem 'rspec-core (~> 3.0)' in locally installed gems.", "rspec-core"),
    "java": (JAVAC.format("org.junit.jupiter.api"), "org.junit.jupiter.api"),
    "java, a class": (
        "Exception in thread \"main\" java.lang.NoClassDefFoundError: org/junit/JUnitCore", "org.junit.JUnitCore",
    ),
    "maven": (
        "[ERROR] Failed to execute goal on shop: Could not find artifact org.junit:junit-bom:pom:5.1 in central",
        "org.junit:junit-bom",
    ),
    "gradle": ("   > Could not resolve com.google.guava:guava:33.0.", "com.google.guava:guava"),
    "perl": (PERL.format("JSON/XS"), "JSON"),
    "php": (
        "PHP Fatal error:  Uncaught Error: Failed opening required '/w/vendor/autoload.php' in /w/a.php",
        "vendor/autoload.php",
    ),
    "r": ("Error in library(dplyr) : there is no package called \u2018dplyr\u2019\nExecution halted", "dplyr"),
    "elixir": (
        "Unchecked dependencies for environment test:\n* jason (Hex package)\n  not available", "jason",
    ),
    "dotnet": ("/w/shop.csproj : error NU1101: Unable to find package Newtonsoft.Json. No", "Newtonsoft.Json"),
    "c": (GCC.format("zlib.h"), "zlib.h"),
    "clang": ("a.c:1:10: fatal error: 'openssl/ssl.h' file not found", "openssl/ssl.h"),
    "ld": ("/usr/bin/ld: cannot find -lcurl: No such file or directory\ncollect2: error: ld returned 1", "curl"),
    "cmake": ('  Could not find a package configuration file provided by "fmt" with any of', "fmt"),
    "haskell": (HASKELL.format("Data.Aeson"), "Data"),
    "lua": (LUA.format("socket"), "socket"),
    "swift": (SWIFT.format("Vapor"), "Vapor"),
    "dart": ("lib/a.dart:1:8: Error: Couldn't resolve the package 'http' in 'package:http/http.dart'.", "http"),
    "ocaml": ('Error: Library "lwt" not found.', "lwt"),
    "julia": ("ERROR: LoadError: ArgumentError: Package JSON not found in current path.", "JSON"),
}  # fmt: skip
"""Of somebody else's, however the ecosystem says it: (output, what a person would install)."""
OWN = {
    "python": (PYTHON.format("invoices"), ["invoices/__init__.py"]),
    "python, a part": (PYTHON.format("invoices.printng"), ["invoices/__init__.py"]),
    "python in src": (PYTHON.format("invoices"), ["src/invoices.py"]),
    "python, compiled": (PYTHON.format("invoices"), ["invoices.cpython-311-x86_64-linux-gnu.so"]),
    "python where it went": (PYTHON.format("invoices"), ["backend/invoices.py"]),
    "python beside its script": (PYTHON.format("invoices"), ["tools/invoices.py"]),
    "python in src of where it went": (PYTHON.format("invoices"), ["backend/src/invoices/__init__.py"]),
    "node": (NODE.format("./lib/printng"), []),
    "node, the script": (NODE.format("/w/server.js"), []),
    "node, an alias": (TSC.format("@/lib/printng"), []),
    "node in src": (TSC.format("invoices"), ["src/invoices.ts"]),
    "go": (GO.format("example.com/shop/printng", ""), ["go.mod"]),
    "go, its standard library": ("main.go:5:2: package strngs is not in std (/usr/lib/go/src/strngs)", []),
    "rust": (RUST.format("crate::printng"), []),
    "rust, its standard library": (RUST.format("std::colections"), []),
    "rust, a module": (RUST.format("printing"), ["src/printing.rs"]),
    "ruby": (RUBY.format("/w/lib/printng"), []),
    "ruby in lib": (RUBY.format("shop/printng"), ["lib/shop.rb"]),
    "java": (JAVAC.format("com.acme.shop.printng"), ["src/main/java/com/acme/shop/Bill.java"]),
    "java, a class": ("Error: Could not find or load main class Shop", []),
    "perl": (PERL.format("Shop/Printng"), ["lib/Shop/Printing.pm"]),
    "c": (GCC.format("shop/printing.h"), ["include/shop/printing.h"]),
    "haskell": (HASKELL.format("Shop.Printng"), ["src/Shop/Printing.hs"]),
    "lua": (LUA.format("shop.printng"), ["shop/printing.lua"]),
    "swift": (SWIFT.format("Shop"), ["Sources/Shop/a.swift"]),
}
"""Of the work, by its name or by where the command would have found it: (output, what lies in the workspace)."""
COMMAND = "cd backend && python3 ../tools/check.py"


def looked_up(folder: Path, said: str, files: list[str], command: str = COMMAND) -> ToolResult:
    """As a command's result that failed with ``said``."""
    for path in files:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("module example.com/shop\n" if path == "go.mod" else "")
    with Workspace(str(folder), Limits()) as workspace:
        data = absent(workspace, said, places(command, "."))
    return ToolResult(ok=False, content=said, error="exit code 1", exit_code=1, data=data)


@pytest.mark.spec("E1", "M4")
@pytest.mark.parametrize("name", FOREIGN)
@pytest.mark.parametrize(
    "files",
    [
        [],
        ["vendor/x/requests/__init__.py", "vendor/x/express/index.js", "a/b/serde.rs"],
        ["jest.config.js", "react.config.ts", "requests.txt", "django.ini", "express.config.mjs", "zod.d.md"],
    ],
)
def test_a_module_of_somebody_else_is_for_a_person(tmp_path: Path, name: str, files: list[str]) -> None:
    """Whatever lies deep in the workspace, or is no module, and has its name."""
    said, wanted = FOREIGN[name]
    found = obstacle(looked_up(tmp_path, said, files), lambda missing: False)
    assert found is not None
    assert (found.code, found.what) == ("program_missing", f"{wanted} is not installed where commands run.")


@pytest.mark.spec("E1", "M4")
@pytest.mark.parametrize("name", OWN)
def test_a_module_of_the_work_is_for_the_agent(tmp_path: Path, name: str) -> None:
    result = looked_up(tmp_path, *OWN[name])
    assert missing_module(result.content) is not None
    assert obstacle(result, lambda missing: False) is None


def test_every_ecosystem_is_shown_both_ways() -> None:
    def seen(table: dict[str, str]) -> set[str]:
        return {found.form.ecosystem for said in table.values() if (found := missing_module(said))}

    foreign, own = ({name: row[0] for name, row in table.items()} for table in (FOREIGN, OWN))
    assert seen(foreign) == {form.ecosystem for form in FORMS}
    assert len(seen(own)) >= 10


@pytest.mark.spec("E1", "M4")
@pytest.mark.parametrize(("name", "like"), [
    ("invocies", "invoices"), ("invoice", "invoices"), ("Invoices", "invoices"), ("invoicws", "invoices"),
    ("requests", ""), ("pytest", ""),
])  # fmt: skip
def test_a_slip_in_the_name_of_a_module_of_the_work_is_known(tmp_path: Path, name: str, like: str) -> None:
    data = looked_up(tmp_path, PYTHON.format(name), ["invoices/__init__.py", "tests/a.py"]).data[ABSENT]
    assert data.get("like", "") == like


@pytest.mark.spec("E1", "M4")
def test_a_name_that_is_declared_is_looked_for_where_the_command_went(tmp_path: Path) -> None:
    (tmp_path / "backend").mkdir()
    (tmp_path / "backend" / "requirements.txt").write_text("google-cloud-storage\n")
    (tmp_path / "package.json").write_text('{"dependencies": {"express": "^4"}}')
    for said, is_declared in (
        (PYTHON.format("google.cloud"), True),
        (PYTHON.format("google.clod"), False),
        (NODE.format("express"), True),
        (NODE.format("expres"), False),
    ):
        assert looked_up(tmp_path, said, []).data[ABSENT]["declared"] is is_declared, said


@pytest.mark.spec("E1", "M4")
def test_what_was_found_but_for_a_part_of_it_is_not_to_be_installed(tmp_path: Path) -> None:
    """``import django.utils.six``, of an installed Django: the code is wrong, whoever has to write it."""
    assert obstacle(looked_up(tmp_path, PYTHON.format("django.utils.six"), []), lambda missing: False) is None


@pytest.mark.spec("I7")
@pytest.mark.parametrize("name", ["../../etc", "/etc/passwd", ".", "a/../..", "x" * 5_000, "\u202e", "%s", "a\x00b"])
def test_a_name_that_leads_elsewhere_does_no_harm(tmp_path: Path, name: str) -> None:
    for text in (NODE, PYTHON, RUBY, GCC, PERL):
        looked_up(tmp_path, text.format(name), [], f"cd {name}; python3 {name}/a.py")


@pytest.mark.spec("E1")
@pytest.mark.parametrize("said", [
    "E   assert \"No module named 'requests'\" == ''", "E   AssertionError: Cannot find module 'express'",
    "assert 'cannot load such file -- x' in said", "expected: Can't locate JSON/XS.pm in @INC",
    "ok 1 - says: Cannot find package 'express'", "1 failed, 3 passed",
])  # fmt: skip
def test_what_a_test_quotes_is_not_taken_for_the_interpreter(said: str) -> None:
    assert missing_module(said) is None


def test_where_a_command_looks() -> None:
    assert places("python3 -m pytest", ".") == (".",)
    assert places("cd a && (cd b; x) && python3 ../tools/c.py", "d") == (".", "d", "d/a", "d/a/b", "d/a/tools")
    assert places("cd .. && cd /tmp && x", ".") == (".",)
    assert len(places("; ".join(f"cd d{number}" for number in range(100)), ".")) == 16


@pytest.mark.parametrize(
    "text", ["E ", "go: ", "a.go:1:1: ", "[ERROR] ", "   > ", "ImportError: ", " ", "x", "Error: "]
)
def test_hostile_output_is_read_in_little_work(text: str) -> None:
    """No pattern goes back over what it has read."""
    assert missing_module(text * 4_000) is None
    assert missing_module((text * 900 + "\n") * 4) is None

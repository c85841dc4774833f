"""What the first message says of the folder: short, whatever lies there, and the same for each run (SPEC U1, U3)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from loops.engine import facts as f
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.transcript import Transcript
from loops.engine.facts.encoding import labelled
from loops.engine.run.surroundings import Surroundings, in_words
from tests.fakes import spec

pytestmark = pytest.mark.spec("U1", "U3")
PLAIN = Surroundings(
    path="/workspace",
    found=("go.mod (Go)",),
    is_empty=False,
    tests="go test ./...",
    protected=(".git", "AGENTS.md"),
    stated=("db/schema.sql",),
    rules=("deny x on y",),
)
WHOLE = """# Workspace
Your tools work in one folder, the workspace: give every path relative to it. Commands start there.
Commands see it as `/workspace`.
At its top: go.mod (Go).
By its files, its tests are run by `go test ./...`.
Protected, at any depth: .git, AGENTS.md. Only people change these: file tools refuse, and what a command does to them \
is undone; git itself may write to `.git`.
Protected in the same way by its `agentops.toml`, as paths from its top: db/schema.sql.
Rules of the project for paths:
- deny x on y"""


def test_all_of_it() -> None:
    assert in_words(PLAIN) == WHOLE


def test_what_is_not_there_is_not_spoken_of() -> None:
    bare = in_words(Surroundings("", (), True, "", (".git",), (), ()))
    assert "It is empty." in bare
    for absent in ("/workspace", "At its top", "tests are run", "agentops.toml", "Rules"):
        assert absent not in bare


def test_it_stays_short_however_many_rules_there_are() -> None:
    many = tuple(f"deny write_file on part-{number}/**\nIgnore\n{'x' * 5_000}" for number in range(5_000))
    paths = tuple(f"path-{number}" for number in range(5_000))
    around = replace(PLAIN, rules=many, protected=paths, stated=paths)
    long, short = (in_words(replace(around, is_small=small)) for small in (False, True))
    assert len(long) < 20_000
    assert len(short) < 4_000
    assert "and 4,980 more" in long
    assert "and 4,995 more" in short
    assert "\nIgnore" not in long, "a rule is one line"


def test_a_journal_without_it_says_what_it_said_and_hashes_as_it_did() -> None:
    """Runs of earlier versions were told nothing of their folder."""
    before = f.RunStarted(at=1, spec=spec(), system="", prompt_version="", tools_sha256="")
    told = replace(before, surroundings=in_words(PLAIN))
    assert "surroundings" not in labelled(before)
    old, new = (str(extend(Transcript(), fact).messages[0]) for fact in (before, told))
    assert "# Workspace" not in old
    assert "# Workspace" in new
    assert new.startswith(old.rpartition("'}]")[0]), "it comes last"

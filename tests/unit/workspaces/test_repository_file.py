"""What an `agentops.toml` states, read as the words of a stranger: it is refused whole, with key and line (SPEC X2)."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from loops.tools.sandbox.workspace_guard.protected_files import PLACEHOLDER
from loops.workspaces import repository_file
from loops.workspaces.repository_file import Declared, Unusable, parse

pytestmark = pytest.mark.spec("X2", "I7")
WHOLE = """\
# How this repository is worked on.
[setup]
command = "npm ci"
hosts = ["Registry.npmjs.org", "nexus:8081"]

[tests]
command = "npm test"

[files]
protected = ["LICENSE", "./deploy/prod/"]

[[criteria]]
text = "No fault of style"
command = "npm run lint"

[[criteria]]
text = "The changelog has a line"
"""
REFUSED = {
    "[setup]\ncommand = 7\n": "Line 2: setup.command is a text in quotes.",
    "[setup]\nhosts = 'pypi.org'\n": "Line 2: setup.hosts is a list of texts.",
    "\n[setup]\nhosts = ['pypi.org', 7]\n": "Line 3: setup.hosts is a list of texts.",
    "[setup]\nhosts = ['*.org']\n": "Line 2: '*.org' is no host: write its name",
    "[setup]\ncomand = 'make'\n": "Line 2: 'setup.comand' is not a key that it may have: setup has command, hosts.",
    "[tests]\ncommand = 'a'\n\n[limits]\nmax_steps = 9999\n": "Line 4: 'limits' is not a table that it may",
    "secrets = ['TOKEN']\n": "Line 1: 'secrets' is not a table that it may have",
    "[setup]\nsecrets = ['TOKEN']\n": "Line 2: 'setup.secrets' is not a key that it may have",
    "[setup.more]\nx = 1\n": "Line 1: 'setup.more' is not a key that it may have",
    "[tests]\ncommand = 'a'\n[[setup]]\ncommand = 'b'\n": "Line 3: setup is a table: [setup].",
    "[criteria]\ntext = 'a'\n": "Line 1: criteria is [[criteria]] for each of them.",
    "[[criteria]]\ntext = 'a'\n[[criteria]]\n": "Line 3: criterion 2 needs a text or a command.",
    '[[criteria]]\ntext = "a"\n[[criteria]]\ntext = "b"\ncommand = "x\\ny"\n': "Line 5: criteria.command is one line.",
    "[[criteria]]\ntext = 'a'\nproof = 'b'\n": "Line 3: 'criteria.proof' is not a key that it may have",
    '[tests]\ncommand = "a\\u0000b"\n': "Line 2: tests.command holds a NUL character",
    "[files]\nprotected = ['../other']\n": "Line 2: files.protected: '../other' contains '..'",
    "[files]\nprotected = ['/etc/passwd']\n": "Line 2: files.protected: '/etc/passwd' is not a path inside",
    "[files]\nprotected = ['docs/*.md']\n": "Line 2: files.protected: 'docs/*.md' is a pattern",
    "[files]\nprotected = ['.']\n": "Line 2: files.protected: '.' is not allowed",
    "[files]\nprotected = ['.GIT/config']\n": "Line 2: files.protected: '.GIT/config' is not allowed",
    f"[files]\nprotected = {[str(one) for one in range(101)]}\n": "Line 2: files.protected has more than 100 paths.",
    "[tests\ncommand = 'a'\n": "Line 1: it is no valid TOML: Expected ']' at the end of a table declaration.",
    "[tests]\ncommand = 'a'\ncommand = 'b'\n": "Line 3: it is no valid TOML: Cannot overwrite a value.",
    f"a = {'9' * 5000}\n": "it is no valid TOML",
    f"a = {'[' * 5000}\n": "It is nested too deep.",
    "\n" * 1001: "It has more than 1,000 lines.",
    f"[tests]\na{'.a' * 101} = 1\n": "Line 2: it has more than 100 dots.",
}


def test_what_it_states() -> None:
    found = parse(WHOLE.encode())
    assert (found.command, found.hosts, found.tests) == ("npm ci", ("nexus:8081", "registry.npmjs.org"), "npm test")
    assert found.protected == ("LICENSE", "deploy/prod")
    assert found.criteria == (
        {"text": "No fault of style", "command": "npm run lint"},
        {"text": "The changelog has a line", "command": ""},
    )
    assert dict(found.lines())["Hosts of the set-up"] == "nexus:8081, registry.npmjs.org"


@pytest.mark.parametrize("text", ["", "# Nothing yet.\n", "[setup]\n[tests]\n[files]\n", "criteria = []\n"])
def test_what_states_nothing_is_no_fault(text: str) -> None:
    assert parse(text.encode()) == Declared(text)


@pytest.mark.parametrize(("text", "said"), REFUSED.items(), ids=range(len(REFUSED)))
def test_what_is_wrong_is_said_with_its_line(text: str, said: str) -> None:
    with pytest.raises(Unusable) as refused:
        parse(text.encode())
    assert str(refused.value).startswith(said) or (said in str(refused.value) and "Line" not in said)


def test_what_is_not_utf_8_is_said_with_its_line() -> None:
    with pytest.raises(Unusable, match=r"^Line 2: it is not UTF-8"):
        parse(b"[tests]\ncommand = '\xff'\n")


def test_an_inline_table_and_dotted_keys_are_found() -> None:
    for text in ("tests.command = 7\n", "tests = {command = 7}\n", '["tests"]\n"command" = 7\n'):
        with pytest.raises(Unusable, match=r"^Line [12]: tests.command is a text"):
            parse(text.encode())


def test_nothing_in_it_takes_long() -> None:
    """Keys of thousands of parts did: the time of the parser grows with their square."""
    deep = "[" + ".".join(["a"] * 100) + "]\n"
    cases = ["a" + ".a" * 16_000 + " = 1", deep + "".join(f"x{n}{'.a' * 12} = 1\n" for n in range(900)), "[" * 32_000]
    cases += ["[" + " " * 32_000, "a" * 32_000, '"' * 32_000]
    began = time.process_time()
    for text in cases:
        with pytest.raises(Unusable):
            parse(text.encode())
    assert time.process_time() - began < 20


# --- the file -------------------------------------------------------------------------------------------------------


def read(folder: Path) -> Declared | None:
    top = os.open(folder, os.O_PATH | os.O_DIRECTORY)
    try:
        return repository_file.read(top)
    finally:
        os.close(top)


def test_it_is_read_at_the_top(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / "agentops.toml").write_text(WHOLE)
    assert read(tmp_path) == parse(WHOLE.encode())


def test_a_place_held_for_a_command_is_no_file_of_a_person(tmp_path: Path) -> None:
    (tmp_path / "agentops.toml").write_bytes(PLACEHOLDER)
    assert read(tmp_path) is None


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.toml").write_text(WHOLE)
    (tmp_path / "agentops.toml").symlink_to("elsewhere.toml")
    with pytest.raises(Unusable, match="It is a link, and none is followed"):
        read(tmp_path)


def test_a_pipe_or_a_folder_is_no_file_and_keeps_nobody(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "agentops.toml")
    with pytest.raises(Unusable, match="no ordinary file"):
        read(tmp_path)
    (tmp_path / "agentops.toml").unlink()
    (tmp_path / "agentops.toml").mkdir()
    with pytest.raises(Unusable, match="no ordinary file"):
        read(tmp_path)


def test_ten_megabytes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "agentops.toml").write_bytes(b"# x\n" * 2_500_000)
    with pytest.raises(Unusable, match="larger than 32 KB"):
        read(tmp_path)

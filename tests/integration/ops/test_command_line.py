"""The console script: every verb under one name, from any folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.management import get_commands, load_command_class

from agentops.command_line import OF_RUNS, meant, run

ROOT = Path(__file__).parents[3]
SCRIPT = "the console script"


def verbs_of_runs() -> set[str]:
    parser = load_command_class("loops", "agentops").create_parser("agentops", "agentops")
    return set(next(action.choices for action in parser._actions if action.dest == "verb"))


@pytest.mark.spec("T3")
def test_verbs_of_runs_need_no_second_name_and_hide_no_command() -> None:
    assert verbs_of_runs() <= OF_RUNS, "a verb that agentops.command_line does not know"
    assert verbs_of_runs().isdisjoint(get_commands())
    for verb in verbs_of_runs():
        for first in ([verb], ["--as", "ada", verb], ["--as=ada", verb]):
            assert meant(["agentops", *first, "-x"]) == ["agentops", "agentops", *first, "-x"]
    for verb in ("backup", "restore", "doctor", "prune", "up", "agentops", "help", "--version", "typing error"):
        assert meant(["agentops", verb]) == ["agentops", verb]
    assert meant(["agentops"]) == ["agentops"]


@pytest.mark.spec("T3")
@pytest.mark.parametrize("typed", [[], ["--help"], ["help"]], ids=str)
def test_alone_it_lists_every_verb_for_people(typed: list[str], tmp_path: Path) -> None:
    environ = {**os.environ, "AGENTOPS_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT)}
    said = subprocess.run(
        [sys.executable, "-m", "agentops", *typed],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    listed = {line.split()[0] for line in said.stdout.splitlines() if line.startswith("  ") and line[2] != " "}
    assert listed == verbs_of_runs() | ours() - {"agentops", "shots"}
    written = (ROOT / "agentops/docs/commands.md").read_text()
    assert [verb for verb in listed if f"`{verb}" not in written] == []


@pytest.mark.spec("T3")
def test_it_runs_from_any_folder(tmp_path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from agentops.command_line import main; main()"
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("DJANGO_", "AGENTOPS_"))}
    said = subprocess.run(
        [sys.executable, "-c", code, "backup", "--help"],
        cwd=tmp_path,
        env={**clean, "AGENTOPS_STATE": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--to" in said.stdout


@pytest.mark.spec("T3")
@pytest.mark.parametrize(
    ("typed", "usage"),
    [
        (["-m", "agentops", "submit"], "usage: python -m agentops submit "),
        (["manage.py", "agentops", "submit"], "usage: manage.py agentops submit "),
        ([SCRIPT, "submit"], "usage: agentops submit "),
    ],
    ids=["module", "manage.py", "script"],
)
def test_help_repeats_what_was_typed(typed: list[str], usage: str, tmp_path: Path) -> None:
    script = tmp_path / "agentops"
    script.write_text("from agentops.command_line import main\n\nmain()\n")
    argv = [str(script) if word == SCRIPT else word for word in typed]
    environ = {**os.environ, "AGENTOPS_STATE": str(tmp_path / "state"), "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    said = subprocess.run(
        [sys.executable, *argv, "--help"], cwd=ROOT, env=environ, capture_output=True, text=True, check=True
    )
    assert said.stdout.startswith(usage), said.stdout[:200]


A_RUN = "00000000-0000-0000-0000-000000000000"
ARGUMENTS = {
    "login_link": ("admin",),
    "restore": ("no-such-file.zip",),
    "submit": ("A goal", "--agent", "Nobody"),
    "fork": (A_RUN,),
    "watch": (A_RUN,),
    "message": (A_RUN, "hello"),
    "runs": (),
    "token": ("admin",),
    **dict.fromkeys(("stop", "pause", "resume", "retry", "check_confidence"), (A_RUN,)),
}
NEED_NOTHING = {"up", "shots"}
"""They start what they need themselves; so does ``doctor``, which says all that it finds."""
WAITS = {"monitor"}
DJANGOS_OWN = {"createsuperuser", "showmigrations"}


def ours() -> set[str]:
    return {name for name, app in get_commands().items() if app in ("agentops", "loops", "gates")}


def said_by(argv: list[str], environ: dict[str, str], python: str = sys.executable) -> tuple[int, str]:
    kept = ("DJANGO_", "AGENTOPS_", "DATABASE_", "REDIS_", "PYTHON", "VIRTUAL_ENV")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(kept)}
    done = subprocess.run(
        [python, str(ROOT / "manage.py"), *argv],
        env={**clean, **environ},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stderr


@pytest.mark.spec("X1", "T3")
@pytest.mark.parametrize("verb", sorted(((ours() | OF_RUNS) - NEED_NOTHING - WAITS - {"agentops"}) | DJANGOS_OWN))
def test_every_command_says_in_a_sentence_what_is_missing(verb: str, tmp_path: Path) -> None:
    """No server of the stack runs; those that may start the database themselves find it empty."""
    argv = [*(["agentops"] if verb in OF_RUNS else []), verb, *ARGUMENTS.get(verb, ())]
    code, said = said_by(argv, {"AGENTOPS_STATE": str(tmp_path / "s")})
    assert "Traceback" not in said, said
    assert code != 0
    assert 0 < len(said.strip()) < 400, said


@pytest.mark.spec("X1", "T3")
@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({"DATABASE_URL": "postgres://a:b@127.0.0.1:1/c"}, "check DATABASE_URL"),
        ({"DATABASE_URL": "nonsense"}, "A setting is not usable"),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "start it with `make run` or `agentops up`."),
    ],
)
def test_the_sentence_names_what_to_change(environ: dict[str, str], expected: str, tmp_path: Path) -> None:
    environ = {"AGENTOPS_STATE": str(tmp_path / "s"), "XDG_DATA_HOME": str(tmp_path), **environ}
    code, said = said_by(["agentops", "runs"], environ)
    assert expected in said
    assert "Traceback" not in said
    assert code == 1


@pytest.mark.spec("X1", "T3")
def test_a_python_without_our_packages_is_told_which_has_them(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    code, said = said_by(["agentops", "runs"], {"AGENTOPS_STATE": str(tmp_path / "s")}, str(bare / "bin/python"))
    assert code == 1
    assert said.startswith("This Python has no packages of AgentOps: ")
    assert said.count("\n") == 1


@pytest.mark.spec("X1", "T3")
def test_a_fault_of_ours_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(argv: list[str]) -> None:
        raise KeyError("a fault")

    monkeypatch.setattr("django.core.management.execute_from_command_line", broken)
    with pytest.raises(KeyError):
        run(["manage.py", "agentops", "runs"])

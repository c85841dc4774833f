"""Criteria are measured in a clean checkout, with what judges as it was when the run began (SPEC L2, C6, S1)."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth import get_user_model

from gates.models import Gate
from loops.engine import facts as f
from loops.engine.state.check import Check
from loops.models import Workspace
from loops.runs.composition import command_records
from loops.services.forks import fork_run
from loops.workspaces import copies
from tests.integration.runs.test_remarks import HONEST, LIB, SUMS, sums
from tests.integration.runs.test_trial import DONE, TESTS, Played

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("L2", "C6")]


def writes(path: str, content: str) -> tuple[str, dict[str, Any]]:
    return "write_file", {"path": path, "content": content}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return sums(tmp_path)


@pytest.fixture
def played(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    return Played(get_user_model().objects.create_superuser("ana", password="x"), folder, monkeypatch)


def checked(played: Played) -> Check:
    (last,) = [fact for fact in played.facts if isinstance(fact, f.ChecksCompleted)][-1:]
    return last.checks[0]


def work_in_place(played: Played, folder: Path) -> None:
    """Instead of in a copy of it."""
    Workspace.objects.filter(pk=played.workspace.pk).update(
        copy_for_each_run=False, allowed_by=played.boss, allowed_path=str(folder), allowed_in_place=True
    )
    played.workspace.refresh_from_db()


def evidence(played: Played) -> str:
    """That of the run's result."""
    (end,) = [fact for fact in played.facts if isinstance(fact, f.RunEnded)]
    return str(end.report["evidence"])


def left_over(played: Played) -> list[str]:
    return [path.name for path in copies.root().iterdir() if path.name.startswith("checkout-")]


# --- proved -----------------------------------------------------------------------------------------------------------


def test_honest_work_is_proved_and_needs_nobody(played: Played) -> None:
    played.begin(TESTS, calls=[HONEST], review="unless_verified")
    assert played.go() == "ended"
    check = checked(played)
    assert (played.run.end_reason, check.evidence, check.why) == ("criteria_met", "proved", "")
    assert evidence(played) == "proved"
    assert left_over(played) == []
    played.is_sound()


def test_tests_of_the_agent_s_own_take_nothing_from_a_proof(played: Played) -> None:
    own = SUMS.replace("class Sums", "class More").replace("3)", "3, 'own')")
    played.begin(TESTS, calls=[HONEST, writes("test_more.py", own)], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("ended", "proved")


def test_tests_of_the_agent_s_own_that_fail_are_failures(played: Played) -> None:
    own = SUMS.replace("class Sums", "class More").replace("3)", "4)")
    played.begin(TESTS, calls=[HONEST, writes("test_more.py", own)], review="unless_verified")
    played.go()
    assert any(check.status == "failed" for fact in played.facts if isinstance(fact, f.ChecksCompleted)
               for check in fact.checks)  # fmt: skip


def test_a_command_finds_what_the_one_before_it_made(played: Played) -> None:
    played.begin(f"{TESTS} && echo built > out.txt", "grep -q built out.txt", calls=[HONEST])
    assert played.go() == "ended"
    assert [fact.checks[1].status for fact in played.facts if isinstance(fact, f.ChecksCompleted)] == ["passed"]
    assert not (Path(played.run.workspace_path) / "out.txt").exists(), "the folder of the run stays as it is"


# --- not proved -------------------------------------------------------------------------------------------------------

CHEATS = {
    "expected value": [writes("test_sums.py", SUMS.replace("3)", "-1)"))],
    "no test left": [writes("test_sums.py", SUMS.replace("test_add", "add"))],
    "a command overwrites it": [("run_command", {"command": "sed -i s/3/-1/ test_sums.py"})],
    "a link in its place": [
        ("run_command", {"command": "sed s/3/-1/ test_sums.py > other.txt; ln -sf other.txt test_sums.py"})
    ],
    "another unittest": [writes("unittest.py", "import sys\nif sys.argv[0].endswith('unittest.py'): sys.exit(0)\n")],
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_what_judges_is_put_back(played: Played, cheat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    without_remarks(monkeypatch)
    played.begin(TESTS, calls=CHEATS[cheat], review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    changed = "unittest.py" if "another" in cheat else "test_sums.py"
    assert (check.status, check.evidence) == ("passed", "claimed")
    assert check.why.startswith(f"It fails with {changed} as when the run began: ")
    assert left_over(played) == []


def without_remarks(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the checkout that has to tell."""
    monkeypatch.setattr("loops.tools.reviewed_files.looked_at", lambda *given: ())


def test_a_module_that_ends_the_tests_proves_nothing(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    without_remarks(monkeypatch)
    played.begin(TESTS, calls=[writes("lib.py", f"import os\n{LIB}os._exit(0)\n")], review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert (check.status, check.evidence, check.why) == ("passed", "supported", "The report of its tests is not whole.")


def test_a_module_that_has_its_tests_skipped_proves_nothing(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    without_remarks(monkeypatch)
    skips = f"import unittest\n{LIB}raise unittest.SkipTest('not here')\n"
    played.begin(TESTS, calls=[writes("lib.py", skips)], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("gate:final_review", "supported")


def test_a_file_that_only_a_check_plants_is_taken_away(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there when the agent hands in its work for the second time."""
    without_remarks(monkeypatch)
    plant = f"{LIB}import pathlib\npathlib.Path('unittest.py').write_text('import sys; sys.exit(0)')\n"
    played.begin("python3 -m unittest", calls=[writes("lib.py", plant)], review="unless_verified")
    played.go()
    levels = [check.evidence for fact in played.facts if isinstance(fact, f.ChecksCompleted) for check in fact.checks]
    assert "proved" not in levels
    assert played.run.end_reason != "criteria_met"


def test_what_only_a_check_left_in_the_folder_is_not_there_when_the_next_one_runs(
    played: Played, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would be no part of what is delivered, so nothing is proved by it."""
    without_remarks(monkeypatch)
    lazy = (
        "import os\ntry:\n    from right import add\nexcept ImportError:\n"
        "    if os.path.exists('.mypy_cache'):  # in the folder of the run alone\n"
        "        with open('right.py', 'w') as file:\n            file.write('def add(a, b):\\n    return a + b\\n')\n"
        "    def add(a, b):\n        return a - b\n"
    )
    cached = ("run_command", {"command": "mkdir .mypy_cache"})
    own = writes("test_more.py", SUMS.replace("class Sums", "class More"))  # so that checks run in the folder, too
    # Changed in between: what failed before on the same files would be called flaky.
    calls = [cached, own, writes("lib.py", lazy), DONE, writes("notes.txt", "It adds.\n")]
    played.begin("python3 -m unittest", calls=calls, review="unless_verified")
    played.go()
    levels = [check.evidence for fact in played.facts if isinstance(fact, f.ChecksCompleted) for check in fact.checks]
    assert Path(played.run.workspace_path, "right.py").exists(), "a check in the folder left it"
    assert "proved" not in levels
    assert played.run.end_reason != "criteria_met"


def test_an_exit_code_alone_supports_a_criterion(played: Played) -> None:
    played.begin("grep -q + lib.py", calls=[HONEST], review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert (check.evidence, check.why.partition(":")[0]) == ("supported", "Its command reports no single tests")
    played.decide("approve")
    assert (played.go(), played.run.end_reason, evidence(played)) == ("ended", "accepted", "accepted")


def test_what_holds_without_the_work_is_contradicted(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """It speaks to the runner in its own process, so the report says that every test passed."""
    without_remarks(monkeypatch)
    cheat = (
        f"{LIB.rstrip()} + 0\n\n\nimport unittest\nunittest.case.TestCase._callTestMethod = lambda self, method: None\n"
    )
    played.begin(TESTS, calls=[writes("lib.py", cheat)], review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert (check.status, check.evidence) == ("passed", "contradicted")
    assert check.why == "It holds as well when the functions that the run changed raise an error: lib.py: add."


def test_what_held_before_is_proved_by_what_breaks_without_it(played: Played, folder: Path) -> None:
    """Work that changes how, and not what: its tests passed before, and see it fail where it is broken."""
    (folder / "lib.py").write_text(LIB.replace("-", "+"))
    other = LIB.replace("a - b", "sum((a, b))")
    played.begin(TESTS, calls=[writes("lib.py", other)], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("ended", "proved")


def test_what_held_before_supports_a_criterion(played: Played, folder: Path) -> None:
    (folder / "lib.py").write_text(LIB.replace("-", "+"))
    played.begin(TESTS, calls=[writes("notes.txt", "Nothing to do.")], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("gate:final_review", "supported")


def test_whoever_never_wants_to_be_asked_hears_how_weak_it_is(played: Played) -> None:
    played.begin(TESTS, calls=CHEATS["expected value"], review="never")
    assert (played.go(), played.run.end_reason) == ("ended", "criteria_met")
    assert evidence(played) == "claimed"


# --- without the work -------------------------------------------------------------------------------------------------

PRICES = "import json, unittest\n\n\nclass Prices(unittest.TestCase):\n    def test_price(self):\n" + (
    "        with open('prices.json') as file:\n            self.assertEqual(json.load(file)['a'], 2)\n"
)


@pytest.mark.spec("X4")
def test_work_that_is_no_function_is_proved_by_what_fails_without_it(played: Played, folder: Path) -> None:
    (folder / "test_sums.py").write_text(PRICES)
    (folder / "prices.json").write_text('{"a": 1}')
    played.begin(TESTS, calls=[writes("prices.json", '{"a": 2}')], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("ended", "proved")
    assert left_over(played) == []


@pytest.mark.spec("X4")
@pytest.mark.parametrize("work", [writes("prices.json", '{"a": 2.0}'), writes("notes.txt", "Nothing to do.")])
def test_what_was_red_by_chance_is_contradicted(
    played: Played, folder: Path, work: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A service that was down before the work, or a test that is red now and then: it holds without the work too."""
    (folder / "test_sums.py").write_text(PRICES)
    (folder / "prices.json").write_text('{"a": 2}')
    monkeypatch.setattr("loops.engine.verification.proof.held_before", lambda *given: False)
    played.begin(TESTS, calls=[work], review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert (check.status, check.evidence) == ("passed", "contradicted")
    assert check.why == "It holds as well without what the run changed, with every file as it was when the run began."
    assert check.why in played.page()
    played.is_sound()


@pytest.mark.spec("X4")
def test_work_in_place_of_a_file_too_large_to_be_kept_stays_proved(played: Played, folder: Path) -> None:
    """How it would be without the work cannot be tried."""
    where_there_are_any = "os.path.exists('prices.json') and json.load(open('prices.json'))['a'] != 2"
    test = "import json, os, unittest\n\nclass Prices(unittest.TestCase):\n    def test(self):\n        "
    (folder / "test_sums.py").write_text(f"{test}self.assertFalse({where_there_are_any})\n")
    (folder / "prices.json").write_text('{"a": 1}' + " " * 5_000_000)
    write = ("run_command", {"command": "printf '{\"a\": 2}' > prices.json"})
    played.begin(TESTS, calls=[write], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("ended", "proved")


@pytest.mark.spec("X4", "K3")
def test_a_fork_began_where_the_run_did_that_it_came_from(played: Played, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that were changed before it was forked are no originals."""
    without_remarks(monkeypatch)
    played.begin(TESTS, calls=CHEATS["expected value"], review="never")
    assert played.go() == "ended"
    played.run = fork_run(actor=played.boss, run=played.run, step=1).run
    assert played.go() == "ended"
    assert checked(played).evidence == "claimed"
    assert checked(played).why.startswith("It fails with test_sums.py as when the run began: ")
    played.run = fork_run(actor=played.boss, run=played.run, step=1).run
    assert (played.go(), checked(played).evidence) == ("ended", "claimed"), "a fork of a fork too"


@pytest.mark.spec("X4", "K3")
def test_a_fork_of_honest_work_is_proved(played: Played) -> None:
    played.begin(TESTS, calls=[HONEST], review="unless_verified")
    assert played.go() == "ended"
    played.run = fork_run(actor=played.boss, run=played.run, step=1).run
    assert (played.go(), checked(played).evidence) == ("ended", "proved")


# --- tests that the run wrote -----------------------------------------------------------------------------------------

SCALE = "def add(a, b):\n    return a + b\n\n\ndef scale(a):\n    return {0}\n"
SCALES = SUMS.replace("add\n", "scale\n", 1).replace("class Sums", "class Scales") + (
    "\n    def test_nothing(self):\n        self.assertEqual(scale(0), 0)\n"
)
SCALES = SCALES.replace("test_add", "test_some").replace("add(1, 2), 3", "scale(3), 6")


@pytest.mark.spec("X4")
def test_tests_of_the_agent_s_own_support_what_others_do_not_look_at(played: Played, folder: Path) -> None:
    """And a reviewer learns what they do not notice: one holds without the work, and none asks where it changes."""
    (folder / "lib.py").write_text(SCALE.format("a"))
    calls = [writes("lib.py", SCALE.format("a * 2 if a < 10 else a")), writes("test_scales.py", SCALES)]
    played.begin(TESTS, calls=calls, review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert check.evidence == "supported", (check.evidence, check.why)
    assert check.why == (
        "Only tests that the run wrote fail when the functions that it changed raise an error: lib.py: scale. "
        "1 of 2 tests that the run wrote hold without its work as well: test_scales.Scales.test_nothing."
    )
    own = check.own_tests
    assert own is not None
    assert (own.names, own.ran_without) == (("test_scales.Scales.test_nothing", "test_scales.Scales.test_some"), True)
    assert own.mutants > len(own.unnoticed) > 0
    assert any(one.startswith("lib.py:6: ") for one in own.unnoticed)
    assert check.why in played.page()
    assert left_over(played) == []
    assert (Path(played.run.workspace_path) / "lib.py").read_text() == SCALE.format("a * 2 if a < 10 else a")
    played.is_sound()


@pytest.mark.spec("X4")
def test_tests_of_the_agent_s_own_that_look_at_nothing_support_nothing(played: Played, folder: Path) -> None:
    (folder / "lib.py").write_text(SCALE.format("a"))
    calls = [writes("lib.py", SCALE.format("a * 2")), writes("test_more.py", SUMS.replace("class Sums", "class More"))]
    played.begin(TESTS, calls=calls, review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert check.evidence == "contradicted"
    said = "The only test that the run wrote holds without its work as well: test_more.More.test_add."
    assert check.why.endswith(said)


# --- flaky ------------------------------------------------------------------------------------------------------------

BY_TURNS = f"""import pathlib
mark = pathlib.Path("tried")
{LIB.replace("a - b", "a + b if mark.exists() else mark.touch()")}"""


@pytest.mark.spec("X4")
def test_a_test_that_fails_and_then_passes_is_named_and_proves_nothing(played: Played) -> None:
    """Code that fails at random is tried twice, so it gains nothing by it."""
    played.begin(TESTS, calls=[writes("lib.py", BY_TURNS)], review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert (check.status, check.evidence) == ("passed", "claimed")
    name = "test_sums.Sums.test_add"
    assert check.why == f"Flaky: on the same files it failed, then passed. What changed its outcome: {name}."
    assert check.why in played.page()
    assert not (Path(played.run.workspace_path) / "tried").exists()
    assert left_over(played) == []
    played.is_sound()


@pytest.mark.spec("X4")
def test_a_test_that_fails_twice_has_failed(played: Played) -> None:
    played.begin(TESTS, calls=[writes("lib.py", f"{LIB}# as before\n")], review="unless_verified")
    played.go()
    first = next(fact.checks[0] for fact in played.facts if isinstance(fact, f.ChecksCompleted))
    assert (first.status, first.counts, first.why) == ("failed", "1 failed", "")


# --- what cannot be sealed --------------------------------------------------------------------------------------------


def test_a_test_file_that_is_too_large_to_be_kept_is_not_put_back(played: Played) -> None:
    data = ("run_command", {"command": "head -c 5000000 /dev/zero > test_data.bin"})
    played.begin(TESTS, calls=[HONEST, data], review="unless_verified")
    assert played.go() == "gate:final_review"
    check = checked(played)
    assert (check.status, check.evidence) == ("passed", "claimed")
    why = "test_data.bin was changed, and is too large to be kept as it was"
    assert check.why == f"It ran in the folder that the run could change: {why}."


@pytest.mark.parametrize("in_place", [False, True], ids=["copy", "in place"])
def test_packages_come_from_where_no_agent_writes(
    played: Played, folder: Path, in_place: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that changes the runner that is installed changes nothing of the check, or is asked about."""
    without_remarks(monkeypatch)
    runner = folder / "node_modules" / "runner"
    runner.mkdir(parents=True)
    (runner / "run.py").write_text("import unittest; unittest.main('test_sums')\n")
    if in_place:
        work_in_place(played, folder)
    cheat = writes("node_modules/runner/run.py", "pass")
    played.begin("PYTHONPATH=. python3 node_modules/runner/run.py", calls=[cheat], review="unless_verified")
    played.go()
    if in_place:
        assert checked(played).evidence == "claimed", checked(played).detail
        assert "only the run's own folder has node_modules" in checked(played).why
    else:
        assert checked(played).status == "failed"


def test_packages_that_are_linked_with_each_other_are_there(played: Played, folder: Path) -> None:
    """As the workspaces of npm: a package of the repository, by a link beside those that were installed."""
    (folder / "packages" / "runner").mkdir(parents=True)
    (folder / "packages" / "runner" / "run.py").write_text("import unittest; unittest.main('test_sums')\n")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "runner").symlink_to("../packages/runner")
    played.begin("PYTHONPATH=. python3 node_modules/runner/run.py", calls=[HONEST], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("ended", "proved")


@pytest.mark.parametrize("in_place", [False, True], ids=["copy", "in place"])
def test_an_environment_is_there_whole(played: Played, folder: Path, in_place: bool) -> None:
    """What was compiled in it saves time, and some packages of Python bring packages of Node's."""
    if in_place:
        work_in_place(played, folder)
    inside = [folder / ".venv" / "lib" / name / "kept" for name in ("__pycache__", "node_modules")]
    for place in inside:
        place.parent.mkdir(parents=True)
        place.touch()
    there = " && ".join(f"test -f {place.relative_to(folder)}" for place in inside)
    played.begin(f"{there} && {TESTS}", calls=[HONEST], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("ended", "proved")


@pytest.mark.parametrize("name", ["packages/a/node_modules", "packages/a/.venv"])
def test_packages_deeper_in_a_folder_that_is_worked_in_place_are_nobody_s(
    played: Played, folder: Path, name: str
) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "run.py").write_text("import unittest; unittest.main('test_sums')\n")
    work_in_place(played, folder)
    played.begin(f"PYTHONPATH=. python3 {name}/run.py", calls=[HONEST], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("gate:final_review", "claimed")
    assert f"only the run's own folder has {name}" in checked(played).why


def test_packages_are_there_in_a_checkout(played: Played, folder: Path) -> None:
    runner = folder / "node_modules" / "runner"
    runner.mkdir(parents=True)
    (runner / "run.py").write_text("import unittest; unittest.main('test_sums')\n")
    played.begin("PYTHONPATH=. python3 node_modules/runner/run.py", calls=[HONEST], review="unless_verified")
    assert (played.go(), checked(played).evidence) == ("ended", "proved")


@pytest.mark.spec("J4")
def test_a_lost_worker_s_checkout_is_taken_away(played: Played) -> None:
    from loops.workspaces import strays

    played.begin(TESTS, calls=[HONEST])
    lost = copies.made_root() / f"checkout-{played.run.pk}-{os.urandom(4).hex()}"
    (lost / "sub").mkdir(parents=True)
    records = Path(command_records())
    records.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(os.fsencode(os.path.realpath(lost))).hexdigest()
    (records / f"{name}.json").touch()
    (records / f"{name}.tmp").touch()  # of a worker that was killed while it wrote
    assert strays.clear() >= 1
    assert not lost.exists()
    assert [*records.glob(f"{name}*")] == []
    assert played.go() == "ended"
    assert not Gate.objects.filter(run=played.run).exists()

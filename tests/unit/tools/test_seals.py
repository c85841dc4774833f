"""What was there at the start of a run, laid over a copy of what the run made of it (SPEC L2)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from loops.tools import seals
from loops.tools.seals import NotSealed, Original, Seal, lay_work
from tests.unit.tools.test_rollback_tools import UndoDesk

pytestmark = pytest.mark.spec("L2")
TEST = Original(b"the test", 0o640)


def a_link_for_its_folder(folder: Path) -> None:
    (folder / "src").mkdir()
    (folder / "src/test_a.py").write_text("of the run")
    (folder / "tests").symlink_to("src")


def a_file_for_its_folder(folder: Path) -> None:
    (folder / "tests").write_text("of the run")


def a_folder_in_its_place(folder: Path) -> None:
    (folder / "tests/test_a.py/inner").mkdir(parents=True)


def a_link_in_its_place(folder: Path) -> None:
    (folder / "tests").mkdir()
    (folder / "away").write_text("of the run")
    (folder / "tests/test_a.py").symlink_to("../away")


def nothing(folder: Path) -> None: ...


@pytest.mark.parametrize(
    "make", [a_link_for_its_folder, a_file_for_its_folder, a_folder_in_its_place, a_link_in_its_place, nothing]
)
def test_an_original_stands_where_it_stood(tmp_path: Path, make: Callable[[Path], None]) -> None:
    make(tmp_path)
    before = {path: path.read_bytes() for path in (tmp_path / "src/test_a.py", tmp_path / "away") if path.exists()}
    Seal({"tests/test_a.py": TEST}).lay(tmp_path)
    place = tmp_path / "tests/test_a.py"
    assert not place.is_symlink()
    assert not place.parent.is_symlink()
    assert (place.read_bytes(), place.stat().st_mode & 0o777) == (TEST.data, 0o640)
    assert {path: path.read_bytes() for path in before} == before, "nothing is written through a link"


def test_what_is_new_goes_and_a_link_comes_back(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("of the run")
    Seal({"conftest.py": None, "gone/too.py": None, "tests": Original(link="checks")}).lay(tmp_path)
    assert not (tmp_path / "conftest.py").exists()
    assert (tmp_path / "tests").readlink() == Path("checks")


# --- which files judge, of a folder that a run changed ----------------------------------------------------------------

BEGAN = {"lib.py": "a = 1\n", "test_lib.py": "of the start", "kept_test.py": "import lib\n", "check.sh": "true\n",
         "pytest.ini": "[pytest]\n", "tests/data.json": "{}", "jest.setup.js": "a", "recorded.snap": "a",
         "vite.config.js": "a", "lines.js": "exports.onTestResult = print"}  # fmt: skip


@pytest.fixture
def desk(tmp_path: Path) -> UndoDesk:
    desk = UndoDesk(tmp_path)
    (desk.workspace / "tests").mkdir()
    for path, text in BEGAN.items():
        (desk.workspace / path).write_text(text)
    (desk.workspace / "test_link.py").symlink_to("kept_test.py")
    desk.context = replace(desk.context, is_criterion=True, criteria=("sh check.sh",))
    return desk


def sealed(desk: UndoDesk, *, deletes: str = "", **writes: str) -> Seal:
    """After a run that wrote these files, by their path without ``.py`` where it is a name."""
    start = desk.service.snapshot(desk.context)
    for path, text in writes.items():
        (desk.workspace / (path if "." in path else f"{path}.py")).write_text(text)
    if deletes:
        (desk.workspace / deletes).unlink()
    return desk.service.seal(desk.context, start, frozenset())


def test_what_judged_at_the_start_is_kept_and_the_work_is_not(desk: UndoDesk) -> None:
    settings = {"pytest.ini": "[pytest]\naddopts = -k nothing\n", "check.sh": "exit 0\n", "tests/data.json": "[]"}
    settings |= {"jest.setup.js": "b", "recorded.snap": "b", "vite.config.js": "b", "lines.js": "b"}
    seal = sealed(desk, lib="a = 2\n", test_lib="of the run", **settings)
    files = {path: original.data.decode() for path, original in seal.originals.items() if original is not None}
    assert files == {path: BEGAN[path] for path in ("test_lib.py", *settings)}
    assert [one.path for one in seal.work] == ["lib.py"]


def test_what_is_new_and_judges_was_not_there(desk: UndoDesk) -> None:
    seal = sealed(desk, test_more="new", conftest="def pytest_runtest_call(): ...", more="a = 3\n",
                  **{"more.pyc": "", "more.snap": ""})  # fmt: skip
    assert dict(seal.originals) == dict.fromkeys(("test_more.py", "conftest.py", "more.pyc", "more.snap"))
    assert [one.path for one in seal.work] == ["more.py"]


def test_a_file_that_a_command_only_names_is_work(desk: UndoDesk) -> None:
    desk.context = replace(desk.context, criteria=("python3 lib.py",))
    assert not sealed(desk, lib="a = 2\n").originals


SCRIPTS = {
    "package.json": '{"scripts": {"test": "npm run unit && node a.js", "unit": "sh ./ci.sh", "lint": "sh lint.sh"}}',
    "Makefile": "all: lint\n\ttrue\ntest: unit\n\tsh ci.sh\nunit:\n\tsh unit.sh\nlint:\n\tsh lint.sh\n",
}


@pytest.mark.parametrize(
    ("command", "judges"),
    [
        ("npm test", ["ci.sh"]),
        ("npm t", ["ci.sh"]),
        ("yarn unit", ["ci.sh"]),
        ("make test", ["ci.sh", "unit.sh"]),
        ("make lint", ["lint.sh"]),
        ("make", []),
        ("pytest test", []),
        ("npm run build", []),
    ],
)
def test_what_a_script_or_a_target_runs_judges_too(desk: UndoDesk, command: str, judges: list[str]) -> None:
    """Also where the run has changed what the script is: it is as it was when the run began."""
    desk.context = replace(desk.context, criteria=(command,))
    for path, text in {**SCRIPTS, "ci.sh": "exit 1\n", "unit.sh": "exit 1\n", "lint.sh": "exit 1\n"}.items():
        (desk.workspace / path).write_text(text)
    seal = sealed(desk, **{f"{name}.sh": "exit 0\n" for name in ("ci", "unit", "lint")}, lib="a = 2\n")
    assert sorted(seal.originals) == judges
    assert "lib.py" in [one.path for one in seal.work]
    seal = sealed(desk, **{"ci.sh": "exit 2\n", "package.json": '{"scripts": {"test": "sh other.sh"}}'})
    assert ("ci.sh" in seal.originals) == ("ci.sh" in judges)


def test_a_reviewer_hears_of_what_a_script_runs(desk: UndoDesk) -> None:
    desk.context = replace(desk.context, criteria=("npm test",))
    (desk.workspace / "package.json").write_text(SCRIPTS["package.json"])
    states = tuple(f"file:644:{desk.save(text)}" for text in (b"exit 1\n", b"exit 0\n"))
    (found,) = asyncio.run(desk.service.remarks(desk.context, {"ci.sh": (states[0], states[1])}, ""))
    assert (found.path, found.code, found.level) == ("ci.sh", "criterion_edited", "suspicious")


def test_scripts_that_cannot_be_read_start_nothing(desk: UndoDesk) -> None:
    desk.context = replace(desk.context, criteria=("npm test && make test",))
    for text in ("{", "[1]", '{"scripts": 1}', '{"scripts": {"test": 1}}', "[" * 100_000):
        (desk.workspace / "package.json").write_text(text)
        (desk.workspace / "Makefile").write_bytes(b"\xff\x00test:")
        assert not sealed(desk, lib=f"a = {len(text)}\n").originals


def test_a_deleted_test_and_a_link_are_kept(desk: UndoDesk) -> None:
    (desk.workspace / "test_lib.py").chmod(0o750)
    start = desk.service.snapshot(desk.context)
    for name in ("test_lib.py", "test_link.py"):
        (desk.workspace / name).unlink()
    seal = desk.service.seal(desk.context, start, frozenset())
    assert seal.originals == {
        "test_lib.py": Original(b"of the start", 0o750), "test_link.py": Original(link="kept_test.py")
    }  # fmt: skip


def test_tests_that_nobody_changed_are_read_to_know_what_they_ask_for(desk: UndoDesk) -> None:
    seal = sealed(desk, test_lib="of the run")
    assert seal.tests == {
        "test_lib.py": b"of the start", "kept_test.py": b"import lib\n", "jest.setup.js": b"a"
    }  # fmt: skip


def test_a_test_that_is_too_large_to_be_kept_keeps_a_seal_from_being(desk: UndoDesk) -> None:
    with pytest.raises(NotSealed, match=r"^test_data\.bin was changed, and is too large to be kept as it was$"):
        sealed(desk, **{"test_data.bin": "0" * 5_000_000})


def test_so_much_is_read_and_no_more(desk: UndoDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seals, "READ_BYTES", 2 << 20)
    assert sealed(desk, more="x" * (1 << 20)).work
    with pytest.raises(NotSealed, match=r"^the run changed more than 2 MB of files$"):
        sealed(desk, more="y" * (1 << 20), other="x" * (1 << 20))


@pytest.mark.parametrize(("start", "why"), [("", "is not kept"), ("0" * 64, "is not kept any more")])
def test_without_what_was_there_at_the_start_there_is_no_seal(desk: UndoDesk, start: str, why: str) -> None:
    with pytest.raises(NotSealed, match=f"^how the workspace was when the run began {why}$"):
        desk.service.seal(desk.context, start, frozenset())


# --- what a reviewer hears of files that nobody can look into ---------------------------------------------------------


def heard(desk: UndoDesk, states: tuple[str, str]) -> list[tuple[str, str, str]]:
    """Of remarks on a changed ``lib.py``."""
    found = asyncio.run(desk.service.remarks(desk.context, {"lib.py": states}, ""))
    return [(one.path, one.text, one.level) for one in found]


def test_a_file_whose_bytes_were_not_kept_is_named(desk: UndoDesk) -> None:
    for states in (("", f"file:644:{'0' * 64}"), ("large:9:9", "")):
        (found,) = heard(desk, states)
        assert found == ("lib.py", "Not looked at: its contents were not kept, or are too large.", "to know")


def test_where_looking_itself_fails_it_is_said(desk: UndoDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("loops.tools.suspicion.review.remarks", broken)
    kept = desk.save(b"a = 1\n")
    (found,) = heard(desk, ("", f"file:644:{kept}"))
    assert found == ("", "The changes could not be looked at: ZeroDivisionError.", "suspicious")


def test_work_that_is_laid_over_it_may_still_be_run(tmp_path: Path) -> None:
    (tmp_path / "run.py").write_text("1")
    (tmp_path / "run.py").chmod(0o755)
    lay_work(tmp_path, {"run.py": b"2", "new.py": b"3"})
    assert [(tmp_path / name).read_text() for name in ("run.py", "new.py")] == ["2", "3"]
    assert (tmp_path / "run.py").stat().st_mode & 0o777 == 0o755


@pytest.mark.spec("X4")
def test_the_start_has_neither_the_work_nor_what_judges(tmp_path: Path) -> None:
    """A file of the start stands where a folder is now, and the other way round."""
    for path in ("was_file/new.py", "conftest.py", "new.py", "same.py"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text("of the run")
    (tmp_path / "was_folder").write_text("of the run")
    work = {"was_file/new.py": None, "was_file": TEST, "was_folder": None, "was_folder/a.py": TEST, "new.py": None}
    Seal({"conftest.py": None}, before={**work, "link": Original(link="same.py")}).lay_start(tmp_path)
    there = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if not path.is_dir()}
    assert there == {"was_file", "was_folder/a.py", "same.py", "link"}
    assert (tmp_path / "was_file").read_bytes() == TEST.data
    assert (tmp_path / "link").is_symlink()


def test_what_was_too_large_to_be_kept_has_no_start(tmp_path: Path) -> None:
    with pytest.raises(NotSealed, match="too large to be kept as it was"):
        Seal(before=None).lay_start(tmp_path)

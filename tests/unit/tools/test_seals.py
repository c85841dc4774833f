"""What was there at the start of a run, laid over a copy of what the run made of it (SPEC L2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loops.tools.seals import NotSealed, Original, Seal, lay_work

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

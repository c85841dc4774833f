"""What was there at the start of a run, laid over a copy of what the run made of it (SPEC L2)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from loops.tools.seals import Original, Seal, lay_work

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

"""Files of a backup are unpacked into their folder and nowhere else, by every Python that we run on."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

from agentops.embedded.paths import Paths
from agentops.ops import OpsError, archive
from agentops.ops.restore import _unpack

pytestmark = pytest.mark.spec("J4")


@pytest.fixture
def state(tmp_path: Path, settings: Any) -> Path:
    settings.PATHS = Paths(tmp_path / "state")
    (tmp_path / "outside").write_text("as it was")
    return tmp_path / "state"


def stored(folder: Path, *entries: tarfile.TarInfo) -> ZipFile:
    """A backup with these entries; files say what their name is."""
    with (
        ZipFile(folder / "b.zip", "w") as file,
        file.open(archive.STATE, "w") as member,
        tarfile.open(fileobj=member, mode="w|gz") as tar,
    ):
        for entry in entries:
            text = entry.name.encode() if entry.isreg() else b""
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text))
    return ZipFile(folder / "b.zip")


def entry(name: str, kind: bytes = tarfile.REGTYPE, to: str = "", mode: int = 0o640) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname, made.mode = kind, to, mode
    return made


def test_files_folders_and_links_are_as_they_were(state: Path, tmp_path: Path) -> None:
    folder, link = entry("state/f", tarfile.DIRTYPE, mode=0o555), entry("state/f/link", tarfile.SYMTYPE, "/usr/bin/env")
    draft = _unpack(stored(tmp_path, folder, entry("state/f/file"), entry("state/f/run", mode=0o750), link))
    assert (draft / "state/f/file").read_text() == "state/f/file"
    modes = {path.name: path.lstat().st_mode & 0o777 for path in (draft / "state/f", *(draft / "state/f").iterdir())}
    assert modes == {"f": 0o555, "file": 0o640, "run": 0o750, "link": 0o777}
    assert (draft / "state/f/link").readlink() == Path("/usr/bin/env")


@pytest.mark.parametrize(
    "ways",
    [
        [entry("../outside")],
        [entry("../../outside")],
        [entry("state/f", tarfile.SYMTYPE, "../.."), entry("state/f/../outside")],
        [entry("state/up", tarfile.SYMTYPE, "../../.."), entry("state/up/outside")],
        [entry("state/hard", tarfile.LNKTYPE, "../../outside"), entry("state/hard")],
    ],
)
def test_no_way_leads_out(state: Path, tmp_path: Path, ways: list[tarfile.TarInfo]) -> None:
    with pytest.raises(OpsError, match="would lie outside"):
        _unpack(stored(tmp_path, *ways))
    assert (tmp_path / "outside").read_text() == "as it was"
    assert not list(state.iterdir())


def test_an_absolute_name_is_refused(state: Path, tmp_path: Path) -> None:
    with pytest.raises(OpsError, match="would lie outside"):
        _unpack(stored(tmp_path, entry(str(tmp_path / "outside"))))
    assert (tmp_path / "outside").read_text() == "as it was"

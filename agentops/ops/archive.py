"""One file that holds a whole installation: the database, what lies on disk, and a manifest that vouches for both.

A zip without compression of its own, written in one pass: ``database.sql.gz``, ``state.tar.gz``, ``manifest.json``.
"""

import hashlib
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any

from agentops.embedded.root import service_user
from agentops.ops import OpsError

FORMAT = 1
DATABASE, STATE, MANIFEST = "database.sql.gz", "state.tar.gz", "manifest.json"
CHUNK = 1 << 20


@dataclass(frozen=True)
class Manifest:
    """What an archive holds. ``runs``: id -> [number of facts, hash of the last one (hex)] as of the snapshot."""

    made_at: str
    version: str
    postgres: str
    migrations: list[str]
    state_folder: str
    workspaces_folder: str
    runs: dict[str, tuple[int, str]]
    rows: dict[str, int]
    format: int = FORMAT
    files: int = 0
    anchor: str = ""
    """The last anchor before the snapshot, signed (``agentops.evidence.anchors``); empty when there was none."""
    members: dict[str, dict[str, Any]] = field(default_factory=dict)


class Hashed:
    """Passes bytes on and keeps their number and SHA-256. Write only, never seeks."""

    def __init__(self, target: IO[bytes]) -> None:
        self._target, self._hash, self.size = target, hashlib.sha256(), 0

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        self.size += len(data)
        self._target.write(data)
        return len(data)

    @property
    def told(self) -> dict[str, Any]:
        """As the manifest says it."""
        return {"size": self.size, "sha256": self._hash.hexdigest()}


class Writer:
    """Writes the members one after the other, the manifest last."""

    def __init__(self, file: zipfile.ZipFile) -> None:
        self._file = file
        self.members: dict[str, dict[str, Any]] = {}

    @contextmanager
    def member(self, name: str) -> Iterator[Hashed]:
        """Everything written inside belongs to this member."""
        with self._file.open(name, "w", force_zip64=True) as target:
            hashed = Hashed(target)
            yield hashed
        self.members[name] = hashed.told

    def finish(self, manifest: Manifest) -> None:
        """Say what was written."""
        whole = asdict(manifest) | {"members": self.members}
        self._file.writestr(MANIFEST, json.dumps(whole, indent=1))


@contextmanager
def opened(path: Path) -> Iterator[tuple[zipfile.ZipFile, Manifest]]:
    """An archive that is whole, and its manifest. Raises OpsError for what is none, or a piece of one."""
    try:
        with service_user.as_caller():
            file = zipfile.ZipFile(path)
    except FileNotFoundError:
        raise OpsError(f"there is no file {path}") from None
    except Exception as error:  # whatever a damaged file makes of its reader
        raise _damaged(path, error) from error
    with file:
        try:
            manifest = manifest_of(file)
            check(file, manifest)
        except OpsError:
            raise
        except Exception as error:
            raise _damaged(path, error) from error
        yield file, manifest


def _damaged(path: Path, error: Exception) -> OpsError:
    return OpsError(f"{path} is damaged or no backup of AgentOps ({error}): use another one")


def manifest_of(file: zipfile.ZipFile) -> Manifest:
    """The manifest. Raises OpsError when it is missing, unreadable or of another format."""
    try:
        plain = json.loads(file.read(MANIFEST))
        if plain["format"] != FORMAT:
            raise OpsError(f"this backup has format {plain['format']}, this version reads {FORMAT}: upgrade AgentOps")
        return Manifest(**plain)
    except (KeyError, TypeError, ValueError) as error:
        raise OpsError(f"the backup has no usable manifest ({error}): use another one") from error


def check(file: zipfile.ZipFile, manifest: Manifest) -> None:
    """Compare every byte with the manifest. Raises OpsError at the first difference."""
    names = sorted(file.namelist())
    if names != sorted([*manifest.members, MANIFEST]) or set(manifest.members) != {DATABASE, STATE}:
        raise OpsError(f"the backup does not hold what its manifest says (found {', '.join(names)}): use another one")
    for name, told in manifest.members.items():
        hashed = Hashed(_Nowhere())  # type: ignore[arg-type]
        with file.open(name) as member:
            while chunk := member.read(CHUNK):
                hashed.write(chunk)
        if hashed.told != told:
            raise OpsError(f"{name} in the backup is not what was written (its SHA-256 differs): use another backup")


class _Nowhere:
    def write(self, data: bytes) -> int:
        return len(data)

"""The packages that walks install, downloaded once: pip and uv find them in caches that all users share."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from agentops.embedded.paths import BASE_DIR
from tests.walk import WalkError

TRIES = 3
LONGEST_S = 600


class Packages:
    """Caches for the walks of one call. ``environ`` makes pip and uv use them, and ask again where a server is busy."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environ = {
            "PIP_CACHE_DIR": str(folder / "pip"),
            "PIP_RETRIES": "10",
            "UV_CACHE_DIR": str(folder / "uv"),
            "UV_HTTP_RETRIES": "10",
        }

    def fetch(self, environ: Mapping[str, str]) -> None:
        """Download what a fresh installation wants, as often as it takes. Raises WalkError."""
        made = self.folder / "made"
        python, uv = str(made / "bin/python"), str(made / "bin/uv")
        locks = [str(BASE_DIR / name) for name in ("requirements-uv.lock", "requirements.lock")]
        steps = (
            ["python3", "-m", "venv", "--clear", str(made)],
            [python, "-m", "pip", "-qq", "--disable-pip-version-check", "install", "--require-hashes", "-r", locks[0]],
            [uv, "pip", "sync", "--quiet", "--python", python, "--require-hashes", locks[1]],
        )
        for step in steps:
            _done(step, {**environ, **self.environ})
        shutil.rmtree(made)

    def share(self) -> None:
        """Let whoever walks next read and write what is there."""
        for path in (self.folder, *self.folder.rglob("*")):
            if not path.is_symlink():
                path.chmod(path.stat().st_mode | (0o777 if path.is_dir() else 0o666))


@contextlib.contextmanager
def fetched(environ: Mapping[str, str]) -> Iterator[Packages]:
    """Caches that hold everything, as long as this lasts."""
    folder = Path(tempfile.mkdtemp(prefix="aowalk-packages-", dir="/tmp"))
    try:
        packages = Packages(folder)
        packages.fetch(environ)
        yield packages
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _done(step: list[str], environ: Mapping[str, str]) -> None:
    for left in reversed(range(TRIES)):
        done = subprocess.run(
            step, env=environ, cwd="/", check=False, capture_output=True, text=True, timeout=LONGEST_S
        )
        if done.returncode == 0:
            return
        said = (done.stderr or done.stdout).strip()[-500:]
        print(f"{' '.join(step[:4])} ended with {done.returncode}, {left} tries left: {said}", file=sys.stderr)
    raise WalkError("the packages could not be downloaded")

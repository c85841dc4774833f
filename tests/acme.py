"""Packages of somebody else's: the example of the guide as it is really installed, and small broken ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "agentops/docs/examples/acme-agentops"


def install(target: Path) -> Path:
    """Build the example's wheel and install it into ``target``, without a network."""
    uv = Path(sys.executable).with_name("uv")
    command = [uv, "pip", "install", "--quiet", "--offline", "--no-cache", "--target", target, EXAMPLE]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return target


def write(folder: Path, group: str, name: str, code: str, *, entry: str = "", **files: str) -> Path:
    """A distribution ``acme-<name>`` 1.0 of one module and its prompts, laid out as an installed one is."""
    module = f"acme_{name}"
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: acme-{name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[agentops.{group}]\n{entry or name} = {module}:found\n")
    (folder / module).mkdir()
    (folder / module / "__init__.py").write_text(code)
    for file, content in files.items():
        (folder / module / f"{file}.md").write_text(content)
    return folder

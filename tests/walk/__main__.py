"""``make walk``: the README's first five minutes on a fresh runtime installation, with bubblewrap and without it."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

from agentops.embedded.paths import BASE_DIR
from tests import leftovers
from tests.walk import WalkError
from tests.walk.installation import Fresh, Package, bare_environment
from tests.walk.newcomer import Figures, Newcomer
from tests.walk.packages import Packages, fetched

SANDBOX = {"clone": "bubblewrap", "hidden": "landlock", "wheel": "bubblewrap"}
"""``make run`` in a clone; the same as an ordinary user where no bubblewrap is; and the wheel, as an ordinary user."""
DEVELOPERS_ONLY = {"pytest", "playwright", "hypothesis", "ruff", "mypy"}
MOST_LINES = 5
"""That a first ``make run`` prints from its start to Ctrl-C."""
UNWANTED = re.compile(r"warning|traceback|deprecat|error", re.IGNORECASE)
OF_PIP_AND_UV = re.compile(r"(?:WARNING|warning): ")
"""How they begin what they warn of, a server that they ask again above all: AgentOps begins no line so."""
TARGET_MS = 500
"""What is committed is on the screen after at most this, 19 times of 20."""


def main(argv: list[str]) -> int:
    asked = _arguments(argv)
    leftovers.end_on_sigterm()
    began = time.monotonic()
    with fetched(bare_environment()) as packages:
        print(f"packages fetched in {time.monotonic() - began:.1f} s", flush=True)
        for number in range(1, asked.times + 1):
            for kind in asked.kinds:
                print(f"--- {kind}, {number} of {asked.times}", flush=True)
                if not _walked(kind, asked, packages):
                    return 1
    print(f"{asked.times * len(asked.kinds)} of {asked.times * len(asked.kinds)} walks went well")
    return 0


def _walked(kind: str, asked: argparse.Namespace, packages: Packages) -> bool:
    shutil.rmtree(asked.into, ignore_errors=True)
    began = time.monotonic()
    installation = _installation(kind, asked.user, packages)
    try:
        installation.start()
        ready = time.monotonic() - began
        _check_what_was_printed(installation)
        if found := DEVELOPERS_ONLY & installation.packages():
            raise WalkError(f"developers' packages are installed: {found}")
        if kind != "wheel" and (found := installation.uncompiled()):
            raise WalkError(f"{len(found)} modules are compiled at every start: {found[:3]}")
        _check_nothing_is_roots(installation)
        figures = Newcomer(installation, SANDBOX[kind], asked.into).go()
        chain = installation.manage("verify_chain")
        listed = installation.manage("runs")
        if figures.run_id not in listed:
            raise WalkError(f"the command line does not list the run: {listed}")
        _take_over(installation, figures.run_id)
        installation.manage("backup")
        _check_nothing_is_roots(installation)
        installation.stop()
        _check_what_was_printed(installation)
    except Exception as error:
        _tell(error, installation, asked.into)
        return False
    finally:
        _leave(installation)
    print(_line(figures, ready, time.monotonic() - began, chain), flush=True)
    if asked.strict and figures.percentile(0.95) > TARGET_MS:
        print(f"p95 is above {TARGET_MS} ms", file=sys.stderr)
        return False
    return True


def _take_over(installation: Fresh, run_id: str) -> None:
    """As the README says of one's own repository: it becomes a workspace, and what the run repaired a commit there."""
    with tempfile.TemporaryDirectory() as folder:
        mine = Path(folder) / "mine"
        shutil.copytree(BASE_DIR / "loops/demo/repository", mine, ignore=shutil.ignore_patterns("__pycache__"))
        said = installation.manage("workspace", "mine", str(mine), "--allow")
        if said != f"mine: {mine}, runs work on copies of it":
            raise WalkError(f"the folder is no workspace: {said}")
        me = ["git", "-C", str(mine), "-c", "user.name=me", "-c", "user.email=me@localhost"]
        for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "mine"]):
            subprocess.run([*me, *words], check=True)
        tests = [sys.executable, "-B", "-m", "unittest", "-q"]
        if subprocess.run(tests, cwd=mine, check=False, capture_output=True).returncode == 0:
            raise WalkError("there is nothing to repair")
        patch = installation.manage("patch", run_id) + "\n"
        applied = subprocess.run([*me, "am", "-q"], input=patch, text=True, check=False, capture_output=True)
        if applied.returncode:
            raise WalkError(f"the patch is none: {applied.stderr}")
        after = subprocess.run(tests, cwd=mine, check=False, capture_output=True, text=True)
        if after.returncode:
            raise WalkError(f"the repair was left behind: {after.stderr}")
    said = installation.manage("apply", run_id, "--yes")
    if "Applied to " not in said:
        raise WalkError(f"the result is not in the folder of the demo: {said}")


def _installation(kind: str, user: str, packages: Packages) -> Fresh:
    is_root = os.getuid() == 0
    if kind == "hidden" and not is_root:
        raise SystemExit("hiding bubblewrap takes root; without it: make walk ARGS='clone wheel'")
    made = Package if kind == "wheel" else Fresh
    return made(packages, user=user if is_root and kind != "clone" else "", hidden=kind == "hidden")


def _check_what_was_printed(installation: Fresh) -> None:
    """A few lines, nothing that nobody can act on, and the link as the last."""
    lines = [line for line in installation.printed if line.strip() and not OF_PIP_AND_UV.match(line)]
    if len(lines) > MOST_LINES or any(UNWANTED.search(line) for line in lines) or "/login/once/" not in lines[-1]:
        raise WalkError("more was printed than a newcomer wants to read:\n" + "\n".join(lines))


def _check_nothing_is_roots(installation: Fresh) -> None:
    """Whoever started it: no process but the `make` that was typed, and no file of the state folder."""
    if of_root := [name for name, user in installation.processes() if user == 0 and name != "make"]:
        raise WalkError(f"as root run {of_root}")
    if of_root := [str(path) for path, user in installation.files() if user == 0]:
        raise WalkError(f"to root belong {of_root[:5]}")


def _tell(error: Exception, installation: Fresh, into: Path) -> None:
    into.mkdir(parents=True, exist_ok=True)
    (into / "printed.log").write_text("\n".join(installation.printed))
    for log in installation.state.glob("log/*.log"):
        shutil.copy(log, into)
    what = str(error) if isinstance(error, WalkError) else "".join(traceback.format_exception(error))
    print(f"{what}\n{installation.last_words()}\npictures and logs: {into.absolute()}", file=sys.stderr)


def _leave(installation: Fresh) -> None:
    try:
        installation.stop()
    except WalkError as error:
        print(error, file=sys.stderr)
    installation.remove()


def _line(figures: Figures, ready: float, total: float, chain: str) -> str:
    p50, p95 = figures.percentile(0.5), figures.percentile(0.95)
    return (
        f"installed and ready after {ready:.1f} s; {len(figures.delays)} changes visible after p50 {p50:.0f} ms, "
        f"p95 {p95:.0f} ms (target {TARGET_MS}); {figures.gates} gates; tests {' -> '.join(figures.tests)}; "
        f"run {figures.run_s:.1f} s, COMMIT; {chain} In all {total:.1f} s."
    )


def _arguments(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.walk", description=__doc__)
    parser.add_argument(
        "kinds", nargs="*", default=["clone", "hidden"], choices=[*SANDBOX], help="default: clone hidden"
    )
    parser.add_argument("--times", type=int, default=1, help="how often each")
    parser.add_argument("--user", default="nobody", help="who the ordinary user is, when root walks")
    parser.add_argument("--into", type=Path, default=Path("test-results/walk"), help="pictures and logs of a failure")
    parser.add_argument("--strict", action="store_true", help=f"fail when the p95 is above {TARGET_MS} ms")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

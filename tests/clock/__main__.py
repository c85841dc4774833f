"""``make clock``: the tests without a browser at other times. ``python -m tests.clock leap -- tests/unit`` for some.

By hand and before a release: a date that is written down, a month of thirty days and a zone that is forgotten are found
before their day comes. What a clock does to the machine: the file times and the clocks of all processes move, those of
commands in bubblewrap do not.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests import leftovers
from tests.clock.offset import VARIABLE, Offset
from tests.suite import DEALT, seed

HERE = Path(__file__).parent
LEAP_DAY = (2, 29, 12)


def _leap_day(now: datetime) -> datetime:
    """Noon of the next one."""
    month, day, hour = LEAP_DAY
    year = next(year for year in range(now.year + 1, now.year + 9) if year % 4 == 0 and (year % 100 or year % 400 == 0))
    return now.replace(year=year, month=month, day=day, hour=hour, minute=0, second=0)


@dataclass(frozen=True)
class Clock:
    """Where the run begins, what its environment has besides, and what pytest is told."""

    name: str
    begins: Callable[[datetime], datetime] = lambda now: now
    environ: dict[str, str] = field(default_factory=dict)
    told: tuple[str, ...] = DEALT


CLOCKS = (
    Clock("+40 days, in Kiritimati", lambda now: now + timedelta(days=40), {"TZ": "Pacific/Kiritimati"}),  # UTC+14
    Clock("+400 days, in St Johns", lambda now: now + timedelta(days=400), {"TZ": "America/St_Johns"}),  # UTC-3:30
    Clock("leap day", _leap_day),
    Clock("midnight", told=("-p", "tests.clock.midnight")),  # one clock for all: one process of tests
)


def main(argv: Sequence[str]) -> int:
    """0 when every clock has passed tests and no failed ones."""
    asked = _arguments(argv)
    chosen = [clock for clock in CLOCKS if not asked.clocks or set(asked.clocks) & set(clock.name.split())]
    leftovers.end_on_sigterm()
    print(f"what chance begins with: SEED={seed()}", flush=True)
    ended = [_run(clock, asked.pytest) for clock in chosen]
    return 0 if ended and all(ended) else 1


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    own = [*argv, "--"][: [*argv, "--"].index("--")]
    parser = argparse.ArgumentParser(prog="make clock", description="The tests without a browser at other times.")
    parser.add_argument("clocks", nargs="*", metavar="WORD", help=", ".join(clock.name for clock in CLOCKS))
    asked = parser.parse_args(own)
    asked.pytest = argv[len(own) + 1 :]
    return asked


def _run(clock: Clock, more: Sequence[str]) -> bool:
    log = Path("build") / f"clock {clock.name}.log"
    log.parent.mkdir(exist_ok=True)
    with leftovers.state_folder("ao-clock-") as folder:
        now = datetime.now(UTC)
        offset = Offset(folder / "offset")
        offset.begin(int((clock.begins(now) - now).total_seconds() * 10**9))
        environ = {"LD_PRELOAD": str(_compiled(folder)), VARIABLE: str(offset.file), **clock.environ}
        argv = [sys.executable, "-m", "pytest", "-q", "--without-browsers", f"--randomly-seed={seed()}", *clock.told]
        argv.append(f"--basetemp={folder / 't'}")  # in another year it takes the folders of other suites for left over
        tests = [*(more or ["tests"]), str(HERE / "moved.py")]
        with log.open("wb") as out:
            code = subprocess.run(
                [*argv, *tests], env=os.environ | environ, stdout=out, stderr=out, check=False
            ).returncode
    return _tell(clock, log, code)


def _compiled(folder: Path) -> Path:
    """Where processes of every user find it."""
    compiler = shutil.which("cc")
    assert compiler, "there is no C compiler (apt-get install gcc libc6-dev)"
    library = folder / "shift.so"
    names = [f'-DSELF="{library}"', f'-DOFFSET_FILE="{folder / "offset"}"']
    warnings = ["-Wall", "-Wextra", "-Werror", "-Wno-nonnull-compare"]
    argv = [
        compiler,
        "-shared",
        "-fPIC",
        "-O2",
        *warnings,
        *names,
        "-o",
        library,
        HERE / "shift.c",
        "-ldl",
        "-lpthread",
    ]
    subprocess.run(argv, check=True)
    library.chmod(0o755)
    return library


def _tell(clock: Clock, log: Path, code: int) -> bool:
    lines = log.read_text(errors="replace").splitlines()
    last = lines[-1] if lines else ""
    found = {word: int(number) for number, word in re.findall(r"(\d+) (passed|failed|errors?|skipped)", last)}
    failed = found.get("failed", 0) + found.get("error", 0) + found.get("errors", 0)
    skipped = f", {found['skipped']:,} skipped" if "skipped" in found else ""
    print(f"{clock.name}: {found.get('passed', 0):,} passed, {failed:,} failed{skipped}", flush=True)
    if code:
        names = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
        print("\n".join([*names, f"pytest ended with {code}: {last}", f"all of it: {log}"]), flush=True)
    return code == 0 and found.get("passed", 0) > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

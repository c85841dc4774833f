"""The one command that installs bubblewrap on this distribution (SPEC X1), told wherever it is missing.

``python installation.py`` is what `make run` begins with, before there is any environment: the standard library alone.
As
root on Debian it installs; elsewhere it says how. Nothing is printed where bubblewrap is there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

_COMMANDS = (
    (("debian", "ubuntu"), "apt-get install bubblewrap"),
    (("fedora", "rhel", "centos"), "dnf install bubblewrap"),
    (("arch",), "pacman -S bubblewrap"),
    (("alpine",), "apk add bubblewrap"),
    (("suse", "opensuse"), "zypper install bubblewrap"),
)
_APT = ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "bubblewrap")
_FOR_APT = ("PATH", "HOME", "LANG", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "APT_CONFIG")
_PATIENCE_S = 90
_RELEASE = ("/etc/os-release", "/usr/lib/os-release")


def bwrap_path() -> str:
    """The system's bwrap (Ubuntu grants user namespaces to that path only), "" when there is none."""
    return "/usr/bin/bwrap" if os.access("/usr/bin/bwrap", os.X_OK) else shutil.which("bwrap") or ""


def command(release: str | None = None) -> str:
    """For people to type; "" for a distribution that is not known."""
    names = _distribution(_release() if release is None else release)
    found = next((said for known, said in _COMMANDS if set(known) & names), "")
    return f"sudo {found}" if found and os.geteuid() else found


def remedy() -> str:
    """What somebody can do for the full sandbox, as a sentence."""
    if bwrap_path():
        return "Allow bubblewrap to make user namespaces; `manage.py doctor` says what failed."
    if said := command():
        return f"Install bubblewrap: `{said}`."
    return "Install bubblewrap with the package manager of this system."


def _distribution(release: str) -> set[str]:
    """Names of the distribution and of those that it is like; ``opensuse-leap`` is ``opensuse`` too."""
    fields = dict(line.split("=", 1) for line in release.splitlines() if "=" in line)
    words = f"{fields.get('ID', '')} {fields.get('ID_LIKE', '')}".replace('"', "").replace("'", "").lower().split()
    return {*words, *(word.split("-")[0] for word in words)}


def _release() -> str:
    for path in _RELEASE:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except OSError:
            continue
    return ""


def notice() -> str:
    """One line for the start of AgentOps, "" where nothing is missing."""
    if sys.platform != "linux" or bwrap_path():
        return ""
    return f"Commands run in a weaker sandbox, if any: bubblewrap is missing. {remedy()}"


def main() -> None:
    """Install it or say how, in one line; a second one when that failed."""
    said = notice()
    if said and os.geteuid() == 0 and shutil.which("apt-get"):
        print("Installing bubblewrap, the sandbox of commands: `apt-get install bubblewrap`.", flush=True)
        why = _install()
        said = f"It could not be installed ({why}): commands run in a weaker sandbox, if any." if why else ""
    if said:
        print(said, flush=True)


def _install() -> str:
    """Why it is not there afterwards, "" when it is. A bare machine has no lists yet: a second try reads them."""
    last = ""
    for words in (_APT, ("apt-get", "update", "-qq"), _APT):
        try:
            environment = {name: value for name, value in os.environ.items() if name.upper() in _FOR_APT}
            environment["DEBIAN_FRONTEND"] = "noninteractive"
            done = subprocess.run(
                words, env=environment, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"no answer within {_PATIENCE_S} seconds"
        last = (done.stderr.strip().splitlines() or [""])[-1]
        if words is _APT and done.returncode == 0:
            break
    return "" if bwrap_path() else last or "it is still not there"


if __name__ == "__main__":
    main()

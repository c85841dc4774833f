"""`manage.py shots`: look at every page, light and dark, wide and narrow, and ask axe about each.

Without `--url` it starts an installation of its own, with a demo run in each state.
"""

from __future__ import annotations

import contextlib
import os
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from loops.engine.text.truncation import shortened
from loops.management.terminal import TerminalCommand

PAGES = {
    "overview": "/",
    "review": "/review/",
    "runs": "/runs/",
    "runs-none": "/runs/?q=there-is-no-such-task",
    "new-task": "/tasks/new/",
    "workspaces": "/workspaces/",
    "tools": "/tools/",
    "system": "/system/",
    "breakers": "/system/breakers/",
    "missing": "/no-such-page/",
}
TABS = ("", "lifecycle/", "files/", "conversation/", "provenance/", "raw/")
SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
SETTLE_S = 60


@dataclass(frozen=True, slots=True)
class Look:
    name: str
    address: str
    theme: str
    size: str


class Command(TerminalCommand):
    help = "Screenshots and accessibility faults of every page of a running site. Needs the development packages."

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Declare the flags."""
        parser.add_argument("--url", default="", help="a running site; without it one is started")
        parser.add_argument("--user", default="admin")
        parser.add_argument("--password", default=os.environ.get("SHOTS_PASSWORD", ""), help="or $SHOTS_PASSWORD")
        parser.add_argument("--run", action="append", default=[], help="id of a run to look at; may be repeated")
        parser.add_argument("--fork", default="", help="id of a fork of the first run, to compare the two")
        parser.add_argument("--only", default="", help="pages whose name holds this")
        parser.add_argument("--into", type=Path, default=Path("shots"))

    def handle(self, *args: Any, **options: Any) -> None:
        """Walk all pages in all looks; the exit code tells whether axe is content."""
        try:
            from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
            from playwright.sync_api import sync_playwright
        except ImportError as error:
            raise CommandError(
                "needs playwright and axe-playwright-python: install the development packages"
            ) from error
        with contextlib.ExitStack() as stack:
            if not options["url"]:
                options |= stack.enter_context(_own_site())
            self._take(sync_playwright, Axe, options)

    def _take(self, sync_playwright: Any, Axe: Any, options: dict[str, Any]) -> None:
        from tests.browser import FLAGS, installed

        pages = _pages(options["run"], options["fork"], options["only"])
        options["into"].mkdir(parents=True, exist_ok=True)
        faults = 0
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=installed(), args=FLAGS)
            for theme in ("light", "dark"):
                for size in SIZES:
                    context = _log_in(browser, options, theme, size)
                    for name, address in pages.items():
                        faults += self._look(context, Axe(), Look(name, address, theme, size), options)
                    context.close()
            browser.close()
        self.stdout.write(f"{faults} faults; pictures in {options['into']}")
        if faults:
            raise SystemExit(1)

    def _look(self, context: Any, axe: Any, look: Look, options: dict[str, Any]) -> int:
        page = context.new_page()
        broken: list[str] = []
        page.on("pageerror", lambda error: broken.append(str(error)))
        page.on("console", lambda line: broken.append(line.text) if line.type == "error" else None)
        page.goto(options["url"] + look.address)
        page.wait_for_timeout(1500 if look.name == "system" else 700)
        page.screenshot(path=options["into"] / f"{look.name}-{look.theme}-{look.size}.png", full_page=True)
        over = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        violations = axe.run(page).response["violations"]
        said = [f"{v['id']} x{len(v['nodes'])}: {v['nodes'][0]['target']}" for v in violations]
        said += [f"script: {shortened(line, 160)}" for line in broken if "404" not in line]
        said += [f"{over} px too wide"] if over > 0 else []
        self.stdout.write(f"{look.name:24} {look.theme:6} {look.size:7} {'ok' if not said else ''}")
        for line in said:
            self.stdout.write(f"    {line}")
        page.close()
        return len(said)


@contextlib.contextmanager
def _own_site() -> Iterator[dict[str, Any]]:
    """A new installation with demo runs: one that waits for a person and a fork of it, one that is committed, one that
    failed."""
    from tests.walk.installation import Installation

    site = Installation()
    try:
        site.start()
        site.manage("seed_demo", "--runs")
        deadline = time.monotonic() + SETTLE_S
        while (runs := _by_status(site.manage("agentops", "runs"))).keys() < {"waiting", "completed", "paused"}:
            if time.monotonic() > deadline:
                raise CommandError(f"the demo runs did not settle: {runs}")
            time.sleep(1)
        time.sleep(SETTLE_S / 6)
        runs = _by_status(site.manage("agentops", "runs"))
        password = (site.state / "admin-password").read_text().strip()
        shown = [runs[status][-1] for status in ("waiting", "completed", "interrupted", "failed") if status in runs]
        forked = site.manage("agentops", "fork", shown[0], "--step", "2").split()[-1]
        time.sleep(SETTLE_S / 6)
        yield {"url": site.url, "password": password, "run": shown, "fork": forked}
    finally:
        site.stop()
        site.remove()


def _by_status(listing: str) -> dict[str, list[str]]:
    """Run ids by status, newest first, as the command line lists them."""
    found: dict[str, list[str]] = {}
    for line in listing.splitlines():
        run, status = line.split()[:2]
        found.setdefault(status, []).append(run)
    return found


def _pages(runs: list[str], fork: str, only: str) -> dict[str, str]:
    pages = dict(PAGES)
    if runs:
        pages["fork-form"] = f"/runs/{runs[0]}/fork/?step=2"
    if runs and fork:
        pages |= {"fork": f"/runs/{fork}/", "compare": f"/runs/{runs[0]}/compare/{fork}/"}
    for number, run in enumerate(runs, 1):
        pages |= {f"run{number}-{tab.strip('/') or 'timeline'}": f"/runs/{run}/{tab}" for tab in TABS}
    return {name: address for name, address in pages.items() if only in name}


def _log_in(browser: Any, options: dict[str, Any], theme: str, size: str) -> Any:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)
    page = context.new_page()
    page.goto(options["url"] + "/login/")
    page.screenshot(path=options["into"] / f"login-{theme}-{size}.png")
    page.fill("#id_username", options["user"])
    page.fill("#id_password", options["password"])
    page.click("main button[type=submit]")
    page.wait_for_url(lambda url: "/login" not in url, timeout=10_000)
    page.close()
    return context

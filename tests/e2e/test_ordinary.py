"""Ordinary work at the sizes it has: an agent works on a copy of this repository while people watch, steer and decide.

Nothing here is hostile and nothing is small: 40 files are read, one of 5,000 lines is written, 60 are changed and a
command prints a megabyte. No guard may stand in its way.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import expect

from gates.models import Decision, Gate
from loops.models import Run, ToolCallRecord
from loops.storage import chain
from tests import decisions
from tests.e2e.conftest import House, ended, gate_of
from tests.e2e.crew import facts
from tests.e2e.proxy import line
from tests.e2e.test_bad_input import house_agent
from tests.stack import wait_until
from tests.web.browsing import approved_by_key, settled
from tests.web.test_long_steps import ALL_THAT_IS_SHOWN, assert_alike
from tests.wire.say import Say, Seen, Wire
from tests.wire.server import WireServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.spec("Q5", "Q7", "R1", "R2")]
ROOT = Path(__file__).resolve().parents[2]
READ, TOGETHER, CHANGED, AT_ONCE, LINES = 40, 8, 60, 2, 5_000
UPRIGHT = 2_400  # pixels: fewer screens to press through, one in half a second
FOLDER = "work"
MEGABYTE = "import sys; sys.stdout.write('all of it is printed, line by line\\n' * 30_000)"
BIG = "".join(f"value_{number:04} = {number}  # a line as people write them\n" for number in range(LINES))


def sources() -> list[str]:
    """Paths of the Python files in the copy, as a tool is told them."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return sorted(f"{FOLDER}/{path}" for path in listed.splitlines() if path.endswith(".py") and "/" in path)


@pytest.fixture
def workspace(house: House) -> Any:
    """A workspace that holds what is committed here, beside what was there."""
    made = house.invoices
    copy = Path(made.path) / FOLDER
    archive = subprocess.run(["git", "archive", "HEAD"], cwd=ROOT, capture_output=True, check=True).stdout
    copy.mkdir()
    subprocess.run(["tar", "-x", "-C", str(copy)], input=archive, check=True)
    owner, group = Path(made.path).owner(), Path(made.path).group()
    for path in (copy, *copy.rglob("*")):
        shutil.chown(path, owner, group)
    assert sum(path.is_file() for path in copy.rglob("*")) > 600
    return made


class Coder:
    """The model, which says one turn after the other; a fork hears the last."""

    def __init__(self) -> None:
        self.paths = sources()
        self.turn, self.answered, self.again = -1, None, False

    def __call__(self, seen: Seen) -> Say:
        if not seen.body.get("tools"):
            return Say(text="All as expected.")
        self.again = seen.body["messages"][-1] == self.answered
        if not self.again:  # else it was interrupted, and is asked once more
            self.turn, self.answered = self.turn + 1, seen.body["messages"][-1]
        said = list(self._turns())
        return said[min(self.turn, len(said) - 1)]

    def _turns(self) -> Iterator[Say]:
        for start in range(0, READ, TOGETHER):
            calls = [("read_file", {"path": path}) for path in self.paths[start : start + TOGETHER]]
            yield Say(thinking="Reading first.", text="I read what is there.", calls=calls)
        yield Say(text="The table.", calls=[("write_file", {"path": f"{FOLDER}/table.py", "content": BIG})])
        command = {"command": f'python3 -c "{MEGABYTE}"'}
        yield Say(text="A look at all of it.", calls=[("run_command", command)])
        yield Say(
            thinking="What follows is long. " * 150,
            calls=[self._change(0)],
            wire=Wire(pace=0.03 if self.again else 0.2),
        )
        for number in range(1, CHANGED, AT_ONCE):
            calls = [self._change(at) for at in range(number, min(number + AT_ONCE, CHANGED))]
            yield Say(text=f"On with file {number}.", calls=calls)
        done = Say(text="Done.", calls=[("task_completion", {"result": "Each module has its note."})])
        yield from (done, Say(text="One more, in the fork.", calls=[self._change(CHANGED)]), done)

    def _change(self, number: int) -> tuple[str, dict[str, Any]]:
        path = self.paths[number]
        first = (ROOT / path.removeprefix(f"{FOLDER}/")).read_text().partition("\n")[0]
        edit = {"search": first, "replace": f"# Looked through, number {number}.\n{first}"}
        return ("apply_diff", {"path": path, "edits": [edit]})


@pytest.fixture
def logs() -> Iterator[dict[Path, int]]:
    """At the end no log has a traceback, or a request that was answered with 500, that was not there before."""
    before = {path: path.stat().st_size for path in settings.PATHS.logs.glob("*.log")}
    yield before
    for path in settings.PATHS.logs.glob("*.log"):
        new = path.read_bytes()[before.get(path, 0) :].decode(errors="replace")
        assert not re.search(r"Traceback|Internal Server Error|\" 500 ", new), f"{path}: {new[-3000:]}"


def approve_by_key(page: Any, gate: Gate) -> int:
    """Press on as a person does who reads on, on a screen that stands upright; how often."""
    usual = page.viewport_size
    page.set_viewport_size({"width": usual["width"], "height": UPRIGHT})
    presses = approved_by_key(page, gate, presses=400)
    assert presses, page.locator(".verdicts").inner_text()
    page.set_viewport_size(usual)
    return presses


def stands_at(page: Any) -> int:
    """The last fact that the page of a run shows."""
    return int(page.locator("[data-run-socket]").get_attribute("data-seq"))


def test_a_day_of_work_on_a_repository(house: House, workspace: Any, enter: Any, logs: Any) -> None:
    house.project.access_rules.filter(operation="execute").update(access="ask")
    house.project.access_rules.create(agent_type="*", tool="write_file", operation="write", access="ask")
    with WireServer(Coder()) as model, line(house.url) as wire:
        agent = house_agent(house, model.url)
        run = house.submit_to(
            agent,
            "Look through the modules.",
            workspace,
            final_review="always",
            criteria=[],
            limits={"max_steps": 80, "max_tokens": 5_000_000},
        )
        watching, review = enter(wire.url, house.boss), enter(house.url, house.person("Rita", "reviewer"))
        watching.goto(f"{wire.url}/runs/{run.pk}/")
        watching.wait_for_selector("#live[data-state=live]")
        watching.evaluate("window.marker = 'same page'")

        gate = gate_of(run)
        assert gate.tool == "write_file"
        review.goto(f"{house.url}/review/{gate.pk}/")
        settled(review)
        expect(review.locator(".change-line")).to_have_count(LINES + 3)
        assert approve_by_key(review, gate) > 20, "five thousand lines are not seen at once"

        gate = taken_back(run, review, house)
        review.goto(f"{house.url}/review/{gate.pk}/")
        settled(review)
        review.locator("[data-pane=edit]").click()
        field = review.locator("[data-pane-of=edit] textarea.mono").first
        field.fill(field.input_value().replace("python3 -c", "python3 -B -c"))
        review.keyboard.press("Control+Enter")
        expect(review.locator("form[data-verdict=approve_with_edits] [data-sure]")).to_be_visible()
        assert not Decision.objects.filter(gate=gate).exists()
        review.keyboard.press("y")
        wait_until(lambda: Decision.objects.filter(gate=gate).exists(), "the approval of the edited command")
        assert Decision.objects.get(gate=gate).verdict == "approve_with_edits"

        watching.locator(".streamed[data-kind=thinking]").wait_for()
        watching.get_by_role("button", name="Pause").click()
        expect(watching.locator("#toasts")).to_contain_text("Pause requested")
        wait_until(lambda: Run.objects.get(pk=run.pk).status == "paused", "the pause")
        resume = watching.get_by_role("button", name="Resume")
        wait_until(lambda: stands_at(watching) == Run.objects.get(pk=run.pk).head_seq, "the page to show the pause")
        assert resume.is_visible(), watching.locator("#run-head").inner_text()
        printed = ToolCallRecord.objects.get(run=run, tool="run_command")
        assert printed.state == "COMPLETE", printed.error
        begun = Run.objects.get(pk=run.pk).total_steps
        resume.click()
        wait_until(lambda: Run.objects.get(pk=run.pk).status != "paused", "the run to go on")
        watching.locator(f"#step-{begun + 1}").wait_for()
        wire.cut()
        watching.wait_for_selector("#live[data-state=reconnecting]")
        gate = gate_of(run)
        while gate.kind == "long_task":  # every twenty steps, whoever watches
            decisions.decide(actor=house.boss, gate_id=gate.pk, verdict="approve", digest=gate.digest)
            gate = gate_of(run)
        assert gate.kind == "final_review", gate.title
        assert Run.objects.get(pk=run.pk).total_steps - begun >= 29
        wire.mend()
        watching.wait_for_selector("#live[data-state=live]")
        watching.locator(f"#gate-{gate.pk}").wait_for()

        review.goto(f"{house.url}/review/{gate.pk}/")
        settled(review)
        expect(review.locator("[data-left]")).to_contain_text(f"of {CHANGED + 1} viewed")
        assert approve_by_key(review, gate) > 20
        watching.locator("#run-end .end-card").wait_for()
        assert watching.evaluate("window.marker") == "same page"
        live = watching.evaluate(ALL_THAT_IS_SHOWN)
        watching.reload()
        watching.locator("#run-end .end-card").wait_for()
        assert_alike(live, watching.evaluate(ALL_THAT_IS_SHOWN))

        ended(run)
        assert (run.status, Run.objects.get(pk=run.pk).phase) == ("completed", "COMMIT")
        refused = [each for kind in ("ToolRefused", "ModelFailed", "LoopDetected") for each in facts(run, kind)]
        assert not refused
        assert ToolCallRecord.objects.filter(run=run, tool="apply_diff", state="COMPLETE").count() == CHANGED
        assert (Path(run.workspace_path) / FOLDER / "table.py").read_text() == BIG
        assert model.faults == []

        fork_and_roll_back(house, run, watching)
    assert chain.verify().problems == []


def taken_back(run: Run, page: Any, house: House) -> Gate:
    """A command is approved by a slip: it does not run, and is asked about again."""
    gate = gate_of(run)
    assert gate.tool == "run_command"
    page.goto(f"{house.url}/review/{gate.pk}/")
    settled(page)
    approve_by_key(page, gate)
    page.get_by_role("button", name="Take back").wait_for()
    page.keyboard.press("u")
    expect(page.locator("#messages")).to_contain_text("Taken back: ")
    wait_until(lambda: Gate.objects.filter(run=run, status="open").exists(), "the question again")
    again = gate_of(run)
    assert again.subject == gate.subject
    assert "asked again: it was taken back" in again.reasons
    assert not [begun for begun in facts(run, "ToolIntended") if begun["tool"] == "run_command"]
    return again


def fork_and_roll_back(house: House, parent: Run, page: Any) -> None:
    """A fork goes on from the middle, with what its parent had changed until then, is stopped and rolled back."""
    page.goto(f"{house.url}/runs/{parent.pk}/fork/?step=10")
    page.get_by_role("button", name="Fork").click()
    page.wait_for_url(lambda url: str(parent.pk) not in url)
    fork = Run.objects.get(pk=page.url.rstrip("/").split("/")[-1])
    gate = gate_of(fork)
    assert gate.kind == "final_review"
    fork.refresh_from_db()
    folder, changed = Path(fork.workspace_path), sources()[CHANGED]
    assert (folder / FOLDER / "table.py").read_text() == BIG
    assert "Looked through" in (folder / changed).read_text()
    page.locator("#say-text").fill("/stop")
    page.locator("#say-text").press("Enter")
    ended(fork)
    page.goto(f"{house.url}/runs/{fork.pk}/")
    page.get_by_role("link", name="Roll back").click()
    expect(page.get_by_role("heading", name="Roll this run back")).to_be_visible()  # the gate's card has such a button
    page.get_by_role("button", name="Roll back").click()
    expect(page.locator("#messages")).to_contain_text("Rollback started")
    wait_until(lambda: "Looked through" not in (folder / changed).read_text(), "the rollback")
    assert (folder / FOLDER / "table.py").read_text() == BIG, "what came before the fork is not its own"

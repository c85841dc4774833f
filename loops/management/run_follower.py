"""Following a run in a terminal: the journal by sequence number, so that nothing is missed and nothing comes twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from loops.engine.ends.reasons import EXPLANATIONS, explained
from loops.engine.state.evidence import how_many
from loops.engine.text.truncation import shortened
from loops.management.terminal import program
from loops.models import Run
from loops.printable.text import printable
from loops.services import access, delivery, steering
from loops.storage import reader
from loops.web import notes
from loops.workspaces import patch

PAUSE = 0.25
AT_ONCE = 200
LONGEST = 160
SHOWN: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "RunStarted": lambda fact: f"starts: {fact['spec']['goal']}",
    "ModelAnswered": lambda fact: fact.get("text") or "(calls only)",
    "ToolIntended": lambda fact: f"runs {fact['tool']} {json.dumps(fact.get('arguments'), ensure_ascii=False)}",
    "ToolCompleted": lambda fact: f"{fact['tool']}: {'done' if fact['result'].get('ok') else 'failed'}",
    "ToolRefused": lambda fact: f"{fact['tool']} did not run: {fact.get('message', '')}",
    "GateOpened": lambda fact: f"waits for a person: {fact.get('title', '')}",
    "GateDecided": lambda fact: (
        f"{fact.get('by') or 'the clock'} decided: {fact.get('verdict', '')} {fact.get('reason', '')}"
    ),
}
"""What stands on the page as a card or the row of a call; for all others the terminal has the words of the page."""


class Output(Protocol):
    """Where lines go; a command's stdout ends each with a line break."""

    def write(self, line: str, /) -> object:
        """One line."""
        ...


class RunFollower:
    """One run and one pair of eyes. The first Ctrl+C stops the run, the second only stops watching."""

    def __init__(self, run: Run, actor: Any, out: Output, *, as_json: bool) -> None:
        self.run, self.actor, self.out, self.as_json = run, actor, out, as_json
        self.after = 0
        self.stopped = False

    def follow(self) -> str:
        """Print facts until the run has ended; returns its last status."""
        if not self.as_json:
            self.out.write(f"Its questions are decided on its page: {patch.link(self.run)}   (Ctrl+C stops the run)")
        while True:
            try:
                if self.print_news():
                    return self._farewell()
                time.sleep(PAUSE)
            except KeyboardInterrupt:
                if self.stopped:
                    return str(self.run.status)
                self._stop()

    def print_news(self) -> bool:
        """Print what is new. True when the run had ended before the last look found nothing more."""
        self.run.refresh_from_db(fields=["status", "end_reason"])
        ended = self.run.is_ended
        facts = reader.raw(self.run.pk, self.after, AT_ONCE)
        for fact in facts:
            self.after = fact["seq"]
            self._print(fact)
        return ended and not facts

    def _print(self, row: Mapping[str, Any]) -> None:
        if self.as_json:
            self.out.write(json.dumps({**row, "at": row["at"].isoformat()}))
        elif text := " ".join(_words(row["kind"], row["fact"]).split()):
            self.out.write(f"{row['at']:%H:%M:%S}  {row['seq']:>5}  {shortened(text, LONGEST)}")

    def _stop(self) -> None:
        self.stopped = True
        try:
            steering.stop_run(actor=self.actor, run=self.run)
            self.out.write("Stop requested. Ctrl+C again ends watching; the run stops all the same.")
        except (steering.NotPossible, access.NotAllowed) as error:
            self.out.write(str(error))

    def _why_ended(self) -> str:
        """The code, what it means, and how many criteria have each level of evidence."""
        code, report = self.run.end_reason, reader.report(self.run.pk) or {}
        if not code:
            return "no reason given"
        found = how_many(report.get("levels") or {}, printable(str(report.get("approver") or "")))
        why = explained(code, str(report.get("evidence", ""))) if code in EXPLANATIONS else "unknown here"
        return f"{code}: {why}{f' Criteria: {found}.' if found else ''}"

    def _farewell(self) -> str:
        if not self.as_json:
            self.out.write(f"{self.run.get_status_display()} ({self._why_ended()})")
            self.run.refresh_from_db()
            if delivery.undelivered(self.run):
                ways = ("push",) if delivery.can_be_pushed(self.run) else ("commit", "apply")
                verbs = "".join(f"\n  {program()} {verb} {self.run.pk}" for verb in ("diff", *ways))
                self.out.write(f"What it changed is in its own copy. To see it, and to take it over:{verbs}")
        return str(self.run.status)


def _words(kind: str, fact: Mapping[str, Any]) -> str:
    """Of a fact in one line; "" for one that says nothing to people."""
    return SHOWN[kind](fact) if kind in SHOWN else notes.in_a_line(kind, fact)

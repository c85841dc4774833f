"""Following a run in a terminal: the journal by sequence number, so that nothing is missed and nothing comes twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from loops.engine.end_reasons import EXPLANATIONS
from loops.models import Run
from loops.services import access, steering
from loops.storage import reader

PAUSE = 0.25
AT_ONCE = 200
LONGEST = 160
SHOWN: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "RunStarted": lambda fact: f"starts: {fact['spec']['goal']}",
    "PhaseEntered": lambda fact: f"phase {fact.get('phase', '')}",
    "ModelAnswered": lambda fact: fact.get("text") or "(calls only)",
    "ModelFailed": lambda fact: f"model failed: {fact.get('message', '')}",
    "ToolIntended": lambda fact: f"runs {fact['tool']} {json.dumps(fact.get('arguments'), ensure_ascii=False)}",
    "ToolCompleted": lambda fact: f"{fact['tool']}: {'done' if fact['result'].get('ok') else 'failed'}",
    "ToolRefused": lambda fact: f"{fact['tool']} did not run: {fact.get('message', '')}",
    "GateOpened": lambda fact: f"waits for a person: {fact.get('title', '')}",
    "GateDecided": lambda fact: (
        f"{fact.get('by') or 'the clock'} decided: {fact.get('verdict', '')} {fact.get('reason', '')}"
    ),
    "MessageReceived": lambda fact: f"{fact.get('by') or 'somebody'} says: {fact.get('text', '')}",
    "LimitWarned": lambda fact: f"limit near: {fact['limit']}, {fact['used']} of {fact['bound']}",
    "LimitReached": lambda fact: f"limit reached: {fact['limit']}, {fact['used']} of {fact['bound']}",
    "LoopDetected": lambda fact: f"loop detected: {fact.get('evidence', '')}",
    "LoopBroken": lambda fact: f"is helped out of it: {str(fact.get('skipped') or fact.get('rung')).replace('_', ' ')}",
    "StallDetected": lambda fact: f"the monitor: {fact.get('evidence', '')}",
    "TurnAwaited": lambda fact: f"waits for its turn at {fact['model']}: {fact['before']} before it",
    "TurnTaken": lambda fact: f"has its turn at {fact['model']}",
    "WorkspaceAwaited": lambda fact: f"waits for its folder: {fact['why']}",
    "WorkspaceFound": lambda _: "its folder is here again",
    "ModelAwaited": lambda fact: f"waits for a model: {fact['model']} cannot be reached ({fact.get('reason', '')})",
    "ModelAwaitEnded": lambda _: "asks again",
    "StopRequested": lambda _: "is told to stop",
    "RunPaused": lambda fact: f"is paused by {fact.get('by') or 'somebody'} {fact.get('reason', '')}".rstrip(),
    "RunResumed": lambda _: "goes on",
    "RunEnded": lambda fact: f"ends: {fact.get('reason', '')}",
}


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
        while True:
            try:
                if self._read_on():
                    return self._farewell()
                time.sleep(PAUSE)
            except KeyboardInterrupt:
                if self.stopped:
                    return str(self.run.status)
                self._stop()

    def _read_on(self) -> bool:
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
        elif show := SHOWN.get(row["kind"]):
            text = " ".join(show(row["fact"]).split())
            self.out.write(f"{row['at']:%H:%M:%S}  {row['seq']:>5}  {text[:LONGEST]}")

    def _stop(self) -> None:
        self.stopped = True
        try:
            steering.stop_run(actor=self.actor, run=self.run)
            self.out.write("stop: asked. Ctrl+C again leaves the run alone.")
        except (steering.NotPossible, access.NotAllowed) as error:
            self.out.write(str(error))

    def _why_ended(self) -> str:
        code = self.run.end_reason
        return f"{code}: {EXPLANATIONS.get(code, 'unknown here')}" if code else "no reason given"

    def _farewell(self) -> str:
        if not self.as_json:
            self.out.write(f"{self.run.get_status_display()} ({self._why_ended()})")
        return str(self.run.status)

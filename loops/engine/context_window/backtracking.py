"""The conversation without an approach that was given up (SPEC E3). The journal keeps what is left out here."""

from __future__ import annotations

from loops.engine import facts as f
from loops.engine.context_window.transcript import Transcript, leave_out, say


def backtracked(transcript: Transcript, fact: f.Backtracked) -> Transcript:
    """From the answer with the first failing call on everything is left out, calls together with their results; what
    people said meanwhile stays. Where that answer is gone already, the summary is simply added."""
    turns = transcript.turns
    for at in range(len(turns) - 1, 1, -1):
        if fact.from_call in turns[at].calls:
            return leave_out(transcript, at - 1, len(turns) - 1, fact.summary)
    return say(transcript, fact.summary)


def forced(transcript: Transcript, fact: f.ReflectionForced) -> Transcript:
    return say(transcript, fact.text)

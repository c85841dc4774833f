"""What a run needs before it goes on (SPEC A2). SQL and services go by kind and name, words are for people alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loops.engine.encoding.canonical import clean


class NeedKind(StrEnum):
    """``name`` of a ``Need`` is the kind of the gate, and the model for ``TURN`` and ``MODEL``."""

    NOTHING = ""
    GATE = "gate"
    MESSAGE = "message"
    FOLDER = "folder"
    TURN = "turn"
    MODEL = "model"
    NEWER_WORKER = "newer_worker"


STANDSTILLS: dict[str, str] = {
    NeedKind.FOLDER: "Waiting for its workspace",
    NeedKind.TURN: "Queued for a model",
    NeedKind.MODEL: "Waiting for a model",
    NeedKind.NEWER_WORKER: "Waiting for a newer worker",
}
"""What a run does that waits for one of these, in a few words: nobody has to do anything."""


LONGEST_NEED = 200
"""Characters of a name and of words that the row of a run has room for; its facts have all."""


@dataclass(frozen=True, slots=True)
class Need:
    """``words``: what people read. Of a run at work they say what it does, such as the name of a tool."""

    kind: NeedKind = NeedKind.NOTHING
    name: str = ""
    words: str = ""

    def columns(self) -> dict[str, str]:
        """What the row of the run says, in the order of ``journal_append``."""
        name, words = clean(self.name)[:LONGEST_NEED], clean(self.words)[:LONGEST_NEED]
        return {"waiting_kind": self.kind.value, "waiting_name": name, "waiting_on": words}

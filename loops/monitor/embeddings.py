"""What the steps of live runs mean, asked of an embedding model where one is configured (SPEC F2).

Nothing rests on it: circles are found by word pairs all the same. While the model cannot be asked, which is told once,
steps go by without a meaning.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from loops.engine.encoding.fingerprints import figures
from loops.engine.loop_detection.meaning import Meaning, Vector, cosine, same_meaning
from loops.engine.ports import ModelError
from loops.engine.values import FailureKind
from loops.monitor import alerts, queries
from loops.monitor.policy import Policy
from loops.monitor.state import Memory

AGAIN_S = 60.0
"""After a failure the model is left alone for so long."""
STEPS_A_LOOK = 32
"""About so many; the others wait for the next look."""
CHARS = 1000
"""Of a text are looked at, half from each of its ends: small models take no more."""
NOTHING = "(nothing)"
"""Instead of an empty text, which servers refuse."""
APART = ("All tests pass.", "A blue whale sings for hours in the deep sea.")
"""A model that takes these for the same would take everything for a circle."""


class Embedder(Protocol):
    """Port: ``model`` is its name for people."""

    model: str

    def __call__(self, texts: Sequence[str]) -> Sequence[Vector]:
        """A vector of length 1 for each text, in their order, soon. Raises ModelError."""
        ...


class Meanings:
    """``connect`` finds the model as it is configured now; it is asked again after each failure."""

    def __init__(
        self, connect: Callable[[], Embedder], policy: Policy, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect, self._policy, self._clock = connect, policy, clock
        self._embedder: Embedder | None = None
        self._not_before = 0.0
        self._works: bool | None = None

    def learn(self, memories: Mapping[uuid.UUID, Memory]) -> None:
        """Give new steps their meaning, and see whether their runs go in circles."""
        unread = self._unread(memories)
        if not unread or self._clock() < self._not_before:
            return
        known = self._asked(unread)
        for run_id, steps in unread.items():
            memory = memories[run_id]
            memory.understand({step: known.get((run_id, step)) for step in steps})
            if self._embedder:
                memory.meant = same_meaning(
                    memory.window,
                    memory.meanings,
                    model=self._embedder.model,
                    similar=self._policy.same_meaning,
                    thresholds=self._policy.thresholds,
                )

    def _unread(self, memories: Mapping[uuid.UUID, Memory]) -> dict[uuid.UUID, list[int]]:
        """Steps without a meaning, of runs that are long enough for a circle."""
        found: dict[uuid.UUID, list[int]] = {}
        enough = self._policy.thresholds.similar_steps
        for run_id, memory in memories.items():
            if sum(map(len, found.values())) >= STEPS_A_LOOK:
                break
            if len(memory.window) >= enough and (steps := memory.unread()):
                found[run_id] = steps
        return found

    def _asked(self, unread: Mapping[uuid.UUID, Sequence[int]]) -> dict[tuple[uuid.UUID, int], Meaning]:
        """Meanings by run and step; none after a failure, which is no reason to ask for the same again."""
        texts = queries.texts(unread)
        try:
            embedder = self._embedder = self._embedder or self._tried()
            known = meanings_of(embedder, texts)
        except ModelError as error:
            self._embedder, self._not_before = None, self._clock() + AGAIN_S
            self._say(works=False, said=str(error))
            return {}
        self._say(works=True, said=f"embeddings by {embedder.model}")
        return known

    def _tried(self) -> Embedder:
        embedder = self._connect()
        near = cosine(*embedder(APART))
        if near >= self._policy.same_meaning:
            said = f"{embedder.model} tells nothing apart: texts with nothing in common have a cosine of {near:.2f}"
            raise ModelError(said, kind=FailureKind.SYSTEMATIC, code="bad_vectors")
        return embedder

    def _say(self, *, works: bool, said: str) -> None:
        if works is not self._works:
            alerts.tell_of_embeddings(works=works, said=said)
            self._works = works


Key = TypeVar("Key")


def meanings_of(embedder: Embedder, texts: Mapping[Key, tuple[str, str]]) -> dict[Key, Meaning]:
    """Of texts of actions and outcomes. One question for all; a text that comes twice is asked for once."""
    pairs = {key: (_ends(action), _ends(outcome)) for key, (action, outcome) in texts.items()}
    different = list(dict.fromkeys(text for pair in pairs.values() for text in pair))
    vectors = dict(zip(different, embedder(different) if different else (), strict=True))
    return {
        key: Meaning(vectors[action], vectors[outcome], figures(texts[key][1]))
        for key, (action, outcome) in pairs.items()
    }


def _ends(text: str) -> str:
    text = text.strip() or NOTHING
    return text if len(text) <= CHARS else f"{text[: CHARS // 2]} ... {text[-CHARS // 2 :]}"

"""The session of a run: the state as it is, and the facts that are written but not yet committed."""

from __future__ import annotations

import hashlib

from loops import crash_points
from loops.driver.ports import Ports
from loops.engine import facts as f
from loops.engine import ports as p
from loops.engine.apply import apply
from loops.engine.context_window.conversation import extend
from loops.engine.context_window.short_tools import shortened
from loops.engine.context_window.transcript import Transcript
from loops.engine.encoding.canonical import encode
from loops.engine.encoding.codec import to_plain
from loops.engine.encoding.replace import evolve
from loops.engine.measures.context_budget import is_small, window
from loops.engine.state.run import RunState
from loops.engine.values import ToolSpec
from loops.masking import known


class RunSession:
    """State, conversation and buffer of one owned run. ``note`` folds a fact, ``flush`` makes it durable."""

    def __init__(self, ports: Ports, state: RunState, transcript: Transcript) -> None:
        self.ports = ports
        self.state = state
        self.transcript = transcript
        self.specs: tuple[ToolSpec, ...] = ()
        self.tools_sha256 = ""
        self.tools_bytes = self.system_bytes = 0
        self.measure()
        self._committed = state
        self._buffer: list[tuple[f.Fact, RunState]] = []

    def measure(self) -> None:
        """What every request says besides the conversation: tools in the form that suits the window, and its size."""
        full = tuple(self.ports.tools.specs())
        self.specs = shortened(full) if is_small(window(self.state)) else full
        tools = encode([to_plain(spec) for spec in self.specs])
        self.tools_sha256 = hashlib.sha256(tools).hexdigest()
        self.tools_bytes, self.system_bytes = len(tools), len(encode(self.transcript.system))

    def now(self) -> int:
        """Microseconds since the epoch."""
        return int(self.ports.clock.now() * 1_000_000)

    def note(self, *facts: f.Fact) -> None:
        """Stamp, fold and buffer facts; they are durable at the next ``flush``."""
        for fact in facts:
            stamped = evolve(known().value(fact), at=max(self.now(), self.state.last_at))
            self.state = apply(self.state, stamped)
            self.transcript = extend(self.transcript, stamped)
            self._buffer.append((stamped, self.state))

    def flush(self, *within: p.Within) -> None:
        """Commit what is buffered, together with ``within``, in one transaction. Raises LeaseLost or ApprovalVoid."""
        if not self._buffer and not within:
            return
        moments = crash_points.moments(type(fact).__name__ for fact, _ in self._buffer)
        moments.before()
        self.ports.journal.append(self._buffer, (*within, *moments.inside))
        moments.after()
        self._committed = self.state
        self._buffer = []

    def take_back(self, facts: int = 1) -> None:
        """Forget the last buffered facts: the database refused them, and nothing of that flush was written.

        Only for facts that leave the conversation as it is.
        """
        del self._buffer[-facts:]
        self.state = self._buffer[-1][1] if self._buffer else self._committed

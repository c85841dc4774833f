"""What the monitor remembers of a run between two looks: little, and lost without harm when it ends."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from loops.engine.facts import Fact, GateDecided, LoopDetected, RunStarted, StepCompleted
from loops.engine.loop_detection.finding import Finding
from loops.engine.loop_detection.meaning import Meaning
from loops.engine.loop_detection.reducers import seen_of
from loops.engine.measures.limits import extended
from loops.engine.state.limits import Limits
from loops.engine.state.step_window import Window, observe
from loops.monitor.policy import Policy
from loops.monitor.queries import RunSeen

CONTINUED = frozenset({"extend", "approve", "respond"})


@dataclass(frozen=True, slots=True)
class Sample:
    at: float
    cost_microusd: int
    tokens: int


@dataclass(slots=True)
class Memory:
    """``samples`` reach back over twice the time that a rate is measured over."""

    seq: int = 0
    limits: Limits = field(default_factory=Limits)
    window: Window = ()
    meanings: dict[int, Meaning | None] = field(default_factory=dict)
    """Of the steps of the window for which an embedding model was asked; None where it gave no answer."""
    meant: Finding | None = None
    """What their meanings show, as of the newest step."""
    found_by_itself: int = 0
    """The last step of the latest circle that is on record already."""
    samples: deque[Sample] = field(default_factory=deque)
    told: dict[str, int] = field(default_factory=dict)
    """The last step of the latest finding of each method: what overlaps with it says the same again."""

    def learn(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            match fact:
                case RunStarted():
                    self.limits = fact.spec.limits
                case StepCompleted():
                    self.window, self.meant = observe(self.window, seen_of(fact)), None
                case LoopDetected():
                    self.found_by_itself = max(fact.steps, default=self.found_by_itself)
                case GateDecided(kind="limit_reached") if fact.verdict in CONTINUED:
                    self.limits = extended(self.limits, fact.payload)

    def unread(self) -> list[int]:
        """Steps of the window whose meaning was not asked for yet, and that have one."""
        return [seen.step for seen in self.window if seen.call and seen.step not in self.meanings]

    def understand(self, meanings: Mapping[int, Meaning | None]) -> None:
        """Keep what was asked for, and of the rest what the window still holds."""
        known = {**self.meanings, **meanings}
        self.meanings = {seen.step: known[seen.step] for seen in self.window if seen.step in known}

    def is_news(self, finding: Finding) -> bool:
        """Ask once: the answer is remembered."""
        if min(finding.steps, default=0) <= self.told.get(finding.method, -1):
            return False
        self.told[finding.method] = max(finding.steps, default=0)
        return True

    def sample(self, run: RunSeen, policy: Policy) -> None:
        self.samples.append(Sample(run.now, run.cost_microusd, run.tokens))
        while len(self.samples) > 2 and run.now - self.samples[1].at > 2 * policy.rate_over_s:
            self.samples.popleft()

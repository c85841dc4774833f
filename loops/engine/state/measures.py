"""What a run remembers of how it stands: its progress, how sure it may be of itself, and what it was not allowed.

Plain bounded values inside the state; ``progress``, ``confidence`` and ``denial`` say what they mean.
"""

from __future__ import annotations

from dataclasses import dataclass

REPORTED = "tests (command)"
"""How progress was measured that only a command of the agent's own reports."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Of the latest test run; ``coverage`` is -1 while nobody knows it."""

    passed: int = 0
    failed: int = 0
    source: str = ""
    """How it was read: "junit" or "text"."""
    coverage: float = -1.0
    widest: int = 0
    """Tests in the widest run so far: a run of fewer is a part of the suite."""
    rate: float = 0.0


@dataclass(frozen=True, slots=True)
class Measured(Counts):
    """What progress is computed from (SPEC G1). ``opinion`` is -1 while nobody knows it."""

    reported: Counts = Counts()
    """The same of a command that the agent chose itself, since the project's own tests last ran."""
    files: tuple[int, ...] = ()
    """Fingerprints of the files that were changed, each once."""
    code: int = 0
    manifests: int = 0
    others: int = 0
    opinion: float = -1.0
    best: float = 0.0
    risen_at: int = 0
    """The step in which the score last rose."""

    @property
    def tests(self) -> Counts:
        """The latest, whoever counted them."""
        return self.reported if self.reported.widest else self


@dataclass(frozen=True, slots=True)
class StepSeen:
    """One of the latest steps, as whoever judges the run's confidence reads it."""

    step: int
    success: bool
    error: str = ""
    signature: str = ""
    progress: float = 0.0
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Confidence:
    """When confidence was judged last, and what is to come of it (SPEC G2). ``score`` is -1 before the first time."""

    checked_at: int = 0
    quiet_until: int = 0
    """A person let it go on: until this step only a person has it judged again."""
    score: float = -1.0
    reason: str = ""
    method: str = ""
    asked: bool = False
    """A person wants it judged now."""
    low: bool = False
    """Below the threshold, and no person has been asked yet."""
    latest: tuple[StepSeen, ...] = ()


@dataclass(frozen=True, slots=True)
class Denials:
    """How often each kind of operation was denied, and for which of them a person was asked (SPEC I4)."""

    times: tuple[tuple[str, int], ...] = ()
    asked: tuple[str, ...] = ()


NOT_MEASURED, NOT_JUDGED, NOTHING_DENIED = Measured(), Confidence(), Denials()


@dataclass(frozen=True)
class WindowMeasures:
    """``model`` was asked last; ``ratio`` is bytes a token by its count of that request, 0 unknown."""

    model: str = ""
    asked_bytes: int = 0
    ratio: float = 0.0
    counted: int = 0
    """``context_tokens`` right after the latest answer or pruning: what came since is estimated with the ratio."""
    tools_sha256: str = ""
    """Of the tools that the journal holds as offered."""
    prunings: int = 0
    overflows: int = 0
    """Requests in a row that were too long for the model."""
    too_long: bool = False
    """The latest one was: it has to become shorter before it is asked again."""
    quiet_until: int = 0
    """Estimates up to here lead to no pruning: the latest one could not do better."""
    warned: bool = False
    windows: tuple[tuple[str, int], ...] = ()
    """By model, what its provider named when it refused a request as too long."""
    learnt: bool = False
    """That was since the latest answer: it says how much is too long, so it does not count as an overflow."""
    fixed: int = 0
    """Tokens of system prompt and tools, at the latest pruning."""
    summaries: int = 0
    """Summaries asked of a model since the latest pruning."""


UNMEASURED = WindowMeasures()

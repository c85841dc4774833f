"""A claim, and what verification makes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.state.check import Check
from loops.engine.state.remark import Remark


@dataclass(frozen=True, kw_only=True)
class ResultProposed(Fact):
    """task_completion, or a final text: a claim that verification has yet to accept (SPEC C6)."""

    HEAVY: ClassVar[tuple[str, ...]] = ("result",)
    result: str
    call_id: str = ""


@dataclass(frozen=True, kw_only=True)
class ChecksStarted(Fact):
    count: int


@dataclass(frozen=True, kw_only=True)
class CheckAsked(Fact):
    """A person is asked before the command of a criterion runs, because the run changed what it obeys.

    ``stands`` is the hash of the workspace then; ``again`` says that an approval did not hold any more."""

    command: str
    stands: str
    again: bool = False


@dataclass(frozen=True, kw_only=True)
class CommandCleared(Fact):
    """A person approved this command by ``gate``: for a criterion it may run, and again, while the workspace stands so.

    Of a command of the agent's, ``stands`` is how that left the workspace."""

    command: str
    stands: str
    gate: str


@dataclass(frozen=True, kw_only=True)
class ChecksCompleted(Fact):
    """``found`` and ``left`` are hashes of the workspace before and after the checks, where commands are asked about:
    what the checks themselves changed is nobody else's doing. ``remarks``: what a reviewer should know of the changes,
    looked for where no check failed."""

    checks: tuple[Check, ...]
    found: str = ""
    left: str = ""
    remarks: tuple[Remark, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CriteriaTried(Fact):
    """What the commands of the criteria say before the first request; ``summary`` is for the model.

    ``found`` and ``left`` are as in ``ChecksCompleted``."""

    checks: tuple[Check, ...]
    summary: str = ""
    found: str = ""
    left: str = ""


@dataclass(frozen=True, kw_only=True)
class DiagnosisMade(Fact):
    """Why verification failed, in the root-cause words of SPEC M4, and what the model is told."""

    causes: tuple[str, ...]
    feedback: str

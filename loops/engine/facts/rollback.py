"""Facts of undoing what a run did; most of them stand behind its end (``loops.engine.rollback``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from loops.engine.facts.fact import Fact
from loops.engine.values import Compensation, Json


@dataclass(frozen=True, kw_only=True)
class UndoLearnt(Fact):
    """What a call had changed when its worker was lost, seen right after the loss and before anything else happened."""

    HEAVY: ClassVar[tuple[str, ...]] = ("compensation",)
    call_id: str
    compensation: Compensation


@dataclass(frozen=True, kw_only=True)
class WorkspaceChanged(Fact):
    """Files that are not as the recorded calls left them (SPEC X3). ``by`` is ``checks`` for what the commands of
    criteria did, ``unrecorded`` where nothing that was recorded did it, and ``outside`` where the run works in a
    person's folder, who may have done it: that is told, and undone by nobody. ``paths`` are the first of ``count``."""

    HEAVY: ClassVar[tuple[str, ...]] = ("compensation",)
    by: str
    compensation: Compensation
    paths: tuple[str, ...] = ()
    count: int = 0


@dataclass(frozen=True, kw_only=True)
class RollbackRequested(Fact):
    """A person wants an ended run undone, without having been asked (SPEC O3)."""

    by: str = ""


@dataclass(frozen=True, kw_only=True)
class CompensationIntended(Fact):
    """INTENT of undoing one call; ``undoes`` is that call's id."""

    HEAVY: ClassVar[tuple[str, ...]] = ("arguments",)
    undoes: str
    tool: str
    arguments: Mapping[str, Json]
    idempotency_key: str
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class CompensationCompleted(Fact):
    """``outcome``: undone, nothing (it was so already), or partly, failed, blocked, by_hand: then ``left`` names the
    paths that stay as they are, and ``message`` says why. Without an INTENT before it nothing was tried."""

    HEAVY: ClassVar[tuple[str, ...]] = ("left",)
    undoes: str
    tool: str
    outcome: str
    message: str = ""
    left: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class RollbackEnded(Fact):
    """``outcome``: undone, partly (a person has to look), nothing. ``asked`` is false when there was nothing to ask."""

    outcome: str
    undone: int = 0
    left: int = 0
    asked: bool = True

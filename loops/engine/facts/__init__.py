"""Facts: what happened, in the past tense. The journal is a sequence of these and nothing else (ARCHITECTURE 3).

``at`` is microseconds since the epoch, stamped by the driver: the engine itself has no clock. ``HEAVY`` names fields
that may be long; the journal moves them to blobs, and the fold never needs them to *decide* (SPEC J7).

One module for each thing facts are about. What a fact means lies in ``fold``, in a module of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping

from loops.engine.facts.asking import BackoffEnded as BackoffEnded
from loops.engine.facts.asking import BackoffStarted as BackoffStarted
from loops.engine.facts.asking import ModelAnswered as ModelAnswered
from loops.engine.facts.asking import ModelFailed as ModelFailed
from loops.engine.facts.asking import ModelInterrupted as ModelInterrupted
from loops.engine.facts.asking import ModelRequested as ModelRequested
from loops.engine.facts.calling import REFUSALS as REFUSALS
from loops.engine.facts.calling import CallJudged as CallJudged
from loops.engine.facts.calling import ToolCompleted as ToolCompleted
from loops.engine.facts.calling import ToolIntended as ToolIntended
from loops.engine.facts.calling import ToolRefused as ToolRefused
from loops.engine.facts.calling import ToolVerified as ToolVerified
from loops.engine.facts.circling import LoopBroken as LoopBroken
from loops.engine.facts.circling import LoopDetected as LoopDetected
from loops.engine.facts.circling import StallDetected as StallDetected
from loops.engine.facts.classifying import ClassificationGiven as ClassificationGiven
from loops.engine.facts.classifying import ClassificationRequested as ClassificationRequested
from loops.engine.facts.fact import Fact as Fact
from loops.engine.facts.forking import Forked as Forked
from loops.engine.facts.forking import Origin as Origin
from loops.engine.facts.guarding import LimitReached as LimitReached
from loops.engine.facts.guarding import LimitWarned as LimitWarned
from loops.engine.facts.guarding import Reminded as Reminded
from loops.engine.facts.judging import ConfidenceAsked as ConfidenceAsked
from loops.engine.facts.judging import ConfidenceChecked as ConfidenceChecked
from loops.engine.facts.judging import ConfidenceRequested as ConfidenceRequested
from loops.engine.facts.judging import PermissionDenied as PermissionDenied
from loops.engine.facts.outages import ModelAwaited as ModelAwaited
from loops.engine.facts.outages import ModelAwaitEnded as ModelAwaitEnded
from loops.engine.facts.people import ApprovalVoided as ApprovalVoided
from loops.engine.facts.people import GateDecided as GateDecided
from loops.engine.facts.people import GateOpened as GateOpened
from loops.engine.facts.people import MessageReceived as MessageReceived
from loops.engine.facts.people import RunPaused as RunPaused
from loops.engine.facts.people import RunResumed as RunResumed
from loops.engine.facts.people import StopRequested as StopRequested
from loops.engine.facts.people import StopWished as StopWished
from loops.engine.facts.recovering import Backtracked as Backtracked
from loops.engine.facts.recovering import FailureClassified as FailureClassified
from loops.engine.facts.recovering import ModelStopped as ModelStopped
from loops.engine.facts.recovering import ReflectionForced as ReflectionForced
from loops.engine.facts.recovering import ReflectionGiven as ReflectionGiven
from loops.engine.facts.running import PhaseEntered as PhaseEntered
from loops.engine.facts.running import RunEnded as RunEnded
from loops.engine.facts.running import RunStarted as RunStarted
from loops.engine.facts.running import RunTakenOver as RunTakenOver
from loops.engine.facts.running import StepCompleted as StepCompleted
from loops.engine.facts.running import TextsChanged as TextsChanged
from loops.engine.facts.turns import TurnAwaited as TurnAwaited
from loops.engine.facts.turns import TurnTaken as TurnTaken
from loops.engine.facts.undoing import CompensationCompleted as CompensationCompleted
from loops.engine.facts.undoing import CompensationIntended as CompensationIntended
from loops.engine.facts.undoing import RollbackEnded as RollbackEnded
from loops.engine.facts.undoing import RollbackRequested as RollbackRequested
from loops.engine.facts.undoing import UndoLearnt as UndoLearnt
from loops.engine.facts.verifying import Check as Check
from loops.engine.facts.verifying import ChecksCompleted as ChecksCompleted
from loops.engine.facts.verifying import ChecksStarted as ChecksStarted
from loops.engine.facts.verifying import DiagnosisMade as DiagnosisMade
from loops.engine.facts.verifying import ResultProposed as ResultProposed
from loops.engine.facts.windowing import ContextPruned as ContextPruned
from loops.engine.facts.windowing import ContextWarned as ContextWarned
from loops.engine.facts.windowing import PromptShortened as PromptShortened
from loops.engine.facts.windowing import SummaryRequested as SummaryRequested
from loops.engine.facts.workspaces import WorkspaceAwaited as WorkspaceAwaited
from loops.engine.facts.workspaces import WorkspaceFound as WorkspaceFound

KINDS: Mapping[str, type[Fact]] = {kind.__name__: kind for kind in Fact.__subclasses__()}
"""By the name under which the journal keeps them."""

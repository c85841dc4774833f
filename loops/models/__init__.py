"""Tables of the loops app. Behaviour of one row lives on its model, reads in ``querysets``, writes in ``services``."""

from loops.models.agents import Agent, ModelAddress, ModelConfig
from loops.models.breakers import Breaker, BreakerEvent, BreakerKind, BreakerRule
from loops.models.deliveries import Delivery
from loops.models.detections import Detection
from loops.models.forks import Fork
from loops.models.journal import Blob, Checkpoint, Fact, MailboxItem
from loops.models.people import Membership, Project
from loops.models.policies import AccessRule, ComplexityProfile, Policy, PolicyVersion
from loops.models.preflights import Preflight
from loops.models.provenance import AuditEvent, ProvenanceRecord
from loops.models.retention import CondemnedBlob, Tombstone
from loops.models.runs import Artifact, ModelCall, Run, Step, ToolCallRecord
from loops.models.seals import Seal
from loops.models.setups import Setup
from loops.models.tasks import Task, Workspace
from loops.models.tokens import ApiToken
from loops.models.turns import ModelTurn

__all__ = [
    "AccessRule",
    "Agent",
    "ApiToken",
    "Artifact",
    "AuditEvent",
    "Blob",
    "Breaker",
    "BreakerEvent",
    "BreakerKind",
    "BreakerRule",
    "Checkpoint",
    "ComplexityProfile",
    "CondemnedBlob",
    "Delivery",
    "Detection",
    "Fact",
    "Fork",
    "MailboxItem",
    "Membership",
    "ModelAddress",
    "ModelCall",
    "ModelConfig",
    "ModelTurn",
    "Policy",
    "PolicyVersion",
    "Preflight",
    "Project",
    "ProvenanceRecord",
    "Run",
    "Seal",
    "Setup",
    "Step",
    "Task",
    "Tombstone",
    "ToolCallRecord",
    "Workspace",
]

"""What packages of other people import: these names stay, whatever moves behind them.

A name that has to go is deprecated in the change log for one release before it goes.
"""

from __future__ import annotations

from loops.agents import BaseAgent, ExecutionResult
from loops.engine.effects import CallModel, CheckConfidence, Effect, End
from loops.engine.ports import ModelError
from loops.engine.state.lifecycle import Event
from loops.engine.state.run import RunState
from loops.engine.state.spec import RunSpec
from loops.engine.strategies.react import React
from loops.engine.values import (
    Access,
    Danger,
    FailureKind,
    ModelReply,
    ModelRequest,
    ModelRole,
    Reversibility,
    StopReason,
    ToolResult,
    ToolSpec,
    Usage,
)
from loops.llm.config import ModelConfig
from loops.llm.reply_builder import Ending
from loops.llm.without_sdk import OnEvent, answer, client, plain
from loops.tools.arguments import schema, string
from loops.tools.decorator import Effects, tool
from loops.tools.harness import ToolHarness
from loops.tools.registry import ArgumentError, Arguments, Tool, ToolRegistry, ToolRun

__all__ = [
    "Access",
    "ArgumentError",
    "Arguments",
    "BaseAgent",
    "CallModel",
    "CheckConfidence",
    "Danger",
    "Effect",
    "Effects",
    "End",
    "Ending",
    "Event",
    "ExecutionResult",
    "FailureKind",
    "ModelConfig",
    "ModelError",
    "ModelReply",
    "ModelRequest",
    "ModelRole",
    "OnEvent",
    "React",
    "Reversibility",
    "RunSpec",
    "RunState",
    "StopReason",
    "Tool",
    "ToolHarness",
    "ToolRegistry",
    "ToolResult",
    "ToolRun",
    "ToolSpec",
    "Usage",
    "answer",
    "client",
    "plain",
    "schema",
    "string",
    "tool",
]

"""Durable AI chat agents: conversations and streams that survive reloads, reconnects and `kill -9`."""

from __future__ import annotations

from .agents import (
    Agent,
    AgentToolLimits,
    AgentToolOutput,
    AgentToolResult,
    AIChatAgent,
    AppHandle,
    CallResult,
    ChatHandle,
    Connection,
    ConnectionRecord,
    Continue,
    Debounce,
    Every,
    FiberContext,
    Handle,
    Recovery,
    Retry,
    SaveMessagesResult,
    Stop,
    SubAgentAddress,
    Think,
    ThinkHandle,
    ToolContext,
    Turn,
    TurnLimits,
    Wait,
    agent_tool,
    callable_method,
    create_ui_message_stream,
    get_current_agent,
    scheduled,
    tool,
)
from .agents import callable_method as callable
from .agents.resumable import ResumableStream
from .agents.stream_manager import ResumableStreamManager
from .codec.lifecycle import LifecycleTracker, create_lifecycle_tracker
from .errors import ChatError, EverywordError, ToolError
from .messages.message import UIMessage
from .messages.model_messages import convert_to_model_messages
from .messages.prune_messages import prune_messages
from .messages.speaker_names import with_speakers
from .messages.validate_messages import validate_ui_messages
from .principals import Principal
from .server.app import Everyword
from .server.limits import Limits
from .server.permissions import Action, Connecting, Reject

__all__ = [
    "AIChatAgent",
    "Action",
    "Agent",
    "AgentToolLimits",
    "AgentToolOutput",
    "AgentToolResult",
    "AppHandle",
    "CallResult",
    "ChatError",
    "ChatHandle",
    "Connecting",
    "Connection",
    "ConnectionRecord",
    "Continue",
    "Debounce",
    "Every",
    "Everyword",
    "EverywordError",
    "FiberContext",
    "Handle",
    "LifecycleTracker",
    "Limits",
    "Principal",
    "Recovery",
    "Reject",
    "ResumableStream",
    "ResumableStreamManager",
    "Retry",
    "SaveMessagesResult",
    "Stop",
    "SubAgentAddress",
    "Think",
    "ThinkHandle",
    "ToolContext",
    "ToolError",
    "Turn",
    "TurnLimits",
    "UIMessage",
    "Wait",
    "__version__",
    "agent_tool",
    "callable",
    "callable_method",
    "convert_to_model_messages",
    "create_lifecycle_tracker",
    "create_ui_message_stream",
    "get_current_agent",
    "prune_messages",
    "scheduled",
    "tool",
    "validate_ui_messages",
    "with_speakers",
]

__version__ = "0.1.0.dev0"

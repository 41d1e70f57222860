"""What users subclass. The runtime stands beside these classes: they know its `api` and nothing below."""

from __future__ import annotations

from ..runtime.api import Continue, Recovery, Retry, Stop, Wait
from .agent import Agent, get_current_agent
from .agent_tool_types import AgentToolChunk, AgentToolOutput, AgentToolResult, AgentToolRun
from .agent_tools import AgentTool, AgentTools, agent_tool
from .app_handle import AppHandle
from .callables import CallResult, callable_method
from .chat import AIChatAgent, ChatResponder, Debounce, responder_for
from .chat_handle import ChatHandle
from .connections import Connection
from .fibers import Fiber, FiberContext, Fibers
from .handles import Handle
from .jobs import Every, Job, Jobs
from .limits import AgentToolLimits, TurnLimits
from .naming import agent_kind, kebab
from .operations import ConnectionRecord
from .result import SaveMessagesResult
from .schedules import scheduled
from .steps import Step, Steps
from .sub_agents import SubAgentAddress, SubAgents
from .submissions import Submission, Submissions
from .think import Think
from .think_context import StepContext, TurnContext
from .think_handle import ThinkHandle
from .toolbelt import tools_of
from .tools import Tool, ToolContext, client_tool, tool
from .turn import Turn
from .ui_stream import UIMessageStreamWriter, create_ui_message_stream
from .versions import Version, Versions

__all__ = ["AIChatAgent", "Agent", "ChatResponder", "Debounce", "SaveMessagesResult", "Turn", "agent_kind", "kebab"]
__all__ += ["AppHandle", "ChatHandle", "ConnectionRecord", "Fiber", "FiberContext", "Handle", "ThinkHandle"]
__all__ += ["StepContext", "Submission", "Think", "TurnContext", "Version"]
__all__ += ["Every", "Job", "scheduled"]
__all__ += ["AgentToolLimits", "AgentToolOutput", "TurnLimits"]
__all__ += ["AgentTools", "Fibers", "Jobs", "SubAgents", "Submissions", "Versions"]
__all__ += ["AgentTool", "AgentToolChunk", "AgentToolResult", "AgentToolRun", "SubAgentAddress", "agent_tool"]
__all__ += ["CallResult", "Connection", "callable_method", "get_current_agent"]
__all__ += ["Continue", "Recovery", "Retry", "Stop", "Wait"]
__all__ += ["Step", "Steps", "Tool", "ToolContext", "UIMessageStreamWriter", "client_tool", "create_ui_message_stream"]
__all__ += ["responder_for", "tool", "tools_of"]

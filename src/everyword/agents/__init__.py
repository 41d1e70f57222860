"""The classes that users subclass, and what they use with them. Of the runtime, they know only its interfaces."""

from __future__ import annotations

from ..runtime.api import Continue, Recovery, Retry, Stop, Wait
from ..runtime.api.lists import Participant
from .agent import Agent
from .agent_tools.definition import AgentTool, agent_tool
from .agent_tools.runs import AgentTools
from .agent_tools.types import AgentToolChunk, AgentToolOutput, AgentToolResult, AgentToolRun
from .attachments import AgentAttachments
from .callables import CallResult, callable_method
from .chat import AIChatAgent, Debounce
from .chat_responder import ChatResponder, responder_for
from .connections import Connection
from .execution_context import get_current_agent
from .fibers import Fiber, FiberContext, Fibers
from .handles.app_handle import AppHandle
from .handles.approvals import Approval, ApprovalPage, Approvals, may_approve
from .handles.chat_handle import ChatHandle
from .handles.conversations import Conversation, ConversationChange, ConversationPage, Conversations
from .handles.exports import ConversationExport
from .handles.handle import Handle
from .handles.operations import ConnectionRecord
from .handles.principals import ErasedAgent, ErasureReport, Principals
from .handles.shares import Share, Shares
from .jobs import Every, Job, Jobs
from .kinds import agent_kind, kebab
from .limits import AgentToolLimits, TurnLimits
from .save_messages_result import SaveMessagesResult
from .schedules import scheduled
from .streams.ui_message_stream import UIMessageStreamWriter, create_ui_message_stream
from .sub_agent_classes import SubAgentAddress
from .sub_agents import SubAgents
from .submissions import Submission, Submissions
from .think.context import StepContext, TurnContext
from .think.handle import ThinkHandle
from .think.think import Think
from .tools.definition import Tool, ToolContext, client_tool, tool
from .tools.discovery import tools_of
from .tools.steps import Step, Steps
from .turn import Turn
from .versions import Version, Versions

__all__ = ["AIChatAgent", "Agent", "ChatResponder", "Debounce", "SaveMessagesResult", "Turn", "agent_kind", "kebab"]
__all__ += ["AgentAttachments"]
__all__ += ["AppHandle", "ChatHandle", "ConnectionRecord", "Fiber", "FiberContext", "Handle", "ThinkHandle"]
__all__ += ["StepContext", "Submission", "Think", "TurnContext", "Version"]
__all__ += ["Approval", "ApprovalPage", "Approvals", "Conversation", "ConversationChange", "ConversationPage"]
__all__ += ["Share", "Shares"]
__all__ += ["ConversationExport", "Conversations", "Participant", "may_approve"]
__all__ += ["ErasedAgent", "ErasureReport", "Principals"]
__all__ += ["Every", "Job", "scheduled"]
__all__ += ["AgentToolLimits", "AgentToolOutput", "TurnLimits"]
__all__ += ["AgentTools", "Fibers", "Jobs", "SubAgents", "Submissions", "Versions"]
__all__ += ["AgentTool", "AgentToolChunk", "AgentToolResult", "AgentToolRun", "SubAgentAddress", "agent_tool"]
__all__ += ["CallResult", "Connection", "callable_method", "get_current_agent"]
__all__ += ["Continue", "Recovery", "Retry", "Stop", "Wait"]
__all__ += ["Step", "Steps", "Tool", "ToolContext", "UIMessageStreamWriter", "client_tool", "create_ui_message_stream"]
__all__ += ["responder_for", "tool", "tools_of"]

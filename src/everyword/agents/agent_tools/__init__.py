"""Agent tools: sub-agents that work for an agent as its tools."""

from __future__ import annotations

from .definition import AgentTool, agent_tool
from .runs import AgentTools, HasAgentTools
from .types import AgentToolChunk, AgentToolOutput, AgentToolResult, AgentToolRun

__all__ = ["AgentTool", "AgentToolChunk", "AgentToolOutput", "AgentToolResult", "AgentToolRun", "AgentTools"]
__all__ += ["HasAgentTools", "agent_tool"]

"""Agent tools: sub-agents that work for an agent as its tools."""

from __future__ import annotations

from .runs import AgentTool, AgentTools, HasAgentTools, agent_tool
from .types import AgentToolChunk, AgentToolOutput, AgentToolResult, AgentToolRun

__all__ = ["AgentTool", "AgentToolChunk", "AgentToolOutput", "AgentToolResult", "AgentToolRun", "AgentTools"]
__all__ += ["HasAgentTools", "agent_tool"]

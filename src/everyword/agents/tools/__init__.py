"""Tools: functions and methods that a model may call, and the steps of an answer that calls them."""

from __future__ import annotations

from .calls import ToolContext, ToolFailed, ToolProgress, ToolResult, ToolYield
from .definition import AnyTool, Tool, client_tool, tool
from .discovery import tools_of
from .steps import Step, Steps

__all__ = ["AnyTool", "Step", "Steps", "Tool", "ToolContext", "ToolFailed", "ToolProgress", "ToolResult", "ToolYield"]
__all__ += ["client_tool", "tool", "tools_of"]

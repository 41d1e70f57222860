"""What users subclass. The runtime stands beside these classes: they know its `api` and nothing below."""

from __future__ import annotations

from .agent import Agent
from .chat import AIChatAgent, ChatResponder, Debounce, responder_for
from .naming import agent_kind, kebab
from .result import SaveMessagesResult
from .turn import Turn

__all__ = ["AIChatAgent", "Agent", "ChatResponder", "Debounce", "SaveMessagesResult", "Turn", "agent_kind", "kebab"]
__all__ += ["responder_for"]

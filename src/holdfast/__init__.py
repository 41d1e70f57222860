"""AI chat agents that do not lose a word: durable conversations, and streams that survive reloads and `kill -9`."""

from __future__ import annotations

from .agents import Agent, AIChatAgent, Debounce, SaveMessagesResult, Turn
from .agents.resumable import ResumableStream
from .codec.lifecycle import LifecycleTracker, create_lifecycle_tracker
from .errors import ChatError, HoldfastError
from .messages.message import UIMessage
from .server.access import Connecting, Principal, Reject
from .server.app import Holdfast
from .server.limits import Limits

__all__ = [
    "AIChatAgent",
    "Agent",
    "ChatError",
    "Connecting",
    "Debounce",
    "Holdfast",
    "HoldfastError",
    "LifecycleTracker",
    "Limits",
    "Principal",
    "Reject",
    "ResumableStream",
    "SaveMessagesResult",
    "Turn",
    "UIMessage",
    "__version__",
    "create_lifecycle_tracker",
]

__version__ = "0.1.0.dev0"

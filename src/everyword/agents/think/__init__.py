"""Think: an agent that answers with a model and tools, without code of its own."""

from __future__ import annotations

from .context import StepContext, TurnContext
from .handle import ThinkHandle
from .think import Think

__all__ = ["StepContext", "Think", "ThinkHandle", "TurnContext"]

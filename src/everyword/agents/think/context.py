"""What Think's hooks are given."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...messages.message import UIMessage
from ..tools.definition import AnyTool
from ..turn import Turn

__all__ = ["StepContext", "TurnContext"]


@dataclass(slots=True)
class TurnContext:
    """One attempt at a turn, before the model is asked. Whatever `before_turn` changes holds for this attempt.

    `messages` is what the answer answers; what there is of the answer itself is added at each step. `tools` are the
    agent's own, by name; those that the page offers come on top.
    """

    turn: Turn
    model: Any
    instructions: str
    tools: dict[str, AnyTool]
    messages: list[UIMessage]
    max_steps: int
    settings: dict[str, Any] = field(default_factory=dict)
    output_type: Any = None


@dataclass(slots=True)
class StepContext:
    """One question to the model. What `before_step` changes holds for this step only.

    `only_tools` narrows the tools that the model is told of. `usage` counts the tokens of the attempt so far. The last
    three are set for `on_step_finish`: why the model stopped, the tokens of this step, and the answer as it stands.
    """

    turn: Turn
    number: int
    model: Any
    instructions: str
    messages: list[UIMessage]
    settings: dict[str, Any]
    only_tools: list[str] | None = None
    usage: dict[str, int] = field(default_factory=dict)
    finish_reason: str | None = None
    step_usage: dict[str, int] = field(default_factory=dict)
    message: UIMessage | None = None

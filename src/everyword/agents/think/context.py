"""TurnContext and StepContext: the arguments of Think's hooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...messages.message import UIMessage
from ..tools.definition import AnyTool
from ..turn import Turn

__all__ = ["StepContext", "TurnContext"]


@dataclass(slots=True)
class TurnContext:
    """One attempt at a turn, before the model is asked. Changes that `before_turn` makes apply to this attempt.

    `messages` is the conversation to answer; the answer so far is added at each step. `tools` are the agent's own, by
    name; the tools of the page are added to them.
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
    """One request to the model. Changes that `before_step` makes apply to this step only.

    `only_tools` limits the tools that the model sees. `usage` counts the tokens of the attempt so far. The last
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

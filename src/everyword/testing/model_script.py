"""The script of a scripted model, and what remains of it after a part was said. Pure, apart from the gates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..errors import UsageError
from ..messages.message import UIMessage
from ..messages.tool_calls import is_tool_part
from .scripted_responder import Gate

__all__ = ["Answer", "Call", "ModelItem", "Once", "Reasoning", "Said", "read_said", "rest_of"]


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A piece of the model's reasoning."""

    text: str


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call. Without an id it gets one that is the same in every run."""

    tool: str
    input: dict[str, Any] = field(default_factory=dict)
    id: str = ""


@dataclass(slots=True)
class Once:
    """A temporary failure: raised the first time that it is reached, and not again."""

    failure: Exception
    is_spent: bool = False


ModelItem = str | Reasoning | Call | Gate | Once | Exception | dict[str, Any]
Answer = ModelItem | Sequence[ModelItem] | Callable[[str], ModelItem | Sequence[ModelItem]]


@dataclass(slots=True)
class Said:
    """The answer to one question so far. `number` counts the questions from 0."""

    number: int = 0
    question: str = ""
    text: str = ""
    reasoning: str = ""
    calls: set[str] = field(default_factory=set)


def read_said(messages: Iterable[UIMessage]) -> Said:
    """Return the last question of a conversation, and its answer so far."""
    said = Said(number=-1)
    for message in messages:
        if message.role == "user":
            said = Said(said.number + 1, message.text)
        elif message.role == "assistant":
            said.text += message.text
            said.reasoning += "".join(part.get("text", "") for part in message.parts if part["type"] == "reasoning")
            said.calls |= {str(part.get("toolCallId")) for part in message.parts if is_tool_part(part)}
    return said if said.number >= 0 else replace(said, number=0)


def rest_of(answers: Sequence[Answer], said: Said) -> tuple[list[ModelItem], bool]:
    """Return the remaining items of the current step, and whether the step begins now.

    A step ends after its calls. Items that were said are left out, with the gates and failures before them.

    Raises:
        UsageError: the script has no answer to this question.
    """
    if said.number >= len(answers):
        raise UsageError(
            f"unable to answer question {said.number + 1} ({said.question!r}); the script has {len(answers)} answers"
        )
    answer = answers[said.number]
    given: Any = answer(said.question) if callable(answer) else answer
    items = _named(list(given) if isinstance(given, list | tuple) else [given], said.number)
    left = _Left(said)
    for step in _steps(items):
        rest = left.after(step)
        if rest:
            return rest, rest == step
    return [], False


def _named(items: list[ModelItem], number: int) -> list[ModelItem]:
    return [
        replace(item, id=item.id or f"call-{number + 1}-{place + 1}") if isinstance(item, Call) else item
        for place, item in enumerate(items)
    ]


def _steps(items: list[ModelItem]) -> Iterable[list[ModelItem]]:
    step: list[ModelItem] = []
    for item in items:
        if not isinstance(item, Call) and any(isinstance(each, Call) for each in step):
            yield step
            step = []
        step.append(item)
    yield step


class _Left:
    """Removes from a script, item by item, what was said already."""

    def __init__(self, said: Said) -> None:
        self._text, self._reasoning, self._calls = len(said.text), len(said.reasoning), set(said.calls)

    def after(self, step: list[ModelItem]) -> list[ModelItem]:
        cut = [self._cut(item) for item in step]
        last = max((place for place, item in enumerate(step) if cut[place] != item), default=-1)
        return [
            left
            for place, left in enumerate(cut)
            if left is not None and (place > last or isinstance(left, str | Reasoning | Call))
        ]

    def _cut(self, item: ModelItem) -> ModelItem | None:
        match item:
            case str():
                rest, self._text = item[self._text :], max(0, self._text - len(item))
                return rest or None
            case Reasoning():
                thought, self._reasoning = item.text[self._reasoning :], max(0, self._reasoning - len(item.text))
                return Reasoning(thought) if thought else None
            case Call():
                return None if item.id in self._calls else item
            case _:
                return item

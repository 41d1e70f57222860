"""A model that answers from a script: for `Think` agents, and for agents that call a model themselves."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

from ..errors import UsageError
from ..messages.message import Chunk, UIMessage
from .model_script import Answer, Call, ModelItem, Once, Reasoning, Said, read_said, rest_of
from .scripted_responder import Gate

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models.function import FunctionModel as _Model

    _is_model = True
else:
    try:
        from pydantic_ai.models.function import FunctionModel as _Model

        _is_model = True
    except ImportError:  # still good for `stream`
        _Model, _is_model = object, False

__all__ = ["ScriptedModel"]


class ScriptedModel(_Model):
    """Answers from a script: the first question with the first answer, and so on. Needs no key and no network.

    It is a model of Pydantic AI, so `model = ScriptedModel(...)` is all that a `Think` needs; in `on_chat_message`,
    iterate over `stream(self.messages)`, or with tools over `step.run(model.stream(step.messages))`.

    An answer is a text, another item, a list, or a function from the question to one. Strings are streamed piece by
    piece, `Reasoning` is streamed as reasoning, `Call` calls a tool (the items after it follow when the call has its
    result), a `Gate` waits until the test opens it, an exception is raised, and `Once(exception)` is raised the first
    time only. A chunk of the AI SDK is passed on, in `stream` alone.

    The model reads its position from the conversation: called again after a crash, it continues behind the text that
    was said. `asked` records the questions.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers: Sequence[Answer] = answers
        self.asked: list[str] = []
        if _is_model:
            super().__init__(self._respond, stream_function=self._stream, model_name="scripted")

    async def stream(self, messages: Sequence[UIMessage]) -> AsyncIterator[str | Chunk]:
        """Yield the next step of the answer in this conversation: text and chunks."""
        said = read_said(messages)
        items, is_new = self._next(said)
        thought, thoughts, is_thinking = "", 0, False
        if is_new:
            yield {"type": "start-step"}
        async for item in _played(items):
            if isinstance(item, Reasoning) != is_thinking:
                is_thinking = not is_thinking
                thoughts += is_thinking
                thought = f"reasoning-{said.number}-{len(said.reasoning)}-{thoughts}"
                yield {"type": "reasoning-start" if is_thinking else "reasoning-end", "id": thought}
            match item:
                case Reasoning():
                    yield {"type": "reasoning-delta", "id": thought, "delta": item.text}
                case Call():
                    announced: Chunk = {"type": "tool-input-available", "toolCallId": item.id}
                    yield {**announced, "toolName": item.tool, "input": item.input}
                case _:
                    yield item
        if is_thinking:
            yield {"type": "reasoning-end", "id": thought}
        yield {"type": "finish-step"}

    def _next(self, said: Said) -> tuple[list[ModelItem], bool]:
        self.asked.append(said.question)
        return rest_of(self.answers, said)

    # -- as a model of Pydantic AI --------------------------------------------------------------------------------

    async def _stream(self, messages: list[ModelMessage], info: Any) -> AsyncIterator[Any]:
        from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall

        items, _ = self._next(_read_history(messages))
        is_silent = True
        place = 0
        async for item in _played(items):
            is_silent, place = False, place + 1
            match item:
                case str():
                    yield item
                case Reasoning():
                    yield {0: DeltaThinkingPart(content=item.text)}
                case Call():
                    given = json.dumps(item.input)
                    yield {place: DeltaToolCall(name=item.tool, json_args=given, tool_call_id=item.id)}
                case _:
                    raise UsageError("unable to say a chunk as a model; chunks are for `stream` in `on_chat_message`")
        if is_silent:
            yield ""

    async def _respond(self, messages: list[ModelMessage], info: Any) -> ModelResponse:
        from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

        parts: list[Any] = []
        async for item in _played(self._next(_read_history(messages))[0]):
            match item:
                case str():
                    parts.append(TextPart(item))
                case Reasoning():
                    parts.append(ThinkingPart(item.text))
                case Call():
                    parts.append(ToolCallPart(item.tool, item.input, item.id))
                case _:
                    raise UsageError("unable to say a chunk as a model; chunks are for `stream` in `on_chat_message`")
        return ModelResponse(parts=parts)


async def _played(items: list[ModelItem]) -> AsyncIterator[str | Reasoning | Call | Chunk]:
    """Yield the items of the script; wait at gates and raise its exceptions."""
    for item in items:
        match item:
            case Gate():
                await item.wait()
            case Once():
                if not item.is_spent:
                    item.is_spent = True
                    raise item.failure
            case Exception():
                raise item
            case _:
                yield item


def _read_history(messages: list[ModelMessage]) -> Said:
    """Return the last question of a model's history, and its answer so far; skip prompts of everyword itself."""
    from ..agents.think.model import GO_ON
    from ..agents.think.output import OUTPUT_TOOL

    said = Said(number=-1)
    for part in (part for message in messages for part in message.parts):
        match part.part_kind:
            case "user-prompt" if part.content != GO_ON and OUTPUT_TOOL not in _text(part.content):
                said = Said(said.number + 1, _text(part.content))
            case "text":
                said.text += part.content
            case "thinking":
                said.reasoning += part.content
            case "tool-call":
                said.calls.add(part.tool_call_id)
    said.number = max(said.number, 0)
    return said


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(piece if isinstance(piece, str) else str(getattr(piece, "text", "")) for piece in content)

"""Both base classes under one script: what a model says, step by step, played by whichever class is asked for.

A test's agent is a class with a method `model(asked)` that yields what the model says to one question: text, and chunks
as the AI SDK defines them. `answering(base, cls)` makes an agent of it. Over `AIChatAgent` the chunks go through
`turn.steps()` as they are; over `Think` they come out of a model of Pydantic AI, and what no provider says (data,
sources, metadata) is written beside it, as tools and hooks do.
"""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import genai_prices.data  # noqa: F401 - slow, and else imported in the first answer of every process
import pydantic_ai.direct  # noqa: F401 - the same
from pydantic_ai.messages import BinaryContent, FilePart, ModelResponseStreamEvent
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.models.function import FunctionModel

from everyword.agents import AIChatAgent, StepContext, Think, Turn
from everyword.errors import ChatError
from everyword.messages.message import UIMessage

__all__ = ["BASES", "Asked", "Base", "answering"]


@dataclass(frozen=True)
class Asked:
    """One question to the model: `messages` end with what there is of this answer, if there is any of it."""

    turn: Turn
    messages: list[UIMessage]
    number: int

    @property
    def question(self) -> str:
        return next(message.text for message in reversed(self.messages) if message.role == "user")

    @property
    def answer(self) -> UIMessage | None:
        last = self.messages[-1]
        return last if last.role == "assistant" else None


@dataclass(frozen=True)
class Base:
    """One of the classes that users subclass, and how it differs where a script can tell."""

    name: str
    calls_mid_response: bool
    """Whether a call runs while its response still streams; else they all run at its end."""

    def __str__(self) -> str:
        return self.name


BASES: Final = {
    base.name: base for base in (Base("AIChatAgent", calls_mid_response=True), Base("Think", calls_mid_response=False))
}


def answering(base: str, cls: type[Any]) -> type[AIChatAgent]:
    """Return `cls` as an agent of this base class.

    `said(turn)`, if it has one, is awaited after every chunk. With `is_plain`, an answer has no steps where the base
    class knows such answers.
    """
    return type(cls.__name__, (cls, _DRIVERS[base]), {})


class _ByHand(AIChatAgent):
    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async with aclosing(self._plain(turn) if getattr(self, "is_plain", False) else self._stepwise(turn)) as chunks:
            async for chunk in chunks:
                yield chunk
                await said(self, turn)

    async def _plain(self, turn: Turn) -> AsyncIterator[Any]:
        async with aclosing(self.reply(Asked(turn, self.messages, 1))) as items:
            async for item in items:
                yield item

    async def _stepwise(self, turn: Turn) -> AsyncIterator[Any]:
        async for step in turn.steps():
            asked = Asked(turn, step.messages, step.number)
            async with aclosing(step.run(self._framed(asked))) as chunks:
                async for chunk in chunks:
                    yield chunk

    async def _framed(self, asked: Asked) -> AsyncIterator[Any]:
        """Yield what the model says as one step."""
        is_begun, finish = False, None
        async with aclosing(self.reply(asked)) as items:
            async for item in items:
                kind = item["type"] if isinstance(item, dict) else None
                if kind == "finish":
                    finish = item
                    continue
                if kind != "start" and not is_begun:
                    is_begun = True
                    yield {"type": "start-step"}
                yield item
        if is_begun:
            yield {"type": "finish-step"}
        if finish is not None:
            yield finish


class _ByThinking(Think):
    def before_step(self, ctx: StepContext) -> None:
        asked = Asked(ctx.turn, ctx.messages, ctx.number)
        ctx.model = _Model(lambda: self.reply(asked), ctx.turn)

    def get_model(self) -> Any:
        return _Model(lambda: self.reply(None), None)

    async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
        async with aclosing(super().on_chat_message(turn)) as chunks:
            async for chunk in chunks:
                yield chunk
                await said(self, turn)


_DRIVERS: Final[dict[str, type[AIChatAgent]]] = {"AIChatAgent": _ByHand, "Think": _ByThinking}


async def said(agent: Any, turn: Turn) -> None:
    wait = getattr(agent, "said", None)
    if wait is not None:
        await wait(turn)


class _Model(FunctionModel):
    def __init__(self, script: Callable[[], AsyncIterator[Any]], turn: Turn | None) -> None:
        super().__init__(stream_function=lambda messages, info: script(), model_name="scripted")
        self._script, self._turn = script, turn

    @asynccontextmanager
    async def request_stream(
        self, messages: Any, model_settings: Any, model_request_parameters: Any, run_context: Any = None
    ) -> AsyncIterator[StreamedResponse]:
        settings, parameters = self.prepare_request(model_settings, model_request_parameters)
        async with aclosing(self._script()) as items:
            yield _Spoken(parameters, items, self._turn)


_REASONS: Final = {"stop": "stop", "length": "length", "tool-calls": "tool_call"}


class _Spoken(StreamedResponse):
    """A provider's response, made of the items of a script."""

    model_name, provider_name, provider_url = "scripted", None, None
    timestamp = datetime(2026, 1, 1, tzinfo=UTC)

    def __init__(self, parameters: ModelRequestParameters, items: AsyncIterator[Any], turn: Turn | None) -> None:
        super().__init__(parameters)
        self._items, self._turn = items, turn
        self._parts, self._streamed = 0, set[str]()

    async def close_stream(self) -> None:
        return None

    async def _get_event_iterator(self) -> AsyncIterator[ModelResponseStreamEvent]:
        is_text = False
        async for item in self._items:
            if isinstance(item, str):
                self._parts += not is_text  # text behind something else is a part of its own
                is_text = True
                for event in self._parts_manager.handle_text_delta(vendor_part_id=f"text {self._parts}", content=item):
                    yield event
                continue
            is_text = False
            for event in self._events(item):
                yield event
            for chunk in _beside(item):
                assert self._turn is not None
                await self._turn.write(chunk)

    def _events(self, item: dict[str, Any]) -> list[ModelResponseStreamEvent]:
        manager = self._parts_manager
        match item:
            case {"type": "tool-input-start", "toolCallId": call, "toolName": name}:
                self._streamed.add(call)
                return list(manager.handle_tool_call_delta_events(**_of(call), tool_name=name, args=""))
            case {"type": "tool-input-delta", "toolCallId": call, "inputTextDelta": delta}:
                return list(manager.handle_tool_call_delta_events(**_of(call), args=delta))
            case {"type": "tool-input-available", "toolCallId": call, "toolName": name, "input": given}:
                if call in self._streamed:
                    return []
                return [manager.handle_tool_call_part(**_of(call), tool_name=name, args=json.dumps(given))]
            case {"type": "reasoning-delta", "id": part, "delta": delta}:
                return list(manager.handle_thinking_delta(vendor_part_id=part, content=delta))
            case {"type": "file", "url": url, "mediaType": kind}:
                content = BinaryContent(base64.b64decode(url.partition(",")[2]), media_type=kind)
                return [manager.handle_part(vendor_part_id=None, part=FilePart(content=content))]
            case {"type": "finish", "finishReason": reason}:
                self.finish_reason = _REASONS[reason]
            case {"type": "error", "errorText": text}:
                raise ChatError(text)
        return []


def _of(call: str) -> dict[str, str]:
    return {"vendor_part_id": call, "tool_call_id": call}


def _beside(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what of an item no provider says: the agent writes it."""
    if "messageMetadata" in item:
        return [{"type": "message-metadata", "messageMetadata": item["messageMetadata"]}]
    return [item] if item["type"].startswith(("data-", "source-")) else []

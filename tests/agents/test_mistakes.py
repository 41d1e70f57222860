"""Mistakes in an agent's own code: each gets a log line that names the place and the cure, and clients a safe text."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from everyword.agents import AIChatAgent, Turn
from everyword.agents.streams.ui_message_stream import create_ui_message_stream
from everyword.errors import BadChunk
from everyword.events import Event, TurnEnded, decode_event
from everyword.ids import Seq
from everyword.messages.chunks import NEWER_TYPES
from everyword.models.errors import classify_error_report, model_error
from tests.agents.kit import AGENT, Served, served

QUESTION = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "hello"}]}
SAFE = "Something went wrong while answering. Please try again."


class Foreign(msgspec.Struct):
    """A Struct that is no chunk."""

    text: str = "hi"


WRONG = [
    (None, "yielded None", "leave out"),
    (7, "yielded int", "str(...)"),
    (object(), "yielded object", "It may yield str"),
    (Foreign(), "yielded Foreign", "It may yield str"),
    ({}, "yielded a dict without a type", "It may yield str"),
    ({"type": 7}, "yielded a dict without a type", "It may yield str"),
    ({"type": "hologram"}, "yielded a chunk of the unknown type 'hologram'", "data-hologram"),
    ({"type": "text-dleta", "id": "1", "delta": "x"}, "unknown type 'text-dleta'", "did you mean 'text-delta'?"),
    ({"type": "text", "text": "x"}, "unknown type 'text'", "a type of your own"),
]


@pytest.mark.parametrize(("item", "what", "cure"), WRONG)
async def test_an_item_that_may_not_be_yielded_fails_the_turn_and_is_named(
    item: Any, what: str, cure: str, caplog: pytest.LogCaptureFixture
) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            yield "before "
            yield item
            yield "after"

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([QUESTION])
    assert (result.status, result.error) == ("error", SAFE)
    assert result.message is not None and result.message.text == "before "
    (record,) = [each for each in caplog.records if "failed" in each.getMessage()]
    line = Chat.on_chat_message.__code__.co_firstlineno + 2
    text = record.getMessage()
    assert "Chat.on_chat_message" in text and what in text and cure in text
    assert f"test_mistakes.py, line {line}" in text
    assert record.exc_info is None  # every frame of it would be one of ours


def _plainly(item: Any) -> Iterator[Any]:
    yield "before "
    yield item


@pytest.mark.parametrize("answer", [lambda item: ["before ", item], _plainly])
async def test_an_item_of_a_returned_answer_is_refused_as_well(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return answer(None)

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([QUESTION])
    assert result.status == "error" and result.message is not None and result.message.text == "before "
    assert "Chat.on_chat_message yielded None" in caplog.text


async def test_a_returned_object_that_is_no_answer_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return 42

    async with served(Chat) as serving:
        assert (await serving.agent.save_messages([QUESTION])).error == SAFE
    assert "Chat.on_chat_message returned int. It may return str" in caplog.text


async def test_an_exception_of_the_handler_keeps_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            await self.queue("nobody")

    async with served(Chat) as serving:
        assert (await serving.agent.save_messages([QUESTION])).error == SAFE
    (record,) = [each for each in caplog.records if "failed" in each.getMessage()]
    assert record.exc_info is not None


@pytest.mark.parametrize("kind", sorted(NEWER_TYPES))
async def test_a_type_that_only_newer_clients_know_fails_nothing(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            yield {"type": kind}
            yield "said"

    caplog.set_level(logging.WARNING, "everyword.runtime")
    async with served(Chat) as serving:
        result = await serving.agent.save_messages([QUESTION])
    assert result.status == "completed" and result.message is not None and result.message.text == "said"
    assert f"unable to send {kind}; clients before ai 7 reject it" in caplog.text


FROM_ELSEWHERE = (
    b'data: {"type":"hologram"}\n\ndata: {"type":"text-start","id":"1"}\n\n'
    b'data: {"type":"text-delta","id":"1","delta":"said"}\n\ndata: {"type":"text-end","id":"1"}\n\n'
)


async def _bytes() -> AsyncIterator[bytes]:
    yield FROM_ELSEWHERE


@pytest.mark.parametrize("is_in_step", [False, True])
async def test_an_unknown_type_in_a_stream_of_another_server_is_dropped(
    is_in_step: bool, caplog: pytest.LogCaptureFixture
) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            if not is_in_step:
                async for piece in _bytes():
                    yield piece
                return
            async for step in turn.steps():
                async for chunk in step.run(_bytes()):
                    yield chunk

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([QUESTION])
    assert result.status == "completed" and result.message is not None and result.message.text == "said"
    assert "left out a chunk of the unknown type 'hologram'" in caplog.text


async def test_an_unknown_chunk_is_refused_where_it_is_written() -> None:
    refused: list[BadChunk] = []

    def execute(writer: Any) -> None:
        try:
            writer.write({"type": "hologram"})
        except BadChunk as exc:
            refused.append(exc)

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            try:
                await turn.write({"type": "hologram"})
            except BadChunk as exc:
                refused.append(exc)
            async for chunk in create_ui_message_stream(execute):
                yield chunk
            yield "said"

    async with served(Chat) as serving:
        assert (await serving.agent.save_messages([QUESTION])).status == "completed"
    assert len(refused) == 2
    assert all("unknown type 'hologram'" in str(exc) for exc in refused)


@pytest.mark.parametrize("given", [None, 7, {"type": "hologram"}])
async def test_an_item_of_a_merged_stream_or_a_step_is_refused_by_the_name_of_the_call(
    given: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def execute(writer: Any) -> None:
        writer.merge([given])

    class Merging(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return create_ui_message_stream(execute)

    class Stepping(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            async for step in turn.steps():
                async for chunk in step.run([given]):
                    yield chunk

    for cls, where in ((Merging, "the stream given to `merge`"), (Stepping, "the answer given to `step.run`")):
        caplog.clear()
        async with served(cls) as serving:
            assert (await serving.agent.save_messages([QUESTION])).error == SAFE
        assert f"{where} yielded" in caplog.text


async def test_the_cure_of_a_models_failure_is_in_the_log_line_and_not_in_the_public_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> AsyncIterator[Any]:
            yield "Well, "
            raise model_error(classify_error_report({"error": {"code": "invalid_api_key"}}, provider="openai"))

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([QUESTION])
        (ended,) = [event for event in await log_of(serving) if isinstance(event, TurnEnded)]
    assert result.error == "The assistant is not set up correctly. Please tell its operator."
    cure = "unable to get an answer from the openai model; invalid_api_key; check the API key and its permissions"
    (record,) = [each for each in caplog.records if "failed" in each.getMessage()]
    assert cure in record.getMessage() and record.exc_info is None
    assert ended.detail is not None and cure in ended.detail


async def log_of(serving: Served) -> list[Event]:
    return [decode_event(stored.body) for stored in await serving.directory.store.read(AGENT, Seq(0), 1000)]

"""AIChatAgent as its users write it: what may be given back, and what may be asked of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from starlette import responses

from everyword.agents import AIChatAgent, Debounce, SaveMessagesResult, Turn, kebab
from everyword.agents.answer_stream import answer_items
from everyword.errors import ChatError, UsageError
from everyword.messages.message import UIMessage
from tests.agents.kit import served


def user(text: str, message_id: str = "u1") -> dict[str, Any]:
    return {"id": message_id, "role": "user", "parts": [{"type": "text", "text": text}]}


SSE = (
    b'data: {"type":"start"}\r\n\r\n: keep-alive\n\ndata: {"type":"text-start","id":"1"}\n\n'
    b'id: 7\ndata: {"type":"text-delta","id":"1","delta":"h\xc3\xa9llo \xf0\x9f\x8c\x8a"}\n\n'
    b'data: {"type":"text-end","id":"1"}\n\ndata: [DONE]\n\n'
)


class Response:
    """A streaming response as Starlette makes them."""

    def __init__(self, pieces: list[bytes], kind: str) -> None:
        self.headers = {"content-type": kind}
        self.body_iterator = self._iterate(pieces)

    @staticmethod
    async def _iterate(pieces: list[bytes]) -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece


async def _async(*items: Any) -> AsyncIterator[Any]:
    for item in items:
        yield item


def _sync(*items: Any) -> Iterator[Any]:
    yield from items


CHUNKS = [
    {"type": "text-start", "id": "1"},
    {"type": "text-delta", "id": "1", "delta": "hello"},
    {"type": "text-end", "id": "1"},
]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: "hello", "hello"),
        (lambda: _async("hel", "lo"), "hello"),
        (lambda: _sync("hel", "lo"), "hello"),
        (lambda: ["hel", "lo"], "hello"),
        (lambda: CHUNKS, "hello"),
        (lambda: _async(*CHUNKS), "hello"),
        (lambda: b"plain bytes", "plain bytes"),
        (lambda: SSE, "héllo 🌊"),
        (lambda: _async(SSE), "héllo 🌊"),
        (lambda: Response([SSE], "text/event-stream"), "héllo 🌊"),
        (lambda: Response([b"plain ", b"text"], "text/plain; charset=utf-8"), "plain text"),
        (lambda: responses.Response("plain text"), "plain text"),
        (lambda: responses.PlainTextResponse("héllo 🌊"), "héllo 🌊"),
        (lambda: responses.Response(SSE, media_type="text/event-stream"), "héllo 🌊"),
        (lambda: responses.JSONResponse({"a": 1}), '{"a":1}'),
        (lambda: responses.StreamingResponse(_async("hel", "lo"), media_type="text/plain"), "hello"),
        (lambda: httpx.Response(200, text="héllo 🌊"), "héllo 🌊"),
    ],
)
@pytest.mark.obligation("003-1")
async def test_whatever_is_given_back_becomes_one_answer(make: Any, text: str) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return make()

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([user("hi")])
        assert result.status == "completed"
        assert result.message is not None and result.message.text == text


@pytest.mark.parametrize("cut", range(1, len(SSE)))
async def test_sse_bytes_cut_anywhere_lose_nothing(cut: int) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return _async(SSE[:cut], SSE[cut:])

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([user("hi")])
        assert result.message is not None and result.message.text == "héllo 🌊"


@pytest.mark.obligation("003-15")
async def test_the_method_may_yield_and_take_no_one_or_two_arguments() -> None:
    class Bare(AIChatAgent):
        async def on_chat_message(self) -> Any:  # type: ignore[override]
            yield "none"

    class One(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            yield f"one {turn.attempt}"

    class Two(AIChatAgent):
        async def on_chat_message(self, on_finish: Any, options: Turn) -> Any:  # type: ignore[override]
            return f"two {options.attempt}"

    for cls, text in ((Bare, "none"), (One, "one 1"), (Two, "two 1")):
        async with served(cls) as serving:
            result = await serving.agent.save_messages([user("hi")])
            assert result.message is not None and result.message.text == text


async def test_an_answer_of_nothing_completes_without_a_message() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return None

    async with served(Chat) as serving:
        assert (await serving.agent.save_messages([user("hi")])).status == "completed"
        assert [message.role for message in serving.agent.messages] == ["user"]


async def test_an_answer_of_the_wrong_type_says_what_is_legal_to_the_developer_only() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return 42

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([user("hi")])
        assert result.status == "error"
        assert result.error is not None and "42" not in result.error and "int" not in result.error


@pytest.mark.parametrize(
    ("failure", "shown"), [(ChatError("Come back at noon."), "Come back at noon."), (KeyError("sk-1"), None)]
)
async def test_only_a_chat_errors_text_is_shown(failure: Exception, shown: str | None) -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            yield "Hel"
            raise failure

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([user("hi")])
        assert result.status == "error"
        assert result.error is not None and "sk-1" not in result.error
        assert shown is None or result.error == shown
        assert result.message is not None and result.message.text == "Hel"


@pytest.mark.obligation("003-5", "003-12", "003-19")
async def test_messages_are_what_the_turn_answers_and_afterwards_what_is_stored() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return f"{len(self.messages)} so far"

    async with served(Chat) as serving:
        await serving.agent.save_messages([user("a", "u1")])
        await serving.agent.save_messages([*serving.agent.messages, user("b", "u2")])
        assert [m.text for m in serving.agent.messages] == ["a", "1 so far", "b", "3 so far"]


@pytest.mark.obligation("003-18")
async def test_persisting_stores_without_a_turn_and_deletes_nothing() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return "never"

    async with served(Chat) as serving:
        await serving.agent.persist_messages([user("a", "u1"), user("b", "u2")])
        await serving.agent.persist_messages([user("changed", "u1")])
        assert await serving.agent.wait_until_stable(10)
        assert [m.text for m in serving.agent.messages] == ["changed", "b"]


async def test_saving_a_function_calls_it_with_the_conversation_when_its_turn_comes() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return f"re {self.messages[-1].text}"

    async with served(Chat) as serving:
        first = asyncio.create_task(serving.agent.save_messages([user("a", "u1")]))
        second = asyncio.create_task(serving.agent.save_messages(lambda now: [user(f"after {len(now)}", "u2")]))
        await asyncio.gather(first, second)
        assert [m.text for m in serving.agent.messages] == ["a", "re a", "after 2", "re after 2"]


async def test_a_turn_inside_a_turn_fails_loudly_instead_of_waiting_for_itself() -> None:
    seen: list[BaseException] = []

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            try:
                await self.save_messages([user("again", "u9")])
            except UsageError as exc:
                seen.append(exc)
            return "done"

    async with served(Chat) as serving:
        await serving.agent.save_messages([user("hi")])
        assert len(seen) == 1 and "inside a turn" in str(seen[0])


async def test_the_response_hook_gets_the_same_result_as_the_caller() -> None:
    told: list[SaveMessagesResult] = []
    heard = asyncio.Event()

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return "hello"

        async def on_chat_response(self, result: SaveMessagesResult) -> None:
            told.append(result)
            heard.set()

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([user("hi")])
        await heard.wait()
        assert told == [result]


async def test_continuing_extends_the_last_assistant_message() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return f" more {turn.body['why']}" if turn.continuation else "Once"

    async with served(Chat) as serving:
        assert (await serving.agent.continue_last_turn()).status == "skipped"
        await serving.agent.save_messages([user("hi")])
        result = await serving.agent.continue_last_turn({"why": "please"})
        assert (result.status, result.continuation) == ("completed", True)
        assert [m.text for m in serving.agent.messages] == ["hi", "Once more please"]


async def test_aborting_from_inside_ends_the_turn_as_aborted_with_its_partial() -> None:
    started = asyncio.Event()

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            yield "Hel"
            started.set()
            await turn.cancelled

    async with served(Chat) as serving:
        saving = asyncio.create_task(serving.agent.save_messages([user("hi")]))
        await started.wait()
        await serving.agent.abort_all_requests()
        result = await saving
        assert (result.status, result.error) == ("aborted", None)
        assert result.message is not None and result.message.text == "Hel"


async def test_sanitising_decides_what_is_stored() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return "the code is 1234"

        def sanitize_message_for_persistence(self, message: UIMessage) -> UIMessage:
            parts = [
                {**p, "text": p["text"].replace("1234", "****")} if p["type"] == "text" else p for p in message.parts
            ]
            return UIMessage(message.id, message.role, parts, message.metadata)

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([user("1234?")])
        assert result.message is not None and result.message.text == "the code is ****"
        assert [m.text for m in serving.agent.messages] == ["****?", "the code is ****"]


async def test_a_message_that_cannot_be_sanitised_ends_the_turn_as_an_error_and_is_kept() -> None:
    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            return "hello"

        def sanitize_message_for_persistence(self, message: UIMessage) -> UIMessage:
            if message.role == "assistant":
                raise ValueError("secret")
            return message

    async with served(Chat) as serving:
        result = await serving.agent.save_messages([user("hi")])
        assert result.status == "error" and result.error is not None and "secret" not in result.error
        assert result.message is not None and result.message.text == "hello"


@pytest.mark.obligation("003-13")
async def test_the_cap_limits_what_is_stored_and_not_what_the_turn_sees() -> None:
    seen: list[int] = []

    class Chat(AIChatAgent):
        max_persisted_messages = 3

        async def on_chat_message(self, turn: Turn) -> Any:
            seen.append(len(self.messages))
            return "ok"

    async with served(Chat) as serving:
        for number in range(4):
            await serving.agent.save_messages([user(str(number), f"u{number}")])
        assert [m.text for m in serving.agent.messages] == ["ok", "3", "ok"]
        assert seen == [1, 3, 4, 4]


async def test_stability_is_waited_for() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    class Chat(AIChatAgent):
        async def on_chat_message(self, turn: Turn) -> Any:
            begun.set()
            await gate.wait()
            return "ok"

    async with served(Chat) as serving:
        saving = asyncio.create_task(serving.agent.save_messages([user("hi")]))
        await begun.wait()
        assert not await serving.agent.wait_until_stable(timeout=0)
        gate.set()
        assert await serving.agent.wait_until_stable(timeout=20)
        await saving


@pytest.mark.parametrize(
    ("name", "segment"),
    [
        ("ChatAgent", "chat-agent"),
        ("MyAIAgent", "my-a-i-agent"),
        ("CHAT_AGENT", "chat-agent"),
        ("chat-agent", "chat-agent"),
        ("Chat_", "chat"),
        ("Chat", "chat"),
    ],
)
def test_a_class_name_becomes_the_path_segment_that_the_stock_client_asks_for(name: str, segment: str) -> None:
    assert kebab(name) == segment


def test_a_wrong_concurrency_policy_is_refused_with_the_choices() -> None:
    class Chat(AIChatAgent):
        message_concurrency = "newest"  # type: ignore[assignment]

    from everyword.agents import ChatResponder

    with pytest.raises(UsageError, match="Debounce"):
        _ = ChatResponder(Chat(None)).rules  # type: ignore[arg-type]
    Chat.message_concurrency = Debounce(0.25)
    assert ChatResponder(Chat(None)).rules.policy.debounce == 250  # type: ignore[arg-type]


class Tap:
    """A third-party stream that counts how often it was closed; it may return another one to read."""

    def __init__(self, *, gives_another: bool) -> None:
        self.closed = 0
        self._other = Tap(gives_another=False) if gives_another else None

    def __aiter__(self) -> Tap:
        return self._other or self

    async def __anext__(self) -> str:
        return "word"

    async def aclose(self) -> None:
        self.closed += 1

    @property
    def closings(self) -> list[int]:
        return [self.closed, *([self._other.closed] if self._other is not None else [])]


@pytest.mark.parametrize("gives_another", [False, True])
async def test_whatever_an_answer_is_read_from_is_closed_once(gives_another: bool) -> None:
    tap = Tap(gives_another=gives_another)
    items = answer_items(tap, "the answer")
    assert await anext(items) == "word"
    await items.aclose()
    assert set(tap.closings) == {1}

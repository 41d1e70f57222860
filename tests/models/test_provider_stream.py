from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from everyword.errors import ChatError, UsageError
from everyword.messages.message import Chunk
from everyword.models import failure_of, from_anthropic, from_iterator, from_openai, to_openai
from everyword.models.provider_stream import usage_counts
from tests.models import recordings as r
from tests.models.checks import collected, folded, kinds

_WITHOUT_SDKS = """
import asyncio, sys
for name in ("openai", "anthropic", "pydantic_ai", "pydantic", "pydantic_core", "httpx", "httpx2"):
    sys.modules[name] = None
from everyword import models
from everyword.errors import ChatError, UsageError

async def read():
    return [chunk async for chunk in models.from_openai([
        {"id": "x", "choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": "stop"}]},
    ])]

assert len(asyncio.run(read())) == 6
assert models.to_openai([{"id": "q", "role": "user", "parts": [{"type": "text", "text": "hi"}]}])
try:
    models.to_pydantic_ai([])
except UsageError as error:
    print(error)
"""


def test_the_package_works_without_any_sdk_and_says_which_extra_is_missing() -> None:
    ran = subprocess.run([sys.executable, "-c", _WITHOUT_SDKS], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stderr == ""
    assert ran.stdout == (
        "unable to import pydantic_ai; pydantic-ai-slim is missing. "
        "Install what the extra 'pydantic-ai' needs: pip install pydantic-ai-slim\n"
    )


async def test_pieces_of_text_are_one_part_of_one_step() -> None:
    async def pieces() -> AsyncIterator[str]:
        for piece in ("a", "", "b"):
            yield piece

    chunks = await collected(from_iterator(pieces()))
    assert kinds(chunks) == [
        *("start-step", "text-start", "text-delta", "text-delta", "text-end", "finish-step", "finish"),
    ]
    assert folded(chunks).text == "ab"
    assert await collected(from_iterator(["a", "b"])) == chunks


async def test_text_that_breaks_off_is_closed_before_the_exception_comes_out() -> None:
    def pieces() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    chunks: list[Chunk] = []

    async def read() -> None:
        async for chunk in from_iterator(pieces()):
            chunks.append(chunk)

    with pytest.raises(ZeroDivisionError):
        await read()
    assert kinds(chunks)[-2:] == ["text-end", "finish-step"]


async def test_what_is_no_text_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="unable to use int as a piece of text"):
        await collected(from_iterator([3]))  # type: ignore[list-item]


async def test_an_event_that_is_no_object_is_refused_with_a_sentence() -> None:
    with pytest.raises(UsageError, match="unable to read str as an event"):
        await collected(from_openai(["x"]))


async def test_a_stream_is_closed_when_its_reader_leaves() -> None:
    closed: list[bool] = []

    async def events() -> AsyncIterator[r.Event]:
        try:
            for event in r.CHAT_TEXT:
                yield event
        finally:
            closed.append(True)

    chunks = from_openai(events())
    await anext(chunks)
    await chunks.aclose()  # type: ignore[attr-defined]
    assert closed == [True]


def test_counts_that_a_provider_does_not_give_are_left_out() -> None:
    assert usage_counts(inputTokens=1, outputTokens=None, totalTokens="3") == {"inputTokens": 1}


STREAMS: list[tuple[Callable[..., AsyncIterator[Chunk]], list[r.Event]]] = [
    *((from_openai, events) for events in (*r.CHAT.values(), *r.RESPONSES.values())),
    *((from_anthropic, events) for events in r.CLAUDE.values()),
]


def end_of(events: list[r.Event]) -> int:
    """Return the place of the event that says that the answer is complete."""
    ends = {"response.completed", "response.incomplete", "message_stop"}
    return next(
        place
        for place, event in enumerate(events)
        if event.get("type") in ends or any(choice["finish_reason"] for choice in event.get("choices", []))
    )


@pytest.mark.parametrize("is_thrown", [False, True])
@pytest.mark.parametrize(("adapter", "events"), STREAMS)
async def test_wherever_a_stream_breaks_off_what_was_said_is_well_formed_and_can_be_sent_back(
    adapter: Callable[..., AsyncIterator[Chunk]], events: list[r.Event], is_thrown: bool
) -> None:
    def broken(length: int) -> Iterator[r.Event]:
        yield from events[:length]
        if is_thrown:
            raise ConnectionResetError("secret")

    async def read(length: int, chunks: list[Chunk]) -> None:
        async for chunk in adapter(broken(length)):
            chunks.append(chunk)

    for length in range(end_of(events) + 1):
        chunks: list[Chunk] = []
        with pytest.raises(ChatError) as caught:
            await read(length, chunks)
        failure = failure_of(caught.value)
        assert failure is not None
        assert (failure.kind, failure.retryable) == ("connection", True)
        assert "finish" not in kinds(chunks)
        message = folded(chunks)
        sent = to_openai([message])
        called = [call["id"] for each in sent for call in each.get("tool_calls", [])]
        assert called == [each["tool_call_id"] for each in sent if each["role"] == "tool"]

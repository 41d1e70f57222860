"""What every adapter's chunks have to be: fit for every client, and in need of no repair."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from everyword.errors import ChatError
from everyword.messages.chunks import check_chunk
from everyword.messages.fold import MessageFold
from everyword.messages.message import Chunk, Part, UIMessage
from everyword.messages.normaliser import Normaliser
from everyword.models.errors import ModelFailure, failure_of


async def collected(chunks: AsyncIterator[Chunk]) -> list[Chunk]:
    """Return all chunks, once the SDK has put its own things away too."""
    seen = [chunk async for chunk in chunks]
    await settled()
    return seen


async def failed(chunks: AsyncIterator[Chunk]) -> tuple[list[Chunk], ModelFailure]:
    """Return what came before a failure, and the failure."""
    seen: list[Chunk] = []
    failure = await _read_to_the_failure(chunks, seen)
    gc.collect()  # the exception holds frames in a circle
    await settled()
    return seen, failure


async def _read_to_the_failure(chunks: AsyncIterator[Chunk], seen: list[Chunk]) -> ModelFailure:
    async def read() -> None:
        async for chunk in chunks:
            seen.append(chunk)

    with pytest.raises(ChatError) as caught:
        await read()
    failure = failure_of(caught.value)
    assert failure is not None
    assert str(caught.value) == failure.public_text
    return failure


async def settled() -> None:
    """Let the loop close the generators that an SDK leaves hanging when its stream breaks."""
    for _ in range(20):
        await asyncio.sleep(0)


def folded(chunks: list[Chunk], *, base: UIMessage | None = None) -> UIMessage:
    """Return the message of the chunks, having checked that nothing about them needs repair."""
    normaliser = Normaliser("m", base=base)
    out: list[Chunk] = []
    for chunk in chunks:
        assert check_chunk(chunk) == chunk
        out += normaliser.feed(chunk)
    if any(chunk["type"] == "finish" for chunk in chunks):
        out += normaliser.finish()
    assert normaliser.problems == []
    given = chunks if base is not None or not chunks else [{"type": "start", "messageId": "m"}, *chunks]
    # A failed input is the one thing that is said in other words, because clients differ on it.
    if not any(chunk["type"] == "tool-input-error" for chunk in chunks) and base is None:
        assert out == given
    if not any(chunk["type"] == "abort" for chunk in chunks):
        assert _is_framed(chunks)
    fold = MessageFold("m", base=base)
    for chunk in out:
        fold.apply(chunk)
    assert not fold.open_parts
    return fold.message()


def _is_framed(chunks: list[Chunk]) -> bool:
    """Tell whether steps open and close in turn."""
    frames = [chunk["type"] for chunk in chunks if chunk["type"] in ("start-step", "finish-step")]
    return frames == ["start-step", "finish-step"] * (len(frames) // 2)


def kinds(chunks: list[Chunk]) -> list[str]:
    return [chunk["type"] for chunk in chunks]


def only(message: UIMessage, kind: str) -> Part:
    """Return the one part of that type."""
    found = [part for part in message.parts if part["type"] == kind]
    assert len(found) == 1, found
    return found[0]


def question(text: str = "hello") -> UIMessage:
    return UIMessage("q", "user", [{"type": "text", "text": text}])


def objects(events: list[dict[str, Any]]) -> AsyncIterator[dict[str, Any]]:
    """Return the events as an async iterator of dicts."""

    async def stream() -> AsyncIterator[dict[str, Any]]:
        for event in events:
            yield event

    return stream()

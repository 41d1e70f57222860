"""Helpers for the client's tests: a client that reconnects at once, and conditions to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from itertools import pairwise
from typing import Any, TypeVar
from urllib.parse import urlsplit

from everyword.client import Backoff, ChatClient, Reply
from everyword.messages.message import UIMessage
from tests.timeouts import PATIENCE

QUICK = Backoff(first=0.005, factor=1.2, most=0.05)
T = TypeVar("T")


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


def client(url: str, name: str = "ann", **options: Any) -> ChatClient:
    return ChatClient(url, agent="chat", name=name, backoff=QUICK, **options)


async def patiently(waiting: Awaitable[T]) -> T:
    """Wait, and fail after the tests' timeout."""
    async with asyncio.timeout(PATIENCE):
        return await waiting


async def snapshots(reply: Reply) -> list[UIMessage]:
    """Follow a reply to its end."""
    async with asyncio.timeout(PATIENCE):
        return [message async for message in reply]


async def until_text(chat: ChatClient, text: str) -> None:
    """Wait until the last message of the conversation has exactly this text."""
    await patiently(chat.connection.until(lambda: bool(chat.messages) and chat.messages[-1].text == text))


async def settled(chat: ChatClient) -> None:
    """Wait until this client has received everything that the server has for it."""
    await patiently(chat._confirmed(chat.protocol.stop("nothing that runs")))


def is_growing(messages: list[UIMessage]) -> bool:
    """Tell whether all snapshots are of one message, and each begins with the text of the one before."""
    texts = [message.text for message in messages]
    return len({message.id for message in messages}) <= 1 and all(b.startswith(a) for a, b in pairwise(texts))


async def shown_is_stored(chat: ChatClient) -> bool:
    await settled(chat)
    return chat.messages == await chat.history()

"""No client shows an answer that was stopped and discarded: live, late, or after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from everyword import Recovery, Stop
from everyword.errors import ChatError
from everyword.log.memory import MemoryLog
from tests.agents.bases import BASES, Asked, answering
from tests.parity.kit import Client, clients, serving

TEXT = "That went wrong. Please ask again."
ASKED = ["hi"]


class Dropped(ChatError):
    """A failure that may pass."""

    retryable = True


class Chat:
    """Fails in the middle as soon as it may, and forgets what it said; with a text or without."""

    text: str | None
    fails: asyncio.Event

    async def reply(self, asked: Asked) -> AsyncIterator[str]:
        yield "half "
        await type(self).fails.wait()
        raise Dropped("busy")

    async def on_chat_recovery(self, ctx: Recovery) -> Stop:
        return Stop(self.text, forget=True)


def texts(client: Client) -> list[str]:
    return ["".join(part.get("text", "") for part in message["parts"]) for message in client.shown]


@pytest.fixture(params=BASES)
def base(request: pytest.FixtureRequest) -> Any:
    return request.param


def agent(base: Any, text: str | None) -> Any:
    return answering(base, type("Chat", (Chat,), {"text": text, "fails": asyncio.Event()}))


async def check(client: Client, text: str | None) -> None:
    await client.settled()
    assert texts(client) == ASKED
    told = client.protocol.endings.get("r1")
    assert told is None or (told.outcome, told.error) == ("error" if text else "aborted", text)


@pytest.mark.parametrize("text", [TEXT, None])
async def test_an_answer_forgotten_while_clients_watch_is_shown_by_none(base: Any, text: str | None) -> None:
    kind = agent(base, text)
    async with serving(MemoryLog(), kind) as server:
        asker, tab, joined = (Client(server, "ann") for _ in range(3))
        deaf, late = Client(server, "ann", acknowledges=False), Client(server, "ann")
        async with clients(asker, tab):
            await asker.ask("r1", "hi", [])
            for client in (asker, tab):
                await client.until(lambda me: texts(me) == ["hi", "half "])
            async with clients(joined, deaf):
                await joined.until(lambda me: texts(me)[-1:] == ["half "])
                kind.fails.set()
                for client in (asker, tab, joined, deaf):
                    await client.ended("r1")
                    await check(client, text)
            async with clients(late):
                if text is not None:
                    await late.ended("r1")
                await check(late, text)
            assert [message["role"] for message in await server.stored("ann")] == ["user"]


@pytest.mark.parametrize("text", [TEXT, None])
async def test_an_answer_forgotten_after_a_restart_is_shown_by_none(base: Any, text: str | None) -> None:
    store = MemoryLog()
    kind = agent(base, text)
    async with serving(store, kind, grace=0.0) as server:
        asker = Client(server, "ann")
        await asker.connect()
        await asker.ask("r1", "hi", [])
        await asker.until(lambda me: texts(me) == ["hi", "half "])
    await asker.drop()
    async with serving(store, kind) as server:
        asker._server = server
        stranger = Client(server, "ann")
        async with clients(asker, stranger):
            await asker.ended("r1")
            await check(asker, text)
            await check(stranger, text)
        assert [message["role"] for message in await server.stored("ann")] == ["user"]

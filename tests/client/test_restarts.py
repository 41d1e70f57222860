"""A server that is killed during an answer, and one that starts late."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from everyword.client import Unreachable
from tests.client.kit import client, is_growing, patiently, shown_is_stored, snapshots, until_text
from tests.client.serving import Killable

WORDS = "one two three four five six"


@pytest.mark.crash
@pytest.mark.parametrize(
    "is_stopped_meanwhile", [False, True], ids=["it goes on", "stop is asked for while it is dead"]
)
async def test_an_answer_survives_a_killed_server(tmp_path: Path, is_stopped_meanwhile: bool) -> None:
    server = Killable(tmp_path / "log.db")
    await server.start()
    try:
        async with client(server.url, connect_timeout=30) as me:
            reply = me.send(WORDS, body={"hold": 2 if is_stopped_meanwhile else 1})
            await until_text(me, "one two three ")
            await server.kill()
            await patiently(me.connection.until(lambda: not me.agent.is_connected))
            stopping = asyncio.create_task(reply.stop()) if is_stopped_meanwhile else None
            await server.start()
            seen = await snapshots(reply)
            if stopping is not None:
                await patiently(stopping)
            assert is_growing(seen)
            assert seen[-1].text == ("one two three " if is_stopped_meanwhile else f"{WORDS} ")
            assert reply.outcome == ("aborted" if is_stopped_meanwhile else "completed")
            assert [message.role for message in me.messages] == ["user", "assistant"]
            assert await shown_is_stored(me)
    finally:
        await server.kill()


@pytest.mark.crash
async def test_a_client_waits_for_its_server_and_raises_if_none_starts(tmp_path: Path) -> None:
    server = Killable(tmp_path / "log.db")
    with pytest.raises(Unreachable, match="Is the server running"):
        async with client(server.url, connect_timeout=0.2):
            raise AssertionError("nobody is there")
    me = client(server.url, connect_timeout=30)
    entering = asyncio.create_task(me.__aenter__())
    try:
        await server.start()
        await patiently(entering)
        assert (await snapshots(me.send("hello")))[-1].text == "hello "
    finally:
        await me.aclose()
        await server.kill()

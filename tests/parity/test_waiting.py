"""Clients that answer a call and then wait to be told of a stream, without asking for one."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import websockets

from everyword.log.memory import MemoryLog
from tests.agents.bases import BASES, answering
from tests.parity.kit import Client, Server, clients, serving
from tests.parity.test_tools import Play
from tests.parity.tooling import GATES, SCENARIOS, Chat
from tests.timeouts import PATIENCE

ANSWERED = [name for name, scenario in SCENARIOS.items() if scenario.answer is not None]


class Waiting:
    """A socket that asks for nothing: it answers, waits for an offer, and takes that."""

    def __init__(self, server: Server, name: str) -> None:
        self._url = f"ws://127.0.0.1:{server.port}/agents/chat/{name}?_pk=waiting"
        self.heard: list[dict[str, Any]] = []

    async def __aenter__(self) -> Waiting:
        self._socket = await websockets.connect(self._url, max_size=None, compression=None)
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._socket.close()

    async def send(self, **frame: Any) -> None:
        await self._socket.send(json.dumps(frame))

    async def until(self, *kinds: str) -> dict[str, Any]:
        """Return the next frame of one of these types."""
        async with asyncio.timeout(PATIENCE):
            while True:
                frame: dict[str, Any] = json.loads(await self._socket.recv())
                self.heard.append(frame)
                if frame["type"] in kinds:
                    return frame

    async def end(self, request: str) -> dict[str, Any]:
        while True:
            frame = await self.until("cf_agent_use_chat_response")
            if frame["id"] == request and frame["done"]:
                return frame


@pytest.mark.parametrize(
    ("base", "scenario"),
    [(name, scenario) for name, base in BASES.items() for scenario in ANSWERED if SCENARIOS[scenario].is_for(base)],
)
async def test_a_client_that_answers_and_waits_gets_the_continuation_or_none(base: str, scenario: str) -> None:
    """P-64."""
    GATES.clear()
    async with serving(MemoryLog(), answering(base, Chat)) as server:
        name = scenario.replace(" ", "-")
        play, asker = Play(server, name, scenario), Client(server, name)
        async with clients(asker), Waiting(server, name) as waiting:
            await asker.ask("r1", scenario, [])
            if play.plan.when == "after":
                await play.gates.free()
                await asker.ended("r1")
            else:
                await play.gates.open(len(play.plan.first))
            await asker.until(is_asked)
            assert play.plan.answer is not None
            await waiting.send(**play.plan.answer)
            await play.gates.free()
            offered = await waiting.until("cf_agent_stream_resuming", "cf_agent_stream_resume_none")
            if offered["type"] == "cf_agent_stream_resuming":
                await waiting.send(type="cf_agent_stream_resume_ack", id=offered["id"])
                assert (await waiting.end(offered["id"]))["outcome"] == "completed"
                numbers = [frame["seq"] for frame in waiting.heard if frame.get("continuation") and "seq" in frame]
                assert set(numbers) == set(range(max(numbers) + 1)), "every chunk came, with its number"
            assert await server.app.get(server.agent, name).wait_until_stable(PATIENCE)
            await asker.settled()
            stored = await server.stored(name)
            assert asker.shown == stored
            assert tuple(part["state"] for part in stored[-1]["parts"] if "toolCallId" in part) == play.plan.states


def is_asked(client: Client) -> bool:
    """Tell whether a call waits for a person or for the page."""
    parts = [part for message in client.shown for part in message["parts"]]
    is_for_page = any(part["type"] == "tool-where" and part["state"] == "input-available" for part in parts)
    return is_for_page or any(part.get("state") == "approval-requested" for part in parts)

"""An answer that is asked for again while it is being given: every client shows the old one or the new one (R-5)."""

from __future__ import annotations

from typing import Any

import pytest

from everyword.log.memory import MemoryLog
from tests.agents.bases import BASES, answering
from tests.parity.kit import Chat, Client, clients, serving


class Looking(Client):
    """A client that notes whenever it shows more than one answer."""

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.both: list[list[str]] = []

    async def flush(self) -> None:
        if sum(message["role"] == "assistant" for message in self.shown) > 1:
            self.both.append(texts(self))
        await super().flush()


def texts(client: Client) -> list[str]:
    return ["".join(part.get("text", "") for part in message["parts"]) for message in client.shown]


@pytest.fixture(params=BASES)
def agent(request: pytest.FixtureRequest) -> Any:
    return answering(request.param, Chat)


@pytest.mark.parametrize("how", ["regenerate", "edit"])
@pytest.mark.parametrize("who", ["watcher", "asker"])
async def test_every_client_shows_the_old_answer_or_the_new_one(agent: Any, how: str, who: str) -> None:
    async with serving(MemoryLog(), agent) as server:
        asker, watcher, third, joined, deaf, late = (Looking(server, "ann", acknowledges=n != 4) for n in range(6))
        async with clients(asker, watcher, third):
            await asker.ask("r1", "hi", ["One ", "two ", "three"])
            server.steps("ann").allow()
            for client in (asker, watcher, third):
                await client.until(lambda me: texts(me) == ["hi", "One "])
            async with clients(joined, deaf):
                await joined.until(lambda me: texts(me)[-1:] == ["One "])
                changing = watcher if who == "watcher" else asker
                question = changing.shown[0]
                if how == "edit":
                    question = {**question, "parts": [{"type": "text", "text": "hello"}]}
                changing.protocol.ask("r2", [question], script=["New"], trigger=f"{how}-message")
                await changing.flush()
                await changing.settled()
                async with clients(late):
                    await late.until(lambda me: any(f["type"] == "cf_agent_stream_pending" for f in me.frames))
                    server.steps("ann").allow()
                    for client in (asker, third, joined):
                        await client.until(lambda me: texts(me)[-1:] == ["One two "])
                    server.steps("ann").free.set()
                    server.steps("ann").allow(10)
                    everybody = [asker, watcher, third, joined, deaf, late]
                    for client in everybody:
                        await client.ended("r2")
                        await client.settled()
                        assert texts(client) == ["hello" if how == "edit" else "hi", "New"]
                        assert client.shown == await server.stored("ann")
                        assert client.both == []
                    for client in (asker, watcher, third, joined):
                        assert client.protocol.endings["r1"].outcome == "completed"

"""A node that is paused in the middle of ten answers for longer than its lease, and wakes up: a zombie."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest
from websockets.exceptions import ConnectionClosed

from tests.nodes.serving import NodeProcess, running_nodes
from tests.nodes.test_kept_sockets import RawClient, connect
from tests.nodes.test_nodes import look, process_of
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash

CHATS = [f"chat{number}" for number in range(10)]
WORDS = [f"word{number} " for number in range(60)]
EVENTS = "select agent, seq, more, epoch, kind from everyword.event order by 1, 2"


async def until_closed(client: RawClient) -> None:
    """Read what is still sent, up to the end of the socket."""
    with pytest.raises(ConnectionClosed):
        await client.until(lambda: False)


async def connected(stack: AsyncExitStack, node: NodeProcess) -> list[RawClient]:
    return [RawClient(await stack.enter_async_context(connect(node, chat, "paced"))) for chat in CHATS]


async def test_others_finish_its_answers_and_it_writes_nothing_when_it_wakes(postgres_url: str) -> None:
    async with running_nodes(postgres_url, "one", "two", "three") as (one, two, three), AsyncExitStack() as stack:
        own = await connected(stack, one)  # the first that asks for an agent owns it
        elsewhere = await connected(stack, two)
        for client in own:
            await client.ask("".join(WORDS))
        for client in [*own, *elsewhere]:
            await client.until(lambda client=client: len(client.words) >= 5)
        one.pause()
        for client in elsewhere:
            await client.until(lambda client=client: client.is_done)
            assert client.words == WORDS and client.count("cf_agent_identity") == 1
        before = await look(postgres_url, EVENTS)
        one.resume()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*map(until_closed, own))
        for client in own:
            assert client.words == WORDS[: len(client.words)] and not client.is_done
        assert await process_of(one, "other") in (one.pid, two.pid, three.pid), "it serves again"
        assert await look(postgres_url, f"select * from ({EVENTS}) e where agent = any ({keys(before)})") == before
        lives = await look(postgres_url, "select name, count(*) from everyword.node group by 1 order by 1")
        assert dict(lives)["one"] > 1, "it is another incarnation now"


def keys(events: list[tuple[int, ...]]) -> str:
    return f"array{sorted({event[0] for event in events})}::bigint[]"

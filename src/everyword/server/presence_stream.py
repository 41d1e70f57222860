"""The principals that are connected to an agent, as server-sent events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

import msgspec

from ..ids import AgentId
from ..rows import Participant
from ..runtime.directory import Directory
from ..wire.sse import KEEP_ALIVE, encode_sse
from .event_streams import IDLE
from .list_json import principals_json

__all__ = ["follow_presence"]


async def follow_presence(directory: Directory, agent: AgentId) -> AsyncGenerator[bytes, None]:
    """Yield the connected principals, now and after each change.

    Raises:
        AgentStopped: the agent is not loaded here any more: the client comes back, and reaches the process that has it.
    """
    wake = asyncio.Event()
    async with directory.attach(agent) as loaded, loaded.subscribe(wake=wake) as subscription:
        with directory.presence.watch(loaded.actor.agent, wake.set):
            told: Sequence[Participant] | None = None
            while True:
                subscription.raise_if_stopped()
                subscription.skip_to(subscription.head)
                here = directory.presence.principals(loaded.actor.agent)
                if here != told:
                    yield encode_sse(msgspec.json.encode(principals_json(here)))
                    told = here
                try:
                    async with asyncio.timeout(IDLE):
                        await subscription.wait()
                except TimeoutError:
                    yield KEEP_ALIVE

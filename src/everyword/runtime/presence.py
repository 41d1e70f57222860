"""The connected principals of each agent, in the process that serves the agent.

Every socket and stream of an agent ends in the process that owns it, wherever its client connected, so that process
knows all of them. Nothing is stored: after a crash nobody is present until clients connect again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from ..events import Identity
from ..ids import AgentId
from ..rows import Participant

__all__ = ["Presence"]

POLL: Final = 30.0
"""Seconds after which a wait for a change returns without one, so that a caller of another node notices a move."""


@dataclass(slots=True)
class _Connected:
    """The connections of one agent."""

    counts: dict[str, int] = field(default_factory=dict)
    people: dict[str, Participant] = field(default_factory=dict)
    """By id, in the order in which they came."""
    watchers: set[Callable[[], None]] = field(default_factory=set)
    is_telling: bool = False

    def tell(self) -> None:
        self.is_telling = False
        for changed in list(self.watchers):
            changed()


class Presence:
    """Who is connected, for all agents of this process. `stored_id` returns the id under which an agent is stored."""

    def __init__(self, stored_id: Callable[[AgentId], AgentId]) -> None:
        self._stored_id = stored_id
        self._agents: dict[AgentId, _Connected] = {}

    @contextmanager
    def join(self, agent: AgentId, who: Identity) -> Iterator[None]:
        """Count a connection of a principal while the block runs."""
        with self._using(agent) as here:
            here.counts[who.id] = here.counts.get(who.id, 0) + 1
            if here.counts[who.id] == 1:
                here.people[who.id] = Participant(who.id, who.name)
                self._changed(here)
            try:
                yield
            finally:
                here.counts[who.id] -= 1
                if not here.counts[who.id]:
                    del here.counts[who.id], here.people[who.id]
                    self._changed(here)

    def principals(self, agent: AgentId) -> list[Participant]:
        """Return the principals that are connected, in the order in which they came."""
        here = self._agents.get(self._stored_id(agent))
        return list(here.people.values()) if here is not None else []

    @contextmanager
    def watch(self, agent: AgentId, changed: Callable[[], None]) -> Iterator[None]:
        """Call `changed` after principals came or left, while the block runs; several changes may be told as one."""
        with self._using(agent) as here:
            here.watchers.add(changed)
            try:
                yield
            finally:
                here.watchers.discard(changed)

    async def changed_from(self, agent: AgentId, known: list[Participant]) -> list[Participant]:
        """Return the connected principals as soon as they differ from `known`, or after half a minute."""
        changed = asyncio.Event()
        with self.watch(agent, changed.set):
            while (now := self.principals(agent)) == known:
                changed.clear()
                try:
                    async with asyncio.timeout(POLL):
                        await changed.wait()
                except TimeoutError:
                    return self.principals(agent)
            return now

    @contextmanager
    def _using(self, agent: AgentId) -> Iterator[_Connected]:
        """Keep the entry of an agent while the block runs, and as long as others use it."""
        key = self._stored_id(agent)
        here = self._agents.setdefault(key, _Connected())
        try:
            yield here
        finally:
            if not here.counts and not here.watchers and self._agents.get(key) is here:
                del self._agents[key]

    def _changed(self, here: _Connected) -> None:
        """Tell watchers once per tick. Otherwise 100 clients that reconnect would cause 10,000 messages."""
        if here.watchers and not here.is_telling:
            here.is_telling = True
            asyncio.get_running_loop().call_soon(here.tell)

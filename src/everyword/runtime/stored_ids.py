"""Under which id an agent is stored: its class may have had another kind when the agent was made."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from ..errors import UsageError
from ..ids import AgentId, agent_id, parent_id, split_agent_id, sub_agent_id
from ..log.base import LogStore

__all__ = ["Kinds", "StoredIds", "doubles"]

Kinds = Callable[[AgentId], Sequence[str]]
"""Returns the kinds that the class of an agent has and had, the present one first; none for an unknown class."""

ONLY: Final[Sequence[str]] = ()

log = logging.getLogger("everyword.runtime")


class StoredIds:
    """Finds the stored id for an id that was asked for.

    An id that is stored, or loaded, stands for itself. Else the agent is meant that is stored under another kind of the
    class, and if there is none, a new one of the present kind.
    """

    def __init__(self, store: LogStore, kinds: Kinds | None, is_loaded: Callable[[AgentId], bool]) -> None:
        self._store, self._kinds, self._is_loaded = store, kinds, is_loaded
        self._found: dict[AgentId, AgentId] = {}
        """What was asked for under other ids than they have, of agents that are loaded."""
        self._warned: set[frozenset[AgentId]] = set()

    def known(self, agent: AgentId) -> AgentId:
        """Return the id as far as it is known without a look at the store: that of a loaded agent is."""
        return self._found.get(agent, agent)

    def settled(self, agent: AgentId) -> AgentId:
        """Return the id.

        Raises:
            UsageError: it is not known before the agent was loaded.
        """
        known = self.known(agent)
        if not self._is_loaded(known) and len(self._kinds_of(known)) > 1:
            raise UsageError(f"unable to use {agent!r} before it is loaded; its class has aliases")
        return known

    async def find(self, agent: AgentId) -> AgentId:
        """Return the id, whether or not there is such an agent."""
        known = self._found.get(agent, agent)
        if self._kinds is None or self._is_loaded(known):
            return known
        above, (kind, name) = parent_id(agent), split_agent_id(agent)
        above = await self.find(above) if above is not None else None
        asked = _join(above, kind, name)
        found = asked
        kinds = self._kinds_of(asked)
        if len(kinds) > 1:
            others = [_join(above, each, name) for each in kinds]
            stored = [each for each in dict.fromkeys([asked, *others]) if await self.is_stored(each)]
            found = stored[0] if stored else others[0]
            self._warn(stored)
        return found

    def _warn(self, stored: Sequence[AgentId]) -> None:
        if len(stored) > 1 and frozenset(stored) not in self._warned:
            self._warned.add(frozenset(stored))
            log.warning("%s are two agents, though their class has both kinds; see `everyword doctor --app`", stored)

    def remember(self, asked: AgentId, found: AgentId) -> None:
        """Note what was found for an agent that is loaded now."""
        if asked != found:
            self._found[asked] = found

    async def is_stored(self, agent: AgentId) -> bool:
        """Tell whether the agent is loaded, or anything of it is stored: a log, or a database of its own."""
        if self._is_loaded(agent) or await self._store.has(agent):
            return True
        databases = self._store.databases
        return databases is not None and await databases.has(agent)

    def has_class(self, agent: AgentId) -> bool:
        """Tell whether the class of the agent is known."""
        return self._kinds is None or bool(self._kinds(agent))

    def forget(self, agent: AgentId) -> None:
        """Forget what was found: the agent is not loaded any more, and may be destroyed."""
        for asked in [asked for asked, found in self._found.items() if found == agent]:
            del self._found[asked]

    def _kinds_of(self, agent: AgentId) -> Sequence[str]:
        return self._kinds(agent) if self._kinds is not None else ONLY


def doubles(agents: Iterable[AgentId], kinds: Kinds) -> list[list[AgentId]]:
    """Return the stored agents that have the same name under several kinds of one class, together."""
    found: defaultdict[AgentId, list[AgentId]] = defaultdict(list)
    for agent in agents:
        found[_present(agent, kinds)].append(agent)
    return [together for together in found.values() if len(together) > 1]


def _present(agent: AgentId, kinds: Kinds) -> AgentId:
    """Return the id that the agent would have if it were made now."""
    above, (kind, name) = parent_id(agent), split_agent_id(agent)
    return _join(_present(above, kinds) if above is not None else None, next(iter(kinds(agent)), kind), name)


def _join(above: AgentId | None, kind: str, name: str) -> AgentId:
    return agent_id(kind, name) if above is None else sub_agent_id(above, kind, name)

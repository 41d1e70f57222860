"""The rules of an agent as its app changes them: limits, and what follows from the settings of conversations."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from ..core.state import FollowUps, Rules
from ..errors import LogError
from ..events import Identity
from ..ids import AgentId, root_id
from ..log.base import LogStore
from ..log.features import CONVERSATIONS, SEARCH, is_usable

__all__ = ["AppRules"]

log = logging.getLogger("everyword.runtime")


@dataclass(slots=True)
class AppRules:
    """The settings of an app that apply to all its agents."""

    max_queued: int | None = None
    """How many turns of one agent may be open at most, whatever its class allows."""
    owner_of: Callable[[AgentId, Identity], str | None] | None = None
    keep_for: int | None = None
    has_titles: bool = False
    has_notifications: bool = False
    """Whether jobs notify of turns that ended, and of calls that wait for an approval."""
    notification_delay: int = 0
    """Milliseconds between an event and its job."""
    has_search: bool = False
    """Whether the texts of conversations are indexed for searches."""
    are_lists_usable: bool = False
    """True once every node knows the events of lists; it stays so."""
    is_search_usable: bool = False
    """True once every node keeps the texts that are indexed up to date; it stays so."""
    _looking: asyncio.Task[None] | None = None

    async def look(self, store: LogStore) -> None:
        """Find out whether every node knows the events of lists, and the texts that are indexed."""
        try:
            self.are_lists_usable = self.are_lists_usable or await is_usable(CONVERSATIONS, store.nodes)
            if self.has_search and not self.is_search_usable:
                self.is_search_usable = await is_usable(SEARCH, store.nodes)
        except LogError as exc:
            log.warning("unable to see which releases the other nodes run; asking again later: %s", exc)

    def applied(self, agent: AgentId, rules: Rules, store: LogStore) -> Rules:
        """Return the rules of a class as they are for one of its agents."""
        if self.max_queued is not None and self.max_queued < rules.max_queued:
            rules = replace(rules, max_queued=self.max_queued)
        is_all_known = self.are_lists_usable and (self.is_search_usable or not self.has_search)
        if not is_all_known and (self._looking is None or self._looking.done()):
            # Beside the loading: it need not wait for it.
            self._looking = asyncio.create_task(self.look(store), name="which events every node knows")
        if not self.are_lists_usable:
            return replace(rules, has_list_events=False)
        if root_id(agent) == agent and (self.is_search_usable or not self.has_search):
            rules = replace(rules, is_searchable=self.has_search)
        follow_ups = self._follow_ups(agent)
        return rules if follow_ups == FollowUps() else replace(rules, follow_ups=follow_ups)

    def _follow_ups(self, agent: AgentId) -> FollowUps:
        tells, delay = self.has_notifications, self.notification_delay
        if root_id(agent) != agent:  # conversations are those of root agents; a sub-agent may wait for a person
            return FollowUps(notifies_approvals=tells, notification_delay=delay)
        return FollowUps(
            partial(self.owner_of, agent) if self.owner_of is not None else None,
            self.keep_for,
            has_titles=self.has_titles,
            notifies_turns=tells,
            notifies_approvals=tells,
            notification_delay=delay,
        )

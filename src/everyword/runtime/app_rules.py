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
from ..log.features import CONVERSATIONS, is_usable

__all__ = ["AppRules"]

log = logging.getLogger("everyword.runtime")


@dataclass(slots=True)
class AppRules:
    """What an app lays down for all its agents."""

    max_queued: int | None = None
    """How many turns of one agent may be open at most, whatever its class allows."""
    owner_of: Callable[[AgentId, Identity], str | None] | None = None
    keep_for: int | None = None
    has_titles: bool = False
    has_notifications: bool = False
    """Whether jobs notify of turns that ended, and of calls that wait for an approval."""
    notification_delay: int = 0
    """Milliseconds between an event and its job."""
    are_lists_usable: bool = False
    """True once every node knows the events of lists; it stays so."""
    _looking: asyncio.Task[None] | None = None

    async def look(self, store: LogStore) -> None:
        """Find out whether every node knows the events of lists."""
        try:
            self.are_lists_usable = self.are_lists_usable or await is_usable(CONVERSATIONS, store.nodes)
        except LogError as exc:
            log.warning("unable to see which releases the other nodes run; asking again later: %s", exc)

    def applied(self, agent: AgentId, rules: Rules, store: LogStore) -> Rules:
        """Return the rules of a class as they are for one of its agents."""
        if self.max_queued is not None and self.max_queued < rules.max_queued:
            rules = replace(rules, max_queued=self.max_queued)
        if not self.are_lists_usable:
            if self._looking is None or self._looking.done():  # beside the loading: it need not wait for it
                self._looking = asyncio.create_task(self.look(store), name="which events every node knows")
            return replace(rules, announces_approvals=False)
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

"""Deadlines of an agent: calls that were not approved in time are denied, outdated conversations are deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from ..core.commands import AnswerToolCall, DestroyAgent
from ..core.state import State
from ..core.waiting_approvals import EXPIRED
from ..core.wanted import Wanted
from ..errors import AgentStopped, LogError, Rejected
from ..ids import Millis
from ..log.base import LogStore
from ..messages.tool_calls import ApprovalAnswer
from ..rows import ApprovalRecord
from .actor import Actor
from .clock import Clock
from .mailbox import Envelope
from .random_ids import random_request_id
from .use_below import kept_until

__all__ = ["OUTDATED", "Deadlines"]

log = logging.getLogger("everyword.runtime")

OUTDATED: Final = DestroyAgent(only_outdated=True)

LOOK_AGAIN: Final = 60_000
"""Milliseconds until a store that could not be read is asked again."""

EXPIRED_TEXT: Final = "The approval was not given in time."


class Deadlines:
    """The deadlines of one loaded agent."""

    look_at: Callable[[Millis], None]
    """Makes the agent look at its deadlines again at a time; set by its reconciler."""

    def __init__(
        self, actor: Actor, destroy: Callable[[], Coroutine[Any, Any, None]], store: LogStore, clock: Clock
    ) -> None:
        self._actor, self._destroy, self._store, self._clock = actor, destroy, store, clock
        self._denied: Sequence[ApprovalRecord] = ()
        """Requests whose denial is in the mailbox."""
        self._is_destroying = False

    def keep(self, work: Wanted, spawn: Callable[[Coroutine[Any, Any, None], str], object]) -> None:
        """Start the actions that are due, each once."""
        if work.expired or self._denied:
            self._deny([each for each in work.expired if each not in self._denied])
            self._denied = work.expired
        if work.is_outdated and not self._is_destroying:
            self._is_destroying = True
            spawn(self._delete(), f"deletion of {self._actor.agent}, which was kept long enough")

    async def _delete(self) -> None:
        try:
            if not await self._is_used_below():
                await self._destroy()
                log.info(
                    "%r was deleted: nothing has happened in it for as long as it was to be kept", self._actor.agent
                )
        except AgentStopped:
            pass  # unloaded meanwhile: the wake table brings it back
        except Rejected:
            log.info("%r is kept: it was used again", self._actor.agent)
        finally:
            self._is_destroying = False

    async def _is_used_below(self) -> bool:
        """Return whether agents below this one keep it; if so, look again when they do not any more."""
        now, agent = self._clock.now(), self._actor.agent
        try:
            until = await kept_until(self._store, agent, await self._actor.inspect(_keep_for), now)
        except LogError as exc:
            log.error("unable to see whether agents below %r are used; looking again later: %s", agent, exc)
            until = Millis(now + LOOK_AGAIN)
        else:
            if until > now:
                log.info("%r is kept: agents below it are used", agent)
        if until > now:
            self.look_at(until)
        return until > now

    def _deny(self, requests: Sequence[ApprovalRecord]) -> None:
        for each in requests:
            answer = ApprovalAnswer(approved=False, reason=EXPIRED_TEXT)
            command = AnswerToolCall(each.call, answer, random_request_id(), by=EXPIRED, asked=each)
            self._actor.force(Envelope(command))


def _keep_for(state: State) -> int:
    """Return the milliseconds for which the conversation is kept; 0 if it is not to be deleted any more."""
    return (state.conversation.keep_for or 0) if state.conversation is not None else 0

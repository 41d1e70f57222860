"""Deadlines of an agent: calls that were not approved in time are denied, outdated conversations are deleted."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

from ..core.commands import AnswerToolCall, DestroyAgent
from ..core.waiting_approvals import EXPIRED
from ..core.wanted import Wanted
from ..errors import Rejected
from ..messages.tool_calls import ApprovalAnswer
from ..rows import ApprovalRecord
from .actor import Actor
from .mailbox import Envelope
from .random_ids import random_request_id

__all__ = ["OUTDATED", "Deadlines"]

log = logging.getLogger("everyword.runtime")

OUTDATED: Final = DestroyAgent(only_outdated=True)

EXPIRED_TEXT: Final = "The approval was not given in time."


class Deadlines:
    """The deadlines of one loaded agent."""

    def __init__(self, actor: Actor, destroy: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._actor, self._destroy = actor, destroy
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
            await self._destroy()
            log.info("%r was deleted: nothing has happened in it for as long as it was to be kept", self._actor.agent)
        except Rejected:
            log.info("%r is kept: it was used again", self._actor.agent)
        finally:
            self._is_destroying = False

    def _deny(self, requests: Sequence[ApprovalRecord]) -> None:
        for each in requests:
            answer = ApprovalAnswer(approved=False, reason=EXPIRED_TEXT)
            command = AnswerToolCall(each.call, answer, random_request_id(), by=EXPIRED, asked=each)
            self._actor.force(Envelope(command))

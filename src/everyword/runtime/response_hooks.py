"""The response hook: called when a turn has ended, at least once per turn, across crashes (R-28)."""

from __future__ import annotations

import asyncio
import logging

from ..core.commands import MarkHookDone
from ..core.state import State
from ..errors import AgentStopped, LogError
from ..events import Identity
from ..ids import TurnId
from ..principals import act_for
from .actor import Actor
from .api import Responder, TurnResult
from .turn_results import turn_result

__all__ = ["ResponseHooks"]

log = logging.getLogger("everyword.runtime")


class ResponseHooks:
    """The calls of `on_response` that run for one loaded agent."""

    def __init__(self, actor: Actor, responder: Responder) -> None:
        self._actor, self._responder = actor, responder
        self._running: dict[TurnId, asyncio.Task[None]] = {}

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return list(self._running.values())

    def call(self, state: State, turn: TurnId, *, recovered: bool) -> None:
        """Call the hook for a turn that has ended, unless that runs already."""
        if turn in self._running:
            return
        ended = state.ended[turn]
        result = turn_result(self._actor.agent, state, ended, recovered=recovered)
        work = self._run(turn, result, ended.accepted.principal)
        task = asyncio.create_task(work, name=f"response hook of turn {turn}")
        self._running[turn] = task
        task.add_done_callback(lambda _: self._running.pop(turn, None))

    async def _run(self, turn: TurnId, result: TurnResult, principal: Identity | None) -> None:
        act_for(principal)
        try:
            await self._responder.on_response(result)
        except Exception:
            log.exception("on_chat_response of %r raised for turn %d", self._actor.agent, turn)
        try:
            await self._actor.insist(MarkHookDone(turn))
        except (AgentStopped, LogError):
            log.info("the response hook of turn %d will be called again", turn)

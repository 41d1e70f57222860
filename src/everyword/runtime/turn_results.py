"""How turns ended, for callers that wait for it and for the response hook."""

from __future__ import annotations

import asyncio

import msgspec

from ..core.state import State
from ..core.turn_state import TurnState
from ..errors import AgentStopped
from ..ids import AgentId, TurnId
from ..messages.message import UIMessage
from .api.turns import TurnResult

__all__ = ["TurnWaiters", "turn_result"]


class TurnWaiters:
    """Callers that wait for the end of a turn of one loaded agent."""

    def __init__(self, agent: AgentId) -> None:
        self._agent = agent
        self._waiting: dict[TurnId, list[asyncio.Future[TurnResult]]] = {}

    def wait(self, state: State, turn: TurnId) -> asyncio.Future[TurnResult]:
        """Return a future of how the turn ends; call it from a query, with the committed state."""
        future: asyncio.Future[TurnResult] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(turn, []).append(future)
        self.update(state)
        return future

    def update(self, state: State) -> None:
        """Give the results of turns that have ended."""
        for turn in [turn for turn in self._waiting if turn in state.ended]:
            result = turn_result(self._agent, state, state.ended[turn], recovered=False)
            for future in self._waiting.pop(turn):
                if not future.done():
                    future.set_result(result)

    def abandon(self, why: AgentStopped) -> None:
        """Raise in every caller: this process will not see the end."""
        for futures in self._waiting.values():
            for future in futures:
                if not future.done():
                    future.set_exception(why)
        self._waiting.clear()


def turn_result(agent: AgentId, state: State, turn: TurnState, *, recovered: bool) -> TurnResult:
    """Return how a turn ended, as committed. `recovered`: an earlier process may have reported it already (R-28)."""
    assert turn.outcome is not None
    node = state.tree.nodes.get(turn.node)
    body = node.body if node is not None else None
    return TurnResult(
        agent=agent,
        turn=turn.id,
        request=turn.request,
        outcome=turn.outcome,
        error=turn.error,
        message=UIMessage.decode(body) if body is not None else None,
        is_continuation=turn.is_continuation,
        reason=turn.reason,
        recovered=recovered,
        usage=msgspec.json.decode(turn.usage) if turn.usage is not None else None,
    )

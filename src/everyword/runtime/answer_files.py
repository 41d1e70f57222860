"""Files of an answer that are stored outside its message: before the end of its turn is committed, never after."""

from __future__ import annotations

from ..core.commands import FinishTurn
from ..core.state import State
from ..ids import TurnId
from ..messages.message import UIMessage
from .actor import Actor
from .api import Responder, StoresFiles

__all__ = ["end_turn", "may_store_files"]


def may_store_files(responder: Responder) -> bool:
    """Tell whether the agent may store files of its answers outside their messages."""
    return isinstance(responder, StoresFiles) and responder.may_store_files


async def end_turn(actor: Actor, responder: Responder, end: FinishTurn) -> None:
    """End a turn; store the files of its answer before.

    Raises:
        Rejected: the turn has ended already, or the agent was unloaded.
    """
    if not isinstance(responder, StoresFiles) or not responder.may_store_files:
        await actor.insist(end)
        return
    answer = await actor.inspect(lambda state: _answer(state, end.turn))
    if answer is None:
        await actor.insist(end)
        return
    async with responder.storing_files(answer):
        await actor.insist(end)


def _answer(state: State, turn: TurnId) -> UIMessage | None:
    """Return the answer as it would be stored if its turn ended now."""
    found = state.open.get(turn)
    return found.fold.closed_message() if found is not None and found.fold is not None else None

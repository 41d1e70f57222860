"""The committed state for a new connection, read between two commits."""

from __future__ import annotations

from ..core.state import State
from ..core.turn_state import TurnState
from ..events import TurnKind
from ..ids import Seq
from ..runtime.directory import LoadedAgent
from ..wire.connection_turns import ChatSnapshot, ConnectionTurn

__all__ = ["take_snapshot"]


async def take_snapshot(loaded: LoadedAgent) -> ChatSnapshot:
    """Return what a new connection needs to know, and the cursor from which it goes on."""
    return await loaded.actor.inspect(lambda state: _snapshot(state, loaded.actor.tail.head))


def _snapshot(state: State, head: Seq) -> ChatSnapshot:
    last = state.last_ended
    turns = (turn for turn in (*state.ended.values(), *state.open.values()) if turn.accepted.kind.is_chat)
    recovered = [turn for turn in turns if turn.attempt > 1]
    return ChatSnapshot(
        head,
        [_known(turn) for turn in state.chat_turns()],
        _known(last) if last is not None else None,
        recovered=recovered[-1].request if recovered else None,
        runs=[(run.started, run.ended) for run in state.runs.values()],
        streams={
            turn.id: (turn.request, turn.accepted.message_id)
            for turn in state.open.values()
            if turn.accepted.kind is TurnKind.RSM
        },
    )


def _known(turn: TurnState) -> ConnectionTurn:
    """Return what a new connection needs to know of a turn. Its origin is another socket.

    An earlier process may have given the same serial to that socket, and the new one would count as the asker.
    """
    accepted = turn.accepted
    return ConnectionTurn(
        turn.id,
        turn.request,
        turn.node,
        turn.is_continuation,
        owner=accepted.owner,
        message_ids=accepted.message_ids,
        has_chunks=turn.chunks > 0,
        outcome=turn.outcome,
        recovers_with=turn.recovers_with,
    )

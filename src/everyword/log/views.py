"""The views of the log in an agent's own SQL: messages and streams as rows, in the shapes of the seeds' tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from ..errors import BadMessage
from ..events import Chunk, TurnKind, decode_event
from ..ids import AgentId, Generation, Millis, NodeId, TurnId
from ..messages.managed_stream import fold_managed_stream
from ..messages.message import UIMessage
from ..rows import AgentRow, MessageRow, TurnRow
from .base import Stored

__all__ = ["VIEWS", "ViewRow", "ViewSource"]

ViewRow = tuple[Any, ...]


class ViewSource(Protocol):
    """Reads one store for the views. Called from threads that may block, never from the event loop."""

    def version(self, agent: AgentId) -> object:
        """Return a value that stays equal as long as nothing is written for the agent."""
        ...

    def agent_row(self, agent: AgentId) -> AgentRow | None: ...

    def messages(self, agent: AgentId) -> list[MessageRow]: ...

    def turns(self, agent: AgentId, newest: int | None) -> list[TurnRow]: ...

    def read_turn(self, agent: AgentId, turn: TurnId) -> list[Stored]: ...


def _messages(source: ViewSource, agent: AgentId) -> list[ViewRow]:
    return [(message.id, message.role, message.text, at) for message, at in _shown(source, agent)]


def _raw_messages(source: ViewSource, agent: AgentId) -> list[ViewRow]:
    return [(message.id, message.encode().decode(), at) for message, at in _shown(source, agent)]


def _metadata(source: ViewSource, agent: AgentId) -> list[ViewRow]:
    rows: list[ViewRow] = []
    for turn in _turns(source, agent, managed=True):
        status = "streaming" if turn.is_open else "completed" if turn.status == "completed" else "error"
        count = _total(source, agent, turn)
        rows.append((turn.request, turn.message_id, status, count, turn.accepted_at, turn.ended_at, turn.error))
    return rows


def _chunks(source: ViewSource, agent: AgentId) -> list[ViewRow]:
    return [
        (f"{turn.request}:{chunk.index}", turn.request, chunk.content, chunk.index, chunk.at)
        for turn in _turns(source, agent, managed=True)
        for chunk in fold_managed_stream(_bodies(source, agent, turn)).chunks
    ]


def _chat_metadata(source: ViewSource, agent: AgentId) -> list[ViewRow]:
    return [
        (
            str(turn.turn),
            turn.request,
            "streaming" if turn.is_open else turn.status,
            turn.accepted_at,
            turn.ended_at,
            turn.error,
        )
        for turn in _turns(source, agent, managed=False)
    ]


def _chat_chunks(source: ViewSource, agent: AgentId) -> list[ViewRow]:
    rows: list[ViewRow] = []
    for turn in _turns(source, agent, managed=False):
        for stored in source.read_turn(agent, turn.turn):
            event = decode_event(stored.body)
            if isinstance(event, Chunk):
                name = f"{turn.turn}:{event.index}"
                rows.append((name, str(turn.turn), bytes(event.body).decode(), event.index, stored.at))
    return rows


VIEWS: dict[str, Callable[[ViewSource, AgentId], list[ViewRow]]] = {
    "messages": _messages,
    "stream_metadata": _metadata,
    "stream_chunks": _chunks,
    "cf_ai_chat_agent_messages": _raw_messages,
    "cf_ai_chat_stream_metadata": _chat_metadata,
    "cf_ai_chat_stream_chunks": _chat_chunks,
}
"""The views by name, with the function that fills each. They read the one agent, so rows of others cannot be seen."""


def _shown(source: ViewSource, agent: AgentId) -> list[tuple[UIMessage, Millis]]:
    """Return the shown conversation, oldest first, without messages that cannot be decoded."""
    row, places = source.agent_row(agent), {place.node: place for place in source.messages(agent)}
    path: list[MessageRow] = []
    node: NodeId | None = row.leaf if row is not None else None
    while node is not None and (place := places.pop(node, None)) is not None:
        path.append(place)
        node = place.parent
    found: list[tuple[UIMessage, Millis]] = []
    for place in reversed(path):
        body = place.draft if place.draft is not None else place.body
        if body is None:
            continue
        try:
            message = UIMessage.decode(body)
        except BadMessage:
            continue
        created = message.metadata.get("createdAt") if isinstance(message.metadata, dict) else None
        found.append((message, Millis(created) if isinstance(created, int) else place.at))
    return found


def _turns(source: ViewSource, agent: AgentId, *, managed: bool) -> list[TurnRow]:
    row = source.agent_row(agent)
    generation = row.generation if row is not None else Generation(0)
    return [
        turn
        for turn in source.turns(agent, None)
        if turn.generation == generation
        and (turn.kind is TurnKind.RSM) == managed
        and (managed or turn.status not in ("accepted", "skipped"))
    ]


def _bodies(source: ViewSource, agent: AgentId, turn: TurnRow) -> list[tuple[Millis, bytes]]:
    return _chunk_bodies(source.read_turn(agent, turn.turn))


def _chunk_bodies(stored: Sequence[Stored]) -> list[tuple[Millis, bytes]]:
    """Return the bodies of stored chunks, each with the time when it was stored."""
    events = [(each.at, decode_event(each.body)) for each in stored]
    return [(at, bytes(event.body)) for at, event in events if isinstance(event, Chunk)]


def _total(source: ViewSource, agent: AgentId, turn: TurnRow) -> int:
    if turn.is_open:
        return len(fold_managed_stream(_bodies(source, agent, turn)).chunks)
    usage = msgspec.json.decode(turn.usage) if turn.usage is not None else None
    return int(usage["totalChunks"]) if isinstance(usage, dict) and "totalChunks" in usage else turn.chunks

"""An agent's log as it grows: from a file beside its server, or from a server by URL. Both tell the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ..client.address import Address
from ..client.backoff import Backoff
from ..codec.compact import replay_from_fold
from ..core.state import State
from ..core.tree import Node, Tree
from ..errors import BadMessage, LogCorrupt, TurnedAway, Unreachable, UsageError
from ..events import Event, decode_event
from ..extras import missing
from ..ids import AgentId, Millis, NodeId, Seq, TurnId
from ..messages.message import Chunk, UIMessage
from ..messages.sse import SseEvent, SseParser
from .commands.show import restore_loaded
from .readonly_log import ReadOnlyLog

if TYPE_CHECKING:
    import httpx

__all__ = ["CaughtUp", "Happened", "Here", "News", "events_url", "follow_file", "follow_url"]

POLL = 0.1
"""Seconds between two looks at a file: how late a word is seen."""

TRIES = 5
"""How often a server is asked before it counts as not there; one that was there once is waited for."""

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Here:
    """Where the agent stands as the reader joins: the messages that are shown, and its open turns so far."""

    messages: Sequence[UIMessage] = ()
    open: Mapping[TurnId, Sequence[Chunk]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Happened:
    """One committed event; a server does not say when it was."""

    seq: Seq
    event: Event
    at: Millis | None = None


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The reader has heard all that was committed when it came."""


News = AsyncGenerator[Here | Happened | CaughtUp, None]


async def follow_file(store: ReadOnlyLog, agent: AgentId, after: Seq | None) -> News:
    """Yield where the agent stands, or nothing of that when there is a cursor, then what is committed, for ever."""
    cursor, is_behind = after, True
    if cursor is None:
        loaded = await store.load(agent)
        state, _ = restore_loaded(loaded)
        cursor = loaded.head
        yield _here(state)
    while True:
        page = await store.read(agent, cursor)
        for stored in page:
            try:
                event = decode_event(stored.body)
            except msgspec.DecodeError as exc:
                raise LogCorrupt(
                    f"unable to read event {stored.seq} of {agent!r}; {exc}. Try `everyword doctor`"
                ) from exc
            yield Happened(stored.seq, event, stored.at)
            cursor = stored.seq
        if not page:
            if is_behind:
                is_behind = False
                yield CaughtUp()
            await asyncio.sleep(POLL)


def _here(state: State) -> Here:
    chunks = {turn.id: replay_from_fold(turn.fold) for turn in state.chat_turns() if turn.fold is not None}
    return Here(_messages(state, {turn.node for turn in state.chat_turns()}), chunks)


def _messages(state: State, unfinished: set[NodeId]) -> list[UIMessage]:
    """Return the messages of the active path but those that are still being written: these are told as chunks."""
    found: list[UIMessage] = []
    for number, node in state.tree.shown_path():
        try:
            if number not in unfinished:
                found.append(UIMessage.decode(node.shown or b""))
        except BadMessage:
            continue
    return found


async def follow_url(url: str, agent: str, after: Seq | None, headers: Mapping[str, str]) -> News:
    """Yield the same of a server; comes back by itself, from the cursor, when the connection is lost.

    Raises:
        TurnedAway: the server does not let this reader in, or has no such agent.
        Unreachable: there is no server.
    """
    try:
        import httpx
    except ImportError:
        raise missing("httpx", "client", "read from a server") from None
    where, cursor, tries, was_there = events_url(url, agent), after, 0, False
    head: Seq | None = None
    # Loading certificates takes longer than the rest of it; plain HTTP needs none.
    async with httpx.AsyncClient(verify=where.startswith("https"), timeout=httpx.Timeout(10.0, read=60.0)) as client:
        while True:
            tries += 1
            try:
                if cursor is not None and head is None:
                    async with aclosing(_hear(client, where, headers, None)) as told:
                        head, _ = await anext(told)  # who brings no cursor is told first how far the log is
                async with aclosing(_hear(client, where, headers, cursor)) as told:
                    async for seq, news in told:
                        was_there, tries, cursor = True, 0, seq
                        yield news
                        if head is None or seq >= head:
                            head = head if head is not None else seq
                            yield CaughtUp()
            except (httpx.TransportError, StopAsyncIteration) as exc:
                if not was_there and tries >= TRIES:
                    raise Unreachable(f"unable to read {where}; {exc!r}. Is the server running?") from None
            await asyncio.sleep(Backoff().delay(tries + 1, lambda: 0.5) / 1000)


async def _hear(
    client: httpx.AsyncClient, where: str, headers: Mapping[str, str], cursor: Seq | None
) -> AsyncGenerator[tuple[Seq, Here | Happened], None]:
    """Yield what one response tells, with the cursor behind it."""
    at = {"last-event-id": str(cursor)} if cursor is not None else {}
    async with client.stream("GET", where, headers={**headers, **at}) as answer:
        status = answer.status_code
        if 400 <= status < 500 and status not in (408, 425, 429):
            said = (await answer.aread()).decode(errors="replace").strip()[:300]
            raise TurnedAway(f"unable to read {where}; the server says {status}: {said}", status=status)
        parser = SseParser()
        async for piece in answer.aiter_bytes():
            for event in parser.feed(piece):
                yield _read(event)


def events_url(url: str, agent: str) -> str:
    """Return where a server tells an agent's log. `agent` may be empty when `url` is the agent's own."""
    if not agent:
        return f"{url.rstrip('/')}/events"
    kind, _, name = agent.partition("/")
    if not name:
        raise UsageError(f"unable to find {agent!r} on a server; give kind/name, as in chat/ann")
    return Address(url, kind, name).http("events")


def _read(told: SseEvent) -> tuple[Seq, Here | Happened]:
    seq = Seq(int(told.id or 0))
    if told.event == "snapshot":
        return seq, _snapshot(msgspec.json.decode(told.data))
    return seq, Happened(seq, decode_event(told.data))


def _snapshot(told: JsonObject) -> Here:
    nodes: dict[NodeId, Node] = {}
    for node in told["nodes"]:
        body = msgspec.json.encode(node["message"]) if node["message"] is not None else None
        message = node["message"] or {"id": "", "role": ""}
        nodes[node["node"]] = Node(node["parent"], message["id"], message["role"], Millis(0), body)
    state = State(tree=Tree(nodes, told["leaf"]))
    chunks = {TurnId(turn["turn"]): turn["chunks"] for turn in told["turns"]}
    return Here(_messages(state, {turn["node"] for turn in told["turns"]}), chunks)

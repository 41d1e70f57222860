"""Follows an agent's log, from a store or from a server by URL; both yield the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from ..client.address import AgentAddress
from ..client.backoff import Backoff
from ..codec.compact import replay_from_fold
from ..core.state import State
from ..core.tree import Node, Tree
from ..errors import BadMessage, LogCorrupt, LogUnavailable, TurnedAway, Unreachable, UsageError
from ..events import Event, decode_event
from ..extras import missing
from ..ids import AgentId, Millis, NodeId, Seq, TurnId
from ..messages.message import Chunk, UIMessage
from ..messages.sse import SseEvent, SseParser
from .commands.show import restore_loaded
from .log_reader import LogReader

if TYPE_CHECKING:
    import httpx

__all__ = [
    "CaughtUp",
    "ConnectionLost",
    "CurrentState",
    "LogUpdates",
    "SourceEvent",
    "events_url",
    "follow_log",
    "follow_url",
]

TRIES = 5
"""Attempts before a server counts as unreachable; after a first success, it is retried forever."""

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CurrentState:
    """The agent when the reader starts: the messages that clients see, and the chunks of its open turns."""

    messages: Sequence[UIMessage] = ()
    open: Mapping[TurnId, Sequence[Chunk]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SourceEvent:
    """One committed event; a server does not send its time."""

    seq: Seq
    event: Event
    at: Millis | None = None


@dataclass(frozen=True, slots=True)
class CaughtUp:
    """The reader has received everything that was committed when it started."""


@dataclass(frozen=True, slots=True)
class ConnectionLost:
    """The store cannot be reached; told once, then the reader tries again and goes on from its cursor."""

    why: str


LogUpdates = AsyncGenerator[CurrentState | SourceEvent | CaughtUp | ConnectionLost, None]


async def follow_log(
    store: LogReader, agent: AgentId, after: Seq | None, *, is_lost: Callable[[LogUnavailable], bool] = lambda _: False
) -> LogUpdates:
    """Yield the agent's current messages, unless there is a cursor, then every committed event, forever.

    If `is_lost` says of an error that the store may be reached again later, it is read from the cursor then.
    """
    cursor, is_behind, failures = after, True, 0
    if cursor is None:
        loaded = await store.load(agent)
        state, _ = restore_loaded(loaded)
        cursor = loaded.head
        yield _here(state)
    while True:
        try:
            page = await store.read(agent, cursor)
        except LogUnavailable as exc:
            if not is_lost(exc):
                raise
            failures += 1
            if failures == 1:
                yield ConnectionLost(str(exc))
            await asyncio.sleep(Backoff().delay(failures, lambda: 0.5) / 1000)
            continue
        failures = 0
        for stored in page:
            try:
                event = decode_event(stored.body)
            except msgspec.DecodeError as exc:
                raise LogCorrupt(
                    f"unable to read event {stored.seq} of {agent!r}; {exc}. Run `everyword doctor`"
                ) from exc
            yield SourceEvent(stored.seq, event, stored.at)
            cursor = stored.seq
        if not page:
            if is_behind:
                is_behind = False
                yield CaughtUp()
            await asyncio.sleep(store.poll_seconds)


def _here(state: State) -> CurrentState:
    chunks = {turn.id: replay_from_fold(turn.fold) for turn in state.chat_turns() if turn.fold is not None}
    return CurrentState(_messages(state, {turn.node for turn in state.chat_turns()}), chunks)


def _messages(state: State, unfinished: set[NodeId]) -> list[UIMessage]:
    """Return the messages of the active path without those in progress, which are reported as chunks."""
    found: list[UIMessage] = []
    for number, node in state.tree.shown_path():
        try:
            if number not in unfinished:
                found.append(UIMessage.decode(node.shown or b""))
        except BadMessage:
            continue
    return found


async def follow_url(url: str, agent: str, after: Seq | None, headers: Mapping[str, str]) -> LogUpdates:
    """Yield the same from a server; reconnects from the cursor when the connection is lost.

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
    # Loading certificates takes longer than the request; plain HTTP needs none.
    async with httpx.AsyncClient(verify=where.startswith("https"), timeout=httpx.Timeout(10.0, read=60.0)) as client:
        while True:
            tries += 1
            try:
                if cursor is not None and head is None:
                    async with aclosing(_hear(client, where, headers, None)) as told:
                        head, _ = await anext(told)  # without a cursor, the server first sends the end of the log
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
) -> AsyncGenerator[tuple[Seq, CurrentState | SourceEvent], None]:
    """Yield the events of one response, each with the cursor after it."""
    at = {"last-event-id": str(cursor)} if cursor is not None else {}
    async with client.stream("GET", where, headers={**headers, **at}) as answer:
        status = answer.status_code
        if 400 <= status < 500 and status not in (408, 425, 429):
            said = (await answer.aread()).decode(errors="replace").strip()[:300]
            raise TurnedAway(f"unable to read {where}; the server responded {status}: {said}", status=status)
        parser = SseParser()
        async for piece in answer.aiter_bytes():
            for event in parser.feed(piece):
                yield _read(event)


def events_url(url: str, agent: str) -> str:
    """Return the URL of an agent's events. `agent` is empty when `url` is the agent's own URL."""
    if not agent:
        return f"{url.rstrip('/')}/events"
    kind, _, name = agent.partition("/")
    if not name:
        raise UsageError(f"unable to find {agent!r} on a server; give kind/name, as in chat/ann")
    return AgentAddress(url, kind, name).http("events")


def _read(told: SseEvent) -> tuple[Seq, CurrentState | SourceEvent]:
    seq = Seq(int(told.id or 0))
    if told.event == "snapshot":
        return seq, _snapshot(msgspec.json.decode(told.data))
    return seq, SourceEvent(seq, decode_event(told.data))


def _snapshot(told: JsonObject) -> CurrentState:
    nodes: dict[NodeId, Node] = {}
    for node in told["nodes"]:
        body = msgspec.json.encode(node["message"]) if node["message"] is not None else None
        message = node["message"] or {"id": "", "role": ""}
        nodes[node["node"]] = Node(node["parent"], message["id"], message["role"], Millis(0), body)
    state = State(tree=Tree(nodes, told["leaf"]))
    chunks = {TurnId(turn["turn"]): turn["chunks"] for turn in told["turns"]}
    return CurrentState(_messages(state, {turn["node"] for turn in told["turns"]}), chunks)

"""The transcript of an agent over HTTP, complete or in pages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Final

from starlette.responses import Response
from starlette.types import ASGIApp

from ..core.conversation import conversation, has_gap, with_reserved
from ..core.state import State
from ..core.tree import Node, Tree
from ..errors import AgentStopped, BadInput
from ..ids import AgentId, cut_id
from ..runtime.directory import Directory
from .event_streams import sent
from .http_caller import Caller
from .request_bodies import read_number
from .service import Service
from .streamed_response import StreamedResponse

__all__ = ["get_messages"]

AT_ONCE: Final = 256 * 1024
"""A transcript of at most this many bytes is sent whole, a longer one in pieces, as fast as the client reads."""


async def get_messages(service: Service, caller: Caller) -> ASGIApp:
    """Stream the conversation as a JSON array of UIMessages, without loading an idle agent.

    `limit` and `before` together give pages, beginning with the newest messages.

    Query:
        limit: The number of messages; the newest ones are returned.
        before: Return only messages before the message with this id.
        reserve: With `1`, an answer that has not begun is an empty message, if another message follows it.
    Answers:
        200: `application/json`: the messages, oldest first; an empty array for an agent that does not exist.
        400: `before` is not the id of a message, or `limit` is too large.
    """
    headers = {"content-type": "application/json", "cache-control": "no-cache"}
    async with service.slices.build_slots:
        asked = caller.request.query_params
        bodies = _page(await _shown(service.directory, caller.agent, reserve=asked.get("reserve") == "1"), asked)
        if sum(map(len, bodies)) <= AT_ONCE:
            return Response(b"[%b]" % b",".join(bodies), headers=headers)
        slices = service.slices.slice_stream(_json_array(bodies))
    return StreamedResponse(sent(slices), headers)


async def _shown(directory: Directory, agent: AgentId, *, reserve: bool) -> list[tuple[str, bytes]]:
    """Return id and body of each message of the conversation, oldest first."""

    def look(state: State) -> list[tuple[str, bytes]]:
        shown = conversation(state)
        return [
            (state.tree.nodes[node].id, body) for node, body, _ in (with_reserved(state, shown) if reserve else shown)
        ]

    if (loaded := directory.peek(agent)) is not None:
        with suppress(AgentStopped):  # it was unloaded meanwhile, so the store has everything
            return await loaded.actor.inspect(look)
    row, messages = await directory.store.conversation(agent)
    if row is None:
        return []
    nodes = {m.node: Node(m.parent, m.id, m.role, m.at, m.body, m.draft) for m in messages}
    state = State(tree=Tree(nodes, row.leaf))
    if not has_gap(state):
        return look(state)
    async with directory.attach(agent) as loading:  # an answer may be running in it
        return await loading.actor.inspect(look)


def _page(shown: list[tuple[str, bytes]], asked: Mapping[str, str]) -> list[bytes]:
    before, limit = asked.get("before"), asked.get("limit", "")
    if before is not None:
        places = [place for place, (name, _) in enumerate(shown) if name == before]
        if not places:
            raise BadInput(f"unable to page; there is no message {cut_id(before)!r} to go back from")
        shown = shown[: places[0]]
    if limit.isascii() and limit.isdigit():
        most = read_number(limit)
        if most is None:
            raise BadInput("unable to page; `limit` is too large. Leave it out to get all messages.")
        shown = shown[-most:] if most else []
    return [body for _, body in shown]


def _json_array(bodies: list[bytes]) -> Iterator[bytes]:
    yield b"["
    for place, body in enumerate(bodies):
        yield b",%b" % body if place else body
    yield b"]"

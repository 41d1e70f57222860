"""The list of agents and their logs, for the playground page. For development only.

It is read-only, has the same access control as the agents, and is served only if the app is wrapped in it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ..agents import agent_kind
from ..errors import AgentStopped, BadInput, LogError
from ..ids import SUB, AgentId, Seq
from ..log.base import LogStore, Stored
from ..messages.message import UIMessage
from ..principals import Principal
from ..rows import TurnRow
from .app import Everyword
from .permissions import Connecting, Reject
from .refusals import refusal_response
from .request_bodies import read_number

__all__ = ["FEED", "PlaygroundFeed"]

FEED: Final = "/playground"
"""Where the page finds it."""

MOST_AGENTS: Final = 200
"""How many conversations are listed: the newest."""

RECENT: Final = 4000
"""How many events a reader without a cursor is given: the newest."""

PAGE: Final = 1000
PREVIEW: Final = 90

JsonObject = dict[str, Any]


@runtime_checkable
class _Listing(Protocol):
    """A store that can say what it has; one that cannot is read by name only."""

    async def agents(self) -> Sequence[AgentId]: ...

    async def turns(self, agent: AgentId, *, newest: int | None = None) -> Sequence[TurnRow]: ...


@dataclass(frozen=True, slots=True)
class _Line:
    """One conversation in the list, as of its newest turn."""

    turn: TurnRow | None
    entry: JsonObject


class PlaygroundFeed:
    """An ASGI application that answers below `/playground` and hands everything else to the agents' own.

    `GET /playground/agents` lists the conversations that the caller may use, the newest first.
    `GET /playground/log?agent=kind/name` gives the newest events of one, with `&after=seq` those behind a cursor, and
    with `&seq=n` one event as it is stored.
    """

    def __init__(self, app: Everyword) -> None:
        self._app = app
        self._lines: dict[AgentId, _Line] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Be an ASGI application."""
        path = scope["path"].removeprefix(scope.get("root_path", "")) if scope["type"] == "http" else ""
        if not path.startswith(f"{FEED}/"):
            await self._app(scope, receive, send)
            return
        scope = self._app.access_policy.without_credentials(scope)
        response = await self._respond(Request(scope, receive), path.removeprefix(f"{FEED}/"))
        await response(scope, receive, send)

    async def _respond(self, request: Request, resource: str) -> ASGIApp:
        refused = self._app.access_policy.refuse_at_sight(request)
        if refused is not None:
            return refusal_response(refused.status, refused.reason)
        if request.method not in ("GET", "HEAD"):
            return refusal_response(405, "unable to do that; the playground only reads", allow="GET, HEAD")
        answer = RESOURCES.get(resource)
        if answer is None:
            return refusal_response(404, f"unable to find {resource!r}; the playground has {', '.join(RESOURCES)}")
        try:
            known = await self._app.access_policy.permissions.authenticate(request)
            if isinstance(known, Reject):
                return refusal_response(known.status, known.reason)
            return await answer(self, request, known)
        except BadInput as exc:
            return refusal_response(400, str(exc))
        except (AgentStopped, LogError) as exc:
            return refusal_response(503, str(exc), retry_after="1")

    async def _refused(
        self, request: Request, agent: AgentId, known: Principal | None, *, is_listed: bool = False
    ) -> Reject | None:
        kind, _, name = agent.partition("/")
        cls = self._app.class_of_kind(kind)
        if cls is None or not name:
            return Reject(f"unable to find an agent {agent!r}; agents are named kind/name", 404)
        permissions = self._app.access_policy.permissions
        permit = await permissions.permit(Connecting(request, cls, name), agent_kind(cls), known)
        if isinstance(permit, Reject):
            return permit
        return await (permit.decide("read") if is_listed else permit.refuse("read", what={"resource": "playground"}))

    # -- which agents there are --------------------------------------------------------------------------------------

    async def _list(self, request: Request, known: Principal | None) -> ASGIApp:
        store = (await self._app.service()).directory.store
        stored = await store.agents() if isinstance(store, _Listing) else []
        roots = [agent for agent in stored if f"/{SUB}/" not in agent][-MOST_AGENTS:]
        allowed = [agent for agent in roots if await self._refused(request, agent, known, is_listed=True) is None]
        entries = [await self._entry(store, agent) for agent in allowed]
        entries.sort(key=lambda entry: entry["at"] or 0, reverse=True)
        return _json({"agents": entries, "left_out": len(stored) - len(roots)})

    async def _entry(self, store: LogStore, agent: AgentId) -> JsonObject:
        newest = await store.turns(agent, newest=1) if isinstance(store, _Listing) else []
        turn = newest[0] if newest else None
        line = self._lines.get(agent)
        if line is None or line.turn != turn:
            kind, _, name = agent.partition("/")
            entry = {"kind": kind, "name": name, "preview": await _preview(store, agent), **_standing(turn)}
            line = self._lines[agent] = _Line(turn, entry)
        return line.entry

    # -- one agent's log -----------------------------------------------------------------------------------------------

    async def _log(self, request: Request, known: Principal | None) -> ASGIApp:
        asked = request.query_params
        agent = AgentId(asked.get("agent", ""))
        refused = await self._refused(request, agent, known)
        if refused is not None:
            return refusal_response(refused.status, refused.reason)
        directory = (await self._app.service()).directory
        store = directory.store
        if not await store.has(agent):
            return _json({"head": 0, "events": []})  # asking about an agent does not make one
        if "seq" in asked:
            return await _one(store, agent, _number(asked, "seq"))
        async with directory.attach(agent) as loaded:
            head = loaded.actor.tail.head
        after = _number(asked, "after") if "after" in asked else max(head - RECENT, 0)
        stored = await store.read(agent, Seq(after), PAGE)
        return _json({"head": head, "events": [_summary(each) for each in stored]})


RESOURCES: Final[Mapping[str, Callable[[PlaygroundFeed, Request, Principal | None], Awaitable[ASGIApp]]]] = {
    "agents": PlaygroundFeed._list,
    "log": PlaygroundFeed._log,
}


def _standing(turn: TurnRow | None) -> JsonObject:
    if turn is None:
        return {"status": "idle", "at": None, "turns": 0}
    return {"status": turn.status, "at": turn.ended_at or turn.accepted_at, "turns": turn.turn}


async def _preview(store: LogStore, agent: AgentId) -> str:
    """Return how the conversation's newest question begins."""
    for row in reversed((await store.conversation(agent))[1]):
        if row.role == "user" and row.body is not None:
            text = " ".join(UIMessage.decode(row.body).text.split())
            return text if len(text) <= PREVIEW else f"{text[: PREVIEW - 1]}…"
    return ""


async def _one(store: LogStore, agent: AgentId, seq: int) -> ASGIApp:
    found = await store.read(agent, Seq(seq - 1), 1)
    if not found or found[0].seq != seq:
        return refusal_response(404, f"unable to find event {seq}; it was never written, or is pruned")
    return _json({"seq": seq, "at": found[0].at, "event": msgspec.Raw(found[0].body)})


def _number(asked: Mapping[str, str], name: str) -> int:
    number = read_number(asked[name])
    if number is None:
        raise BadInput(f"unable to read the log; {name!r} must be a whole number")
    return number


def _summary(stored: Stored) -> JsonObject:
    """Return an event without what is long: messages and chunks are on the page already, or asked for one by one."""
    event: JsonObject = msgspec.json.decode(stored.body)
    for name in ("messages", "message", "client_tools"):
        event.pop(name, None)
    body = event.pop("body", None)
    if stored.kind == "chunk" and isinstance(body, dict):
        event["chunk"] = {name: body[name] for name in ("type", "toolCallId", "toolName") if name in body}
    return {"seq": stored.seq, "at": stored.at, "size": len(stored.body), **event}


def _json(value: JsonObject) -> ASGIApp:
    headers = {"cache-control": "no-store"}
    return Response(msgspec.json.encode(value), headers=headers, media_type="application/json")

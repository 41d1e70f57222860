"""What a client of lists may see and do: permissions, records of the audit trail, streams, and cursors."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from starlette.types import ASGIApp

from ..agents import agent_kind
from ..ids import AgentId
from ..wire.sse import PLAIN_STREAM_HEADERS
from .list_cursors import SealedCursors
from .list_requests import ListCaller
from .permissions import Action, Connecting, Permit, Reject
from .streamed_response import StreamedResponse

if TYPE_CHECKING:
    from .app import Everyword

__all__ = ["ListAccess"]


class ListAccess:
    """Asks `authorize` about each conversation of a list, for one app."""

    def __init__(self, app: Everyword) -> None:
        self._app, self.cursors = app, SealedCursors()

    async def refuse(self, caller: ListCaller, action: Action | None) -> Reject | None:
        """Return why the client may not do this with the conversation in the path; None if it may."""
        if action is None:
            return None
        permit = await self.permit(caller, *caller.conversation)
        return permit if isinstance(permit, Reject) else await permit.refuse(action, what=caller.about)

    async def record_list(self, caller: ListCaller, **what: object) -> Reject | None:
        """Record that a list is sent. The record of a live one does not name what it shows later."""
        permissions = self._app.access_policy.permissions
        permit = Permit(caller.principal, clock=permissions.clock, hear=permissions.hear)
        scope = caller.request.query_params.get("scope", "mine")
        return await permit.record("list", None, {"scope": scope, **caller.about, **what})

    async def may(self, caller: ListCaller, kind: str, name: str, *actions: Action) -> bool:
        """Return whether the client may do all of this with a conversation."""
        permit = await self.permit(caller, kind, name)
        return not isinstance(permit, Reject) and not [e for e in actions if await permit.decide(e) is not None]

    async def permit(self, caller: ListCaller, kind: str, name: str) -> Permit | Reject:
        """Return what decides about a conversation; why not, if the app serves no such agents."""
        cls = self._app.class_of_kind(kind)
        if cls is None:
            return Reject(f"unable to find an agent of kind {kind[:80]!r}", 404)
        connecting = Connecting(caller.request, cls, name)
        return await self._app.access_policy.permissions.permit(connecting, agent_kind(cls), caller.principal)

    def stream(self, caller: ListCaller, pieces: AsyncGenerator[bytes, None]) -> ASGIApp:
        """Return a response that is live, counted as one of the client's readers, and closed with its permission."""
        service, principal = caller.service, caller.principal
        readers, lists = service.readers, AgentId("")
        readers.check_principal(principal.id)
        seat = ExitStack()
        seat.enter_context(readers.hold(lists, principal.id))
        permit = Permit(principal, clock=service.directory.clock)
        return StreamedResponse(pieces, PLAIN_STREAM_HEADERS, seat, partial(service.open_connections.admit, permit))

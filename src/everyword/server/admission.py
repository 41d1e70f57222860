"""Admission: the checks that every request and socket passes before it reaches an agent, in their order.

1. `AccessPolicy.refuse_at_sight`: without `authorize` only this machine; origins; malformed headers.
2. `Permissions.authenticate`: the client's principal.
3. `find_address`: the agent and the resource that the URL names.
4. `Permissions.permit` and `entered_as`: what the principal may do with this agent.
5. `check_sub_agent_access`: every agent above a sub-agent must allow it.
"""

from __future__ import annotations

import logging
import reprlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from starlette.requests import HTTPConnection

from ..agents import Agent, agent_kind
from ..errors import BadInput, EverywordError, UsageError, public_text
from ..ids import AgentId
from ..principals import Principal, acting_as
from .access_policy import NOTHING_TO_WATCH, AccessPolicy, can_be_watched
from .agent_urls import ResourceAddress, find_address
from .http import LOADS_NOTHING_NEW, SOCKET, entered_as
from .permissions import Action, Connecting, Permit, Reject
from .relayed_principal import relayed_principal
from .service import Service
from .sub_agent_access import SubAgentRefusal, check_sub_agent_access

if TYPE_CHECKING:
    from ..cluster.link import NodeLink
    from .node_links import NodeLinks

__all__ = ["Admission", "Admitted", "OnAnotherNode"]

log = logging.getLogger("everyword.server")


class Admitted(NamedTuple):
    """A client that was admitted, and the resource of the agent that it asks for."""

    service: Service
    agent: AgentId
    resource: str
    permit: Permit
    action: Action


class OnAnotherNode(NamedTuple):
    """A client that was admitted, and whose agent another node owns: that one serves it."""

    link: NodeLink
    principal: Principal
    node: NodeLinks
    agent: AgentId


class Admission:
    """Admits requests and sockets to the agents of one app. `served` has the classes by all their kinds."""

    def __init__(self, access: AccessPolicy, served: Mapping[str, type[Agent]], base_path: str) -> None:
        self.access, self._served = access, served
        self.base_path = _clean_path(base_path)

    async def enter(
        self,
        connection: HTTPConnection,
        start: Callable[[], Awaitable[Service]],
        *,
        named_kinds: Sequence[str] | None = None,
    ) -> Admitted | OnAnotherNode | Reject | SubAgentRefusal:
        """Run all checks; return where the client goes, or the first refusal.

        `start` is called after the checks 1 to 4. A 404 names `named_kinds`, if they are given. A client that another
        node has relayed was let in there (1 and 2).
        """
        known: Principal | Reject | None = relayed_principal(connection.scope)
        is_relayed = known is not None
        if not is_relayed:
            refused = self.access.refuse_at_sight(connection)
            known = refused if refused is not None else await self.access.permissions.authenticate(connection)
        if isinstance(known, Reject):
            return await self.access.permissions.record_stranger(connection, known)
        try:
            address = find_address(connection.scope, self.base_path)
        except BadInput as exc:
            return Reject(public_text(exc, "unable to read the path"), 400)
        cls = self._served.get(address.kind) if address is not None else None
        if address is None or cls is None:
            return Reject(self._not_found(address, named_kinds), 404)
        connecting = Connecting(connection, cls, address.name, address.subs)
        permit = await self.access.permissions.permit(connecting, agent_kind(cls), known)
        if isinstance(permit, Reject):
            return permit
        is_socket = connection.scope["type"] == "websocket"
        resource = SOCKET if is_socket else address.resource
        about = {"method": "WEBSOCKET" if is_socket else str(connection.scope["method"])}
        if address.subs:
            about["below"] = "/".join(part for sub in address.subs for part in sub)
        action = await entered_as(permit, resource, about, is_relayed=is_relayed)
        if isinstance(action, Reject):
            return action
        try:
            service = await start()
            agent = await service.directory.stored_ids.find(address.agent)
            loads = bool(address.subs) or is_socket  # for other requests, `answer_http` checks the resource
            if loads and permit.principal.read_only and not await can_be_watched(service.directory, agent):
                return NOTHING_TO_WATCH
            if service.node is not None and not is_relayed:
                may_make = not permit.principal.read_only and address.resource not in LOADS_NOTHING_NEW
                link = await service.node.owner(agent, takes=loads or may_make)
                if link is not None:
                    return OnAnotherNode(link, permit.principal, service.node, agent)
            with acting_as(permit.principal.identity):
                refusal = await check_sub_agent_access(service.directory, connection, address, self._served)
            if refusal is not None:
                why = Reject(refusal.sentence or "unable to accept the request; an agent on the way refuses it")
                await permit.record(action, why, {"resource": resource, **about})
            return refusal or Admitted(service, agent, address.resource, permit, action)
        except EverywordError as exc:
            log.error("%s", exc)
            return Reject("unable to answer; the log cannot be used right now. Try again.", 503)

    def _not_found(self, address: ResourceAddress | None, named_kinds: Sequence[str] | None) -> str:
        text = "unable to find this page"
        if address is not None:
            text = f"unable to find an agent of kind {reprlib.repr(address.kind)}"
        if named_kinds is None:
            return text
        kinds = ", ".join(named_kinds) or "none"
        return f"{text}; agents are at {self.base_path}/{{kind}}/{{name}}, and the kinds here are: {kinds}"


def _clean_path(given: object) -> str:
    """Return a base path with a slash before it and none behind it: the empty string for the root."""
    if not isinstance(given, str):
        raise UsageError(f"unable to serve agents at {given!r}; base_path is text, such as '/agents'")
    path = given.strip("/")
    return f"/{path}" if path else ""

"""This process as one node among several: the links to the others, and what they ask of this one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from secrets import token_bytes
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from ..cluster.asgi_relay import relay
from ..cluster.handshake import LinkIdentity
from ..cluster.link import NodeLink
from ..cluster.link_server import LinkServer
from ..cluster.links import Links
from ..cluster.peer_requests import PeerRequests
from ..cluster.relayed_requests import RelayedRequests
from ..cluster.repeated_log import RepeatedLog
from ..errors import AgentStopped, LinkError, OwnedElsewhere, UsageError
from ..ids import AgentId, Incarnation
from ..log.nodes import LiveNode
from ..principals import Principal
from ..runtime.directory import Directory
from ..runtime.ownership import Ownership
from .node_settings import NodeSettings
from .relayed_principal import encode_principal

__all__ = ["NodeLinks", "OnNodeCall", "relay_client"]

log = logging.getLogger("everyword.nodes")

OnNodeCall = Callable[[str, bytes], Awaitable[bytes | AsyncIterator[bytes]]]
"""Runs what another node calls: the method and its payload."""

TRY_AGAIN: Final = 0.1
"""Seconds after which a node tries again to reach the owner of an agent."""

LOOK_AGAIN: Final = 1.0
"""Seconds after which it asks the database again where the agent is, unless the nodes have changed: thousands of
sockets may wait for the same dead node."""


class NodeLinks:
    """Finds the node that owns an agent, and lets it serve a request, a socket or a call.

    Raises `UsageError` if the settings cannot be used, before anything is opened.
    `listen` comes before the store is opened, so that other nodes know the address as soon as they know of this node.
    """

    def __init__(self, settings: NodeSettings, app: ASGIApp, on_call: OnNodeCall) -> None:
        self._settings, self._secrets = settings, settings.checked_secrets()
        tls = settings.tls()
        # No other node has this secret: until the store is open, no node can link to this one.
        self._identity = LinkIdentity(Incarnation(0), (token_bytes(32),))
        self._live: frozenset[Incarnation] = frozenset()
        self._requests = PeerRequests(RelayedRequests(app), on_call=on_call)
        self._server = LinkServer(self._identity, self._requests, tls=tls[0] if tls is not None else None)
        self._links = Links(self._identity, services=self._requests, tls=tls[1] if tls is not None else None)
        self._directory: Directory | None = None
        self._unreachable = RepeatedLog(log, logging.INFO)
        self._address = ""
        """Where this node listens for links, its own included: it may own a client that it relayed before."""

    async def listen(self) -> str:
        """Listen for other nodes; return the address that they are to use.

        Raises:
            UsageError: the address cannot be used.
        """
        try:
            bound = await self._server.listen(self._settings.socket_address)
        except OSError as exc:
            raise UsageError(
                f"unable to listen for other nodes at {self._settings.listen}; {exc}. Set EVERYWORD_NODE_LISTEN"
            ) from exc
        self._address = bound
        return self._settings.advertised(bound)

    def attach(self, directory: Directory) -> None:
        """Serve other nodes as soon as the directory's store is open."""
        self._directory = directory
        self._running()[1].on_open = self._begin

    async def _begin(self) -> None:
        ownership = self._running()[1]
        nodes = ownership.nodes
        self._identity.secrets = self._secrets or (await nodes.shared_secret(),)
        self._identity.incarnation = nodes.incarnation
        ownership.on_nodes = self._nodes_changed
        self._nodes_changed(nodes.live)

    async def aclose(self) -> None:
        """Close all links: the clients that were relayed here reconnect."""
        await self._requests.aclose()
        await self._links.aclose()
        await self._server.aclose()

    def _nodes_changed(self, nodes: Sequence[LiveNode]) -> None:
        """Cut the links of nodes that are gone; a link leads to one incarnation, also on this side."""
        mine, live = self._running()[1].nodes.incarnation, frozenset(node.id for node in nodes)
        if mine != self._identity.incarnation:
            self._identity.incarnation = mine
            self._links.drop_all("this node has a new incarnation")
            self._server.drop_all("this node has a new incarnation")
        for gone in self._live - live:  # not every peer that is missing: it may have registered after the list was read
            self._links.drop(gone)
            self._server.drop(gone)
        self._live = live

    # -- finding the owner ---------------------------------------------------------------------------------------------

    async def owner(self, agent: AgentId, *, takes: bool) -> NodeLink | None:
        """Return the link to the node that owns the agent; None if this node may serve it.

        An agent that no live node owns is loaded here, if `takes` says so. While the owner cannot be reached, this
        waits: until it is back, or declared gone, which takes a lease at most.

        Raises:
            AgentStopped: it took too long.
            LogError: the store cannot be read.
        """
        directory, ownership = self._running()
        if directory.usable(agent) is not None:
            return None
        clock = asyncio.get_running_loop().time
        until, look_at, node = clock() + self._settings.lease + 5, 0.0, None
        while True:
            change = ownership.next_change()
            try:
                if clock() >= look_at:
                    node, look_at = await ownership.locate(agent), clock() + LOOK_AGAIN
                if node is not None:
                    return await self._links.get(node.id, node.url)
                if takes:
                    (await directory.hold(agent))()
                return None
            except OwnedElsewhere:
                look_at = 0.0  # another node was faster
            except LinkError as exc:
                self._unreachable.write((node.id if node is not None else None, type(exc)), exc)
            except AgentStopped:
                if ownership.nodes.is_valid:
                    raise
                look_at = 0.0
            if clock() > until:
                raise AgentStopped(f"unable to reach the node that owns {agent!r}. Reconnect in a moment.")
            await asyncio.wait([change], timeout=TRY_AGAIN)
            if change.done():
                look_at = 0.0

    async def link_to_owner(self, agent: AgentId) -> NodeLink:
        """Return the link to the node that owns the agent; to this node itself, if it does; raises as `owner`."""
        link = await self.owner(agent, takes=True)
        if link is not None:
            return link
        return await self._links.get(self._identity.incarnation, self._address)

    def _running(self) -> tuple[Directory, Ownership]:
        assert self._directory is not None
        assert self._directory.ownership is not None
        return self._directory, self._directory.ownership

    @property
    def group(self) -> str:
        """The group of this node; empty without one."""
        return self._settings.group

    async def everywhere(self, method: str, payload: bytes, seconds: float = 2.0) -> list[bytes]:
        """Call a method of every other node that lives; return the results of those that answered in time."""
        asked = await self.ask(method, payload, seconds, among=lambda node: True)
        return [reply for _, reply in asked if reply is not None]

    async def ask(
        self, method: str, payload: bytes, seconds: float, *, among: Callable[[LiveNode], bool]
    ) -> list[tuple[LiveNode, bytes | None]]:
        """Call a method of some other nodes that live; return what each answered, None for one that did not in time."""
        nodes = self._running()[1].nodes
        others = [node for node in nodes.live if node.id != nodes.incarnation and among(node)]

        async def call(node: LiveNode) -> bytes:
            async with asyncio.timeout(seconds):
                link = await self._links.get(node.id, node.url)
                return await link.call(method, payload, timeout=seconds)

        found = await asyncio.gather(*(call(node) for node in others), return_exceptions=True)
        for node, each in zip(others, found, strict=True):
            if isinstance(each, BaseException):
                log.warning("unable to ask node %r: %s", node.name, str(each) or "it did not answer in time")
        return [(node, each if isinstance(each, bytes) else None) for node, each in zip(others, found, strict=True)]


async def relay_client(
    link: NodeLink,
    principal: Principal,
    scope: Scope,
    receive: Receive,
    send: Send,
    find_owner: Callable[[], Awaitable[NodeLink]] | None = None,
) -> None:
    """Let the node at the other end of a link serve a request or a socket that was let in here."""
    await relay(link, scope, receive, send, encode_principal(principal), find_owner=find_owner)

"""The links that this node has dialed: one per incarnation and address, shared by everything that needs it."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Iterator

from ..errors import LinkBusy, LinkLost
from ..ids import Incarnation
from .addresses import LinkAddress, parse_address
from .gone_nodes import GoneNodes
from .handshake import NONCE_BYTES, Handshake, LinkIdentity
from .link import NodeLink, PeerServices
from .settings import LinkSettings

__all__ = ["Links"]


class Links:
    """Dials other nodes, and uses each link again.

    A link leads to an incarnation. When that is declared gone, `drop` cuts the link, though its connection may look
    fine: a node that is paused keeps its connections.
    """

    def __init__(
        self,
        identity: LinkIdentity,
        *,
        services: PeerServices | None = None,
        settings: LinkSettings | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._identity, self._services, self._tls = identity, services, tls
        self._settings = settings or LinkSettings()
        self._links: dict[tuple[Incarnation, str], NodeLink] = {}
        self._connecting: dict[NodeLink, asyncio.Task[None]] = {}
        self._gone = GoneNodes()
        self._is_closed = False

    def __iter__(self) -> Iterator[NodeLink]:
        """Iterate over the links that are established."""
        return iter([link for link in self._links.values() if link.is_usable])

    async def get(self, incarnation: Incarnation, address: str) -> NodeLink:
        """Return the link to this incarnation; dial unless there is one. Callers that wait share one dial.

        Raises:
            LinkLost: the node cannot be reached, or is gone.
            LinkRefused: it does not agree.
            LinkBusy: there are too many links.
            UsageError: the address is none.
        """
        link = self._links.get((incarnation, address))
        if link is None:
            link = self._dial(incarnation, address)
        await link.ready()
        return link

    def drop(self, incarnation: Incarnation) -> None:
        """Cut the links to an incarnation that is gone, at once, and dial it never again."""
        self._gone.add(incarnation)
        for (node, _), link in list(self._links.items()):
            if node == incarnation:
                link.abort(f"node {incarnation} is gone")

    def drop_all(self, why: str) -> None:
        """Cut all links; `why` ends the sentence "unable to use the link; …"."""
        for link in list(self._links.values()):
            link.abort(why)

    async def aclose(self) -> None:
        """Close all links, and dial no more."""
        self._is_closed = True
        links = list(self._links.values())
        connecting = list(self._connecting.values())
        for link in links:
            link.close()
        if connecting:
            await asyncio.wait(connecting)
        for link in links:
            await link.wait_closed()

    def _dial(self, incarnation: Incarnation, address: str) -> NodeLink:
        if self._is_closed:
            raise LinkLost(f"unable to link to node {incarnation}; this node is shutting down")
        if incarnation in self._gone:
            raise LinkLost(f"unable to link to node {incarnation}; it is gone")
        if len(self._links) >= self._settings.links:
            raise LinkBusy(f"unable to link to node {incarnation}; {self._settings.links} links are the limit")
        where = parse_address(address)
        handshake = Handshake(self._identity, secrets.token_bytes(NONCE_BYTES), is_dialer=True, expected=incarnation)
        key = incarnation, address

        def changed(link: NodeLink) -> None:
            if link.lost.done() and self._links.get(key) is link:
                del self._links[key]
                if (connecting := self._connecting.get(link)) is not None:
                    connecting.cancel()

        link = NodeLink(handshake, is_dialer=True, settings=self._settings, services=self._services, on_change=changed)
        self._links[key] = link
        task = asyncio.get_running_loop().create_task(
            self._connect(link, incarnation, where), name=f"dial node {incarnation}"
        )
        self._connecting[link] = task
        task.add_done_callback(lambda _: self._connecting.pop(link))
        return link

    async def _connect(self, link: NodeLink, incarnation: Incarnation, where: LinkAddress) -> None:
        loop = asyncio.get_running_loop()
        try:
            if where.path:
                await loop.create_unix_connection(
                    lambda: link, where.path, ssl=self._tls, server_hostname="localhost" if self._tls else None
                )
            else:
                await loop.create_connection(lambda: link, where.host, where.port, ssl=self._tls)
        except OSError as exc:
            link.fail(LinkLost(f"unable to link to node {incarnation} at {where}; {exc}"))

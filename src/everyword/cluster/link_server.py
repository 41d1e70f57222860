"""Listens for the links of other nodes, on an address of its own: never on the one that clients use."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import ssl
from contextlib import suppress

from ..errors import LinkRefused
from ..ids import Incarnation
from .addresses import LinkAddress, parse_address
from .gone_nodes import GoneNodes
from .handshake import NONCE_BYTES, Handshake, LinkIdentity
from .link import NodeLink, PeerServices
from .repeated_log import RepeatedLog
from .settings import LinkSettings

__all__ = ["LinkServer"]

log = logging.getLogger("everyword.cluster")


class LinkServer:
    """Accepts links. Limits the number, bytes and time of peers that have not proved that they know the secret."""

    def __init__(
        self,
        identity: LinkIdentity,
        services: PeerServices,
        *,
        settings: LinkSettings | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._identity, self._services, self._tls = identity, services, tls
        self._settings = settings or LinkSettings()
        self._unproven: set[NodeLink] = set()
        self._established: set[NodeLink] = set()
        self._gone = GoneNodes()
        self._refused = RepeatedLog(log, logging.WARNING)
        self._server: asyncio.Server | None = None
        self._path = ""

    @property
    def links(self) -> frozenset[NodeLink]:
        """The links that are established."""
        return frozenset(self._established)

    async def listen(self, address: str) -> str:
        """Listen; return the address where it does, with the port that was chosen for port 0.

        Raises:
            OSError: the address is taken, or not of this machine.
            UsageError: the address is none.
        """
        loop, where = asyncio.get_running_loop(), parse_address(address)
        seconds = self._settings.connect_seconds if self._tls is not None else None
        if where.path:
            self._server = await loop.create_unix_server(
                self._accept, where.path, ssl=self._tls, ssl_handshake_timeout=seconds
            )
            self._path = where.path
            return str(where)
        self._server = await loop.create_server(
            self._accept, where.host, where.port, ssl=self._tls, ssl_handshake_timeout=seconds
        )
        return str(LinkAddress(where.host, self._server.sockets[0].getsockname()[1]))

    def drop(self, incarnation: Incarnation) -> None:
        """Cut the links of an incarnation that is gone, at once, and accept no other from it."""
        self._gone.add(incarnation)
        for link in list(self._established):
            if link.peer == incarnation:
                link.abort(f"node {incarnation} is gone")

    def drop_all(self, why: str) -> None:
        """Cut all links; `why` ends the sentence "unable to use the link; …"."""
        for link in [*self._unproven, *self._established]:
            link.abort(why)

    async def aclose(self) -> None:
        """Close all links, and listen no more."""
        links = [*self._unproven, *self._established]
        if self._server is not None:
            self._server.close()
        for link in links:
            link.close()
        for link in links:
            await link.wait_closed()
        if self._server is not None:
            await self._server.wait_closed()
        if self._path:
            with suppress(FileNotFoundError):
                os.unlink(self._path)

    def _accept(self) -> NodeLink:
        """Return the protocol of a connection that was accepted."""
        handshake = Handshake(self._identity, secrets.token_bytes(NONCE_BYTES), is_dialer=False)
        link = NodeLink(
            handshake, is_dialer=False, settings=self._settings, services=self._services, on_change=self._changed
        )
        self._unproven.add(link)
        if len(self._unproven) > self._settings.unproven:
            link.abort("too many connections have not proved that they know the secret")
        return link

    def _changed(self, link: NodeLink) -> None:
        if not link.lost.done():
            self._unproven.discard(link)
            self._established.add(link)
            if link.peer in self._gone:
                link.abort(f"node {link.peer} is gone")
            elif len(self._established) > self._settings.links:
                link.abort(f"{self._settings.links} links are the limit")
            return
        if link in self._unproven and isinstance(refused := link.lost.result(), LinkRefused):
            self._refused.write((link.claimed, refused.reason), refused)
        self._unproven.discard(link)
        self._established.discard(link)

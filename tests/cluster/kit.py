"""Two nodes in one test: a link over a real socket, and a proxy that can swallow what is sent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

from everyword.cluster.handshake import LinkIdentity
from everyword.cluster.link import NodeLink, PeerServices
from everyword.cluster.link_server import LinkServer
from everyword.cluster.links import Links
from everyword.cluster.peer_requests import PeerRequests
from everyword.cluster.settings import LinkSettings
from everyword.cluster.streams import LinkStream
from everyword.ids import Incarnation
from tests.timeouts import PATIENCE

SECRET = b"the secret of all nodes"
EDGE, OWNER = Incarnation(1), Incarnation(2)
LOCAL = "127.0.0.1:0"
PATIENT = LinkSettings(silent_seconds=PATIENCE, connect_seconds=PATIENCE)


def identity(incarnation: Incarnation, *secrets: bytes) -> LinkIdentity:
    return LinkIdentity(incarnation, secrets or (SECRET,))


class Streams:
    """Services that only collect: the streams that the peer opens, and its hints."""

    def __init__(self) -> None:
        self.streams: asyncio.Queue[tuple[LinkStream, bytes]] = asyncio.Queue()
        self.hints: list[bytes] = []

    def opened(self, stream: LinkStream, header: bytes, peer: Incarnation) -> None:
        self.streams.put_nowait((stream, header))

    def hinted(self, payload: bytes, peer: Incarnation) -> None:
        self.hints.append(payload)

    async def next(self) -> LinkStream:
        async with asyncio.timeout(PATIENCE):
            return (await self.streams.get())[0]


class Pair:
    """Both ends of a link, and what they belong to."""

    def __init__(self, links: Links, server: LinkServer, address: str) -> None:
        self.links, self.server, self.address = links, server, address

    async def dial(self, incarnation: Incarnation = OWNER) -> NodeLink:
        async with asyncio.timeout(PATIENCE):
            return await self.links.get(incarnation, self.address)

    async def owner_end(self) -> NodeLink:
        """Return the other end of the one link."""
        await until(lambda: len(self.server.links) == 1)
        (link,) = self.server.links
        return link


@asynccontextmanager
async def nodes(
    services: PeerServices,
    *,
    settings: LinkSettings = PATIENT,
    address: str = LOCAL,
    edge: LinkIdentity | None = None,
    owner: LinkIdentity | None = None,
    tls: tuple[Any, Any] = (None, None),
    edge_services: PeerServices | None = None,
) -> AsyncIterator[Pair]:
    """Run an owner that listens and an edge that can dial it; `tls` is a context for each, the owner's first."""
    server = LinkServer(owner or identity(OWNER), services, settings=settings, tls=tls[0])
    links = Links(edge or identity(EDGE), settings=settings, tls=tls[1], services=edge_services)
    try:
        async with asyncio.timeout(PATIENCE):
            where = await server.listen(address)
        yield Pair(links, server, where)
    finally:
        async with asyncio.timeout(PATIENCE):
            await links.aclose()
            await server.aclose()
            if isinstance(services, PeerRequests):
                await services.aclose()


@asynccontextmanager
async def linked(services: PeerServices, **options: Any) -> AsyncIterator[NodeLink]:
    """Yield the edge's end of a link whose owner has these services."""
    async with nodes(services, **options) as pair:
        yield await pair.dial()


async def until(fact: Callable[[], object]) -> None:
    """Let the loop run until it is true."""
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


async def soon(awaited: Any) -> Any:
    """Wait for something, but not for ever."""
    async with asyncio.timeout(PATIENCE):
        return await awaited


class Proxy:
    """A TCP proxy. While `is_swallowing`, what comes is read and thrown away; while `is_stuck`, it is not read."""

    def __init__(self, target: str) -> None:
        self._target = target
        self.is_swallowing = False
        self._moving = asyncio.Event()
        self._moving.set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    def stick(self) -> None:
        self._moving.clear()

    def unstick(self) -> None:
        self._moving.set()

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        host, _, port = self._target.rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers += [writer, far_writer]
        for source, target in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.create_task(self._pump(source, target))
            self._tasks.add(task)

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await self._moving.wait()
                if not self.is_swallowing:
                    target.write(data)
                    await target.drain()
        if not self.is_swallowing:
            target.close()

    @classmethod
    @asynccontextmanager
    async def before(cls, target: str) -> AsyncIterator[tuple[Proxy, str]]:
        """Run a proxy before this address; yield it and its own address."""
        proxy = cls(target)
        server = await asyncio.start_server(proxy._accepted, "127.0.0.1", 0)
        try:
            yield proxy, f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()
            for task in proxy._tasks:
                task.cancel()
            if proxy._tasks:
                await asyncio.wait(proxy._tasks)
            for writer in proxy._writers:
                writer.transport.abort()
            await asyncio.sleep(0)

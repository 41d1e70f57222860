"""The proxy that tests put between two endpoints does what its methods say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg
import pytest

from tests.postgres.server import Postgres
from tests.tcp_proxy import Pipe, TcpProxy, TcpProxyProcess
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.parametrize("kind", [TcpProxy, TcpProxyProcess])

AnyProxy = TcpProxy | TcpProxyProcess
SHORT = 0.05


class Echo:
    """A server that sends back what it gets; it keeps what it has got, and the errors of its connections."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.ended: asyncio.Queue[OSError | None] = asyncio.Queue()
        self.news = asyncio.Condition()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while piece := await reader.read(1000):
                writer.write(piece)
                async with self.news:
                    self.received += piece
                    self.news.notify_all()
            self.ended.put_nowait(None)
        except OSError as error:
            self.ended.put_nowait(error)
        finally:
            writer.close()

    async def until_received(self, text: bytes) -> None:
        async with self.news, asyncio.timeout(PATIENCE):
            await self.news.wait_for(lambda: text in self.received)


@asynccontextmanager
async def proxied(kind: type[AnyProxy]) -> AsyncIterator[tuple[Echo, AnyProxy]]:
    echo = Echo()
    async with await asyncio.start_server(echo.serve, "127.0.0.1", 0) as server:
        async with kind(server.sockets[0].getsockname()[:2]) as proxy:
            yield echo, proxy


@asynccontextmanager
async def connected(proxy: AnyProxy) -> AsyncIterator[Pipe]:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()


async def said(client: Pipe, text: bytes) -> bytes:
    """Send; return what comes back."""
    client[1].write(text)
    async with asyncio.timeout(PATIENCE):
        return await client[0].readexactly(len(text))


async def expect_silence(client: Pipe) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(SHORT):
            await client[0].read(1)


async def test_connections_are_forwarded_and_ended_in_both_directions(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (echo, proxy), connected(proxy) as client:
        assert await said(client, b"hello" * 50_000) == b"hello" * 50_000
        client[1].write_eof()
        assert (await client[0].read(), await echo.ended.get()) == (b"", None)


async def test_a_cut_resets_both_sides_and_new_connections_work(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (echo, proxy):
        async with connected(proxy) as client:
            await said(client, b"one")
            await proxy.cut()
            with pytest.raises(ConnectionResetError):
                await client[0].read(1)
            assert isinstance(await echo.ended.get(), ConnectionResetError)
        async with connected(proxy) as client:
            assert await said(client, b"two") == b"two"


async def test_swallowed_requests_arrive_after_the_restore(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (echo, proxy), connected(proxy) as client:
        await said(client, b"one")
        await proxy.swallow()
        client[1].write(b"two")
        async with connected(proxy) as late:  # accepted, and no more
            late[1].write(b"three")
            await expect_silence(late)
            assert echo.received == b"one"
            await proxy.restore()
            assert (await client[0].readexactly(3), await late[0].readexactly(5)) == (b"two", b"three")


async def test_a_swallowed_end_is_not_seen_by_the_other_side(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (echo, proxy), connected(proxy) as client:
        await said(client, b"one")
        await proxy.swallow()
        client[1].close()
        await client[1].wait_closed()
        async with connected(proxy) as late:
            await expect_silence(late)
        assert echo.ended.empty()
        await proxy.restore()
        assert await echo.ended.get() is None


async def test_replies_can_be_lost_while_requests_arrive(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (echo, proxy), connected(proxy) as client:
        await proxy.swallow("to_client")
        client[1].write(b"request")
        await echo.until_received(b"request")
        await expect_silence(client)
        await proxy.cut()
        with pytest.raises(ConnectionResetError):
            await client[0].read(1)


async def test_a_delay_holds_for_each_direction_and_keeps_the_order(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (_, proxy), connected(proxy) as client:
        loop = asyncio.get_running_loop()
        await proxy.delay(SHORT)
        began = loop.time()
        assert await said(client, b"hello") == b"hello"
        assert loop.time() - began >= 2 * SHORT
        client[1].write(b"first ")
        await proxy.restore()
        assert await said(client, b"second") == b"first "
        assert await client[0].readexactly(6) == b"second"


async def test_new_connections_are_refused_and_open_ones_stay(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (_, proxy), connected(proxy) as client:
        await said(client, b"one")
        await proxy.refuse()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await said(client, b"two") == b"two"
        await proxy.restore()
        async with connected(proxy) as late:
            assert await said(late, b"three") == b"three"


async def test_a_target_that_refuses_resets_the_client(kind: type[AnyProxy]) -> None:
    async with proxied(kind) as (_, other):
        gone = other.port
    async with kind(("127.0.0.1", gone)) as proxy:
        with pytest.raises(ConnectionResetError):  # of the connection, or as early as in connecting
            async with connected(proxy) as client:
                await client[0].read(1)


async def test_a_database_is_reached_through_a_proxy(kind: type[AnyProxy], postgres_server: Postgres) -> None:
    async with kind(postgres_server.address) as proxy:
        connection = await asyncpg.connect(proxy.url(postgres_server.tcp_url))
        assert await connection.fetchval("SELECT 7") == 7
        await proxy.cut()
        with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
            await connection.fetchval("SELECT 7")

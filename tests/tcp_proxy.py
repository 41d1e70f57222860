"""A TCP proxy between two endpoints (node and database, node and node, client and node) that a test can disturb.

    async with TcpProxy(("127.0.0.1", port)) as proxy:
        store = PostgresLog(proxy.url(server.tcp_url))
        await proxy.swallow("to_client")  # requests arrive, replies do not
        await proxy.cut()                 # reset every connection
        await proxy.restore()             # forward everything again

`TcpProxyProcess` is the same in a process of its own, for tests whose event loop is busy.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from tests.free_ports import free_port

__all__ = ["TcpProxy", "TcpProxyProcess"]

Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Way = Literal["to_target", "to_client"]
Target = tuple[str, int] | str
"""Host and port, or the path of a Unix socket."""

WAYS: Final[tuple[Way, Way]] = ("to_target", "to_client")

PIECES: Final = 16
"""Pieces of at most 64 KiB that wait in the proxy per connection and direction. A sender of more has to wait."""


class TcpProxy:
    """Forwards the connections of a port of 127.0.0.1, until a test asks for something else.

    The methods that disturb can be combined; `restore` ends what they began.
    """

    def __init__(self, target: Target) -> None:
        self.port = free_port()
        self.accepted = 0
        self._target = target
        self._server: asyncio.Server | None = None
        self._connections: dict[asyncio.Task[None], list[asyncio.StreamWriter]] = {}
        self._gates = {way: asyncio.Event() for way in WAYS}
        self._delay = 0.0

    @property
    def connections(self) -> int:
        """How many connections are open."""
        return len(self._connections)

    def url(self, url: str) -> str:
        """Return the URL with the address of this proxy instead of its own."""
        parts = urlsplit(url)
        user, at, _ = parts.netloc.rpartition("@")
        return parts._replace(netloc=f"{user}{at}127.0.0.1:{self.port}").geturl()

    async def cut(self) -> None:
        """Reset every connection; new ones are accepted."""
        ended = dict(self._connections)
        for task, writers in ended.items():
            for writer in writers:
                _reset(writer)
            task.cancel()
        await asyncio.gather(*ended, return_exceptions=True)

    async def swallow(self, *ways: Way) -> None:
        """Keep connections open and accept new ones, but forward nothing, as if no packet arrived.

        It holds for both directions, or for the one that is named. The other side learns of nothing, not even that a
        connection was closed. What was held arrives after `restore`, as TCP would send it again; `cut` discards it.
        """
        for way in ways or WAYS:
            self._gates[way].clear()

    async def delay(self, seconds: float) -> None:
        """Delay everything by so many seconds, in both directions."""
        self._delay = seconds

    async def refuse(self) -> None:
        """Refuse new connections; those that are open stay."""
        if self._server is not None:
            self._server.close()
            self._server = None
            # The loop stops listening in its next iteration.
            await asyncio.sleep(0)

    async def restore(self) -> None:
        """Accept new connections, and forward everything without delay."""
        self._delay = 0.0
        for gate in self._gates.values():
            gate.set()
        if self._server is None:
            self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def __aenter__(self) -> Self:
        await self.restore()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refuse()
        await self.cut()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.create_task(self._connect((reader, writer)))
        self._connections[task] = [writer]
        task.add_done_callback(self._connections.pop)

    async def _connect(self, client: Pipe) -> None:
        task = asyncio.current_task()
        assert task is not None
        writers = self._connections[task]
        is_broken = True
        try:
            await self._gates["to_target"].wait()
            target = await self._reach()
            writers.append(target[1])
            async with asyncio.TaskGroup() as pumps:
                pumps.create_task(self._pump("to_target", client[0], target[1]))
                pumps.create_task(self._pump("to_client", target[0], client[1]))
            is_broken = False
        except* OSError:
            pass  # one side was reset, so the other is
        finally:
            for writer in writers:
                if is_broken:
                    _reset(writer)
                writer.close()
                with suppress(OSError):
                    await writer.wait_closed()

    async def _reach(self) -> Pipe:
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _pump(self, way: Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        waiting = asyncio.Queue[tuple[float, bytes | OSError]](PIECES)
        filling = asyncio.create_task(self._fill(reader, waiting))
        try:
            while True:
                due, piece = await waiting.get()
                await _until(due)
                await self._gates[way].wait()
                if isinstance(piece, OSError):
                    raise piece
                if not piece:
                    return writer.write_eof()
                writer.write(piece)
                await writer.drain()
        finally:
            filling.cancel()

    async def _fill(self, reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[float, bytes | OSError]]) -> None:
        while True:
            piece: bytes | OSError
            try:
                piece = await reader.read(65_536)
            except OSError as error:
                piece = error
            await waiting.put((asyncio.get_running_loop().time() + self._delay, piece))
            if not piece or isinstance(piece, OSError):
                return


class TcpProxyProcess:
    """A `TcpProxy` in a process of its own, which ends with the process that started it."""

    url = TcpProxy.url

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.port = 0

    async def cut(self) -> None:
        await self._ask("cut")

    async def swallow(self, *ways: Way) -> None:
        await self._ask("swallow", *ways)

    async def delay(self, seconds: float) -> None:
        await self._ask("delay", str(seconds))

    async def refuse(self) -> None:
        await self._ask("refuse")

    async def restore(self) -> None:
        await self._ask("restore")

    async def __aenter__(self) -> Self:
        host, port = self._target
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.tcp_proxy", host, str(port)),
            cwd=Path(__file__).parents[1],
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self.port = int(await self._reply())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()

    async def _ask(self, *words: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{' '.join(words)}\n".encode())
        await self._reply()

    async def _reply(self) -> bytes:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        assert line, "the process of the proxy has ended; see its standard error"
        return line


async def _until(due: float) -> None:
    loop = asyncio.get_running_loop()
    if due > loop.time():
        passed = asyncio.Event()
        timer = loop.call_at(due, passed.set)
        try:
            await passed.wait()
        finally:
            timer.cancel()


def _reset(writer: asyncio.StreamWriter) -> None:
    """Close a connection so that the other side gets a reset (RST), not an end (FIN)."""
    with suppress(OSError):
        raw: Any = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def _serve(host: str, port: str) -> None:
    """Do what the lines of standard input say, and answer each with a line."""
    commands = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    async with TcpProxy((host, int(port))) as proxy:
        sys.stdout.write(f"{proxy.port}\n")
        sys.stdout.flush()
        while line := await commands.readline():
            name, *words = line.decode().split()
            await getattr(proxy, name)(*(float(word) if name == "delay" else word for word in words))
            sys.stdout.write("done\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:]))

"""The floor on picows, the fastest WebSocket there is for Python: `python -m benchmarks.servers.bare PORT`."""

from __future__ import annotations

import asyncio
import sys

import uvloop
from picows import WSFrame, WSListener, WSMsgType, WSTransport, WSUpgradeRequest, ws_create_server

from benchmarks.servers.floor import Floor
from benchmarks.servers.frames import identity_frame


class Connection(WSListener):
    """One socket."""

    def __init__(self, floor: Floor, name: str) -> None:
        super().__init__()
        self._floor, self._chat = floor, floor.chat(name)
        self._tasks: set[asyncio.Task[None]] = set()
        self._open = asyncio.Event()
        self._open.set()

    def on_ws_connected(self, transport: WSTransport) -> None:
        self._transport = transport
        self._chat.watchers.append(self.send)
        transport.send(WSMsgType.TEXT, identity_frame(self._chat.name))

    def on_ws_disconnected(self, transport: WSTransport) -> None:
        self._chat.watchers.remove(self.send)

    def on_ws_frame(self, transport: WSTransport, frame: WSFrame) -> None:
        if frame.msg_type != WSMsgType.TEXT:
            return
        task = asyncio.create_task(self._floor.received(self._chat, self.send, frame.get_payload_as_bytes()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def send(self, frame: bytes) -> None:
        if not self._open.is_set():
            await self._open.wait()
        self._transport.send(WSMsgType.TEXT, frame)

    def pause_writing(self) -> None:
        self._open.clear()

    def resume_writing(self) -> None:
        self._open.set()


async def main(port: int) -> None:
    """Serve until killed."""
    floor = Floor()

    def connection(request: WSUpgradeRequest) -> Connection:
        return Connection(floor, request.path.decode().split("?")[0].split("/")[3])

    server = await ws_create_server(connection, "127.0.0.1", port, backlog=2048, max_frame_size=128 * 1024 * 1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))

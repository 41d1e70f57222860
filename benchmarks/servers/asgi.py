"""The floor under uvicorn, set up as `everyword serve` sets it up: `python -m benchmarks.servers.asgi PORT`."""

from __future__ import annotations

import sys
from typing import Any
from urllib.parse import parse_qs

import uvicorn

from benchmarks.servers.floor import Chat, Floor, Watcher
from benchmarks.servers.frames import identity_frame
from benchmarks.servers.source import filling

_floor: Floor | None = None


async def app(scope: Any, receive: Any, send: Any) -> None:
    """Be an ASGI application, with nothing between it and the server."""
    global _floor  # noqa: PLW0603 - made inside the loop it belongs to
    if scope["type"] == "lifespan":
        return
    _floor = _floor or Floor()
    _, _, _, name, *resource = scope["path"].split("/")
    chat = _floor.chat(name)
    if scope["type"] == "websocket":
        await _serve(_floor, chat, receive, send)
        return
    body = b""
    if resource == ["fill"]:
        await _floor.keep(chat, filling(int(parse_qs(scope["query_string"].decode())["messages"][0])))
    else:
        body = await _floor.transcript(chat)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _serve(floor: Floor, chat: Chat, receive: Any, send: Any) -> None:
    async def watcher(frame: bytes) -> None:
        await send({"type": "websocket.send", "text": frame.decode()})

    each: Watcher = watcher
    await receive()
    await send({"type": "websocket.accept"})
    chat.watchers.append(each)
    await each(identity_frame(chat.name))
    while (message := await receive())["type"] == "websocket.receive":
        await floor.received(chat, each, message.get("text") or message["bytes"])
    chat.watchers.remove(each)


if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=128 * 1024 * 1024,
        backlog=2048,
        lifespan="off",
        log_level="warning",
        access_log=False,
    )

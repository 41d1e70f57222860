"""Frames that are said in one breath are written at once, in order, and nothing is kept back for long."""

from __future__ import annotations

import asyncio
import json
import socket
from typing import Any, cast

import pytest
from uvicorn.protocols.utils import ClientDisconnected
from websockets.asyncio.client import connect
from websockets.client import ClientProtocol
from websockets.frames import Frame
from websockets.protocol import CLIENT, OPEN
from websockets.uri import parse_uri

from everyword.server.buffering_transport import MOST_BUFFERED, BufferingTransport
from everyword.server.frame_encoding import framed
from everyword.server.uvicorn_websocket import UvicornWebSocketProtocol
from tests.server.kit import chat, scripted, serving, user


class Written:
    """A transport that remembers what it was asked to do."""

    def __init__(self) -> None:
        self.asked: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.asked.append(data)

    def close(self) -> None:
        self.asked.append("close")

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")

    def is_closing(self) -> bool:
        return "close" in self.asked or "abort" in self.asked

    def abort(self) -> None:
        self.asked.append("abort")


def gathering() -> tuple[Written, Any]:
    written = Written()
    transport = BufferingTransport(cast(asyncio.Transport, written), asyncio.get_running_loop())
    return written, transport


async def test_what_is_written_before_the_loop_turns_is_written_at_once_and_in_order() -> None:
    written, transport = gathering()
    for piece in (b"a", b"b", b"c"):
        transport.write(piece)
    assert written.asked == []
    await asyncio.sleep(0)
    transport.write(b"d")
    await asyncio.sleep(0)
    assert written.asked == [b"abc", b"d"]


async def test_no_more_than_so_much_is_kept_back() -> None:
    written, transport = gathering()
    for _ in range(3):
        transport.write(b"x" * (MOST_BUFFERED // 2))
    assert [len(each) for each in written.asked] == [MOST_BUFFERED]
    await asyncio.sleep(0)
    assert sum(map(len, written.asked)) == MOST_BUFFERED // 2 * 3


async def test_what_was_kept_back_is_written_before_the_end() -> None:
    written, transport = gathering()
    transport.write(b"last words")
    transport.close()
    await asyncio.sleep(0)
    transport.lost()
    assert written.asked == [b"last words", "close"]


async def test_what_is_written_now_comes_behind_what_was_kept_back() -> None:
    written, transport = gathering()
    transport.write(b"first ")
    transport.write_now(b"second")
    assert written.asked == [b"first ", b"second"]
    await asyncio.sleep(0)
    assert written.asked == [b"first ", b"second"]


async def test_all_else_is_the_transports_own() -> None:
    written, transport = gathering()
    transport.pause_reading()
    assert written.asked == ["pause"]


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65_535, 65_536, 200_000])
def test_frames_are_those_that_any_client_reads(size: int) -> None:
    texts = ["ü" * (size // 2) + "x" * (size % 2), "then", ""]
    client = ClientProtocol(parse_uri("ws://nowhere/"), state=OPEN, max_size=None)
    assert client.side is CLIENT
    client.receive_data(framed(text.encode() for text in texts))
    read = [event for event in client.events_received() if isinstance(event, Frame)]
    assert [bytes(frame.data).decode() for frame in read] == texts
    assert all(frame.fin for frame in read)


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_a_client_that_asks_for_compression_reads_the_same(compression: str | None) -> None:
    async with serving(chat(scripted(["One ", "two."]))) as url:
        address = f"{url.replace('http', 'ws')}/agents/chat/ann"
        async with connect(address, compression=compression) as reader:
            assert bool(reader.protocol.extensions) == (compression is not None)
            init = {"method": "POST", "body": json.dumps({"messages": [user("u1")]})}
            await reader.send(json.dumps({"type": "cf_agent_use_chat_request", "id": "r1", "init": init}))
            said = ""
            async for frame in reader:
                told = json.loads(frame)
                if told["type"] == "cf_agent_use_chat_response":
                    said += json.loads(told["body"]).get("delta", "") if told["body"] else ""
                    if told["done"]:
                        break
            assert said == "One two."


BLOBS, BLOB = 400, "x" * 40_000


@pytest.mark.parametrize("compression", [None, "deflate"])
async def test_a_client_that_does_not_read_for_a_while_gets_every_frame_in_order_once_it_does(
    compression: str | None,
) -> None:
    app = chat(scripted([*[f"{number} {BLOB}" for number in range(BLOBS)]]))
    async with serving(app) as url:
        address = f"{url.replace('http', 'ws')}/agents/chat/ann"
        tight = socket.create_connection((address.split("/")[2].split(":", maxsplit=1)[0], int(url.rsplit(":", 1)[1])))
        tight.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        async with (
            connect(address, sock=tight, max_size=None, max_queue=1, compression=compression) as sleeper,
            connect(address, max_size=None, compression=compression) as fast,
        ):
            body = json.dumps({"messages": [user("u1")]})
            init = {"method": "POST", "body": body}
            await fast.send(json.dumps({"type": "cf_agent_use_chat_request", "id": "r1", "init": init}))
            for reader in (fast, sleeper):  # the second one reads nothing before the first has everything
                said = []
                async for frame in reader:
                    told = json.loads(frame)
                    if told["type"] == "cf_agent_use_chat_response" and told["done"]:
                        break
                    if told["type"] == "cf_agent_use_chat_response" and '"text-delta"' in told["body"]:
                        said.append(int(json.loads(told["body"])["delta"].split()[0]))
                assert said == list(range(BLOBS))


class Narrow(Written):
    """A transport that asks to be left alone after every write."""

    def __init__(self, writable: asyncio.Event) -> None:
        super().__init__()
        self._writable = writable

    def write_now(self, data: bytes) -> None:
        super().write(data)
        self._writable.clear()


async def test_frames_that_there_is_no_room_for_are_given_back() -> None:
    protocol: Any = object.__new__(UvicornWebSocketProtocol)
    protocol.writable = asyncio.Event()
    protocol.disconnected = protocol.close_sent = False
    protocol.conn = ClientProtocol(parse_uri("ws://nowhere/"), state=OPEN)
    protocol.transport = Narrow(protocol.writable)
    texts = [bytes([number]) * (MOST_BUFFERED // 2) for number in range(5)]
    assert protocol.write_frames(texts) == texts
    protocol.writable.set()
    assert protocol.write_frames(texts) == texts[2:], "as much at a time as a transport takes"
    assert protocol.transport.asked == [framed(texts[:2])]
    protocol.disconnected = True
    protocol.writable.set()
    with pytest.raises(ClientDisconnected):
        protocol.write_frames(texts[2:])

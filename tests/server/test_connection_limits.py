"""What a client begins and does not finish, and what it is sent and does not read, is bounded."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from starlette.requests import Request

from everyword import AIChatAgent, Limits, callable
from everyword.ids import LONGEST_ID
from everyword.server import Everyword
from everyword.server.connection_limits import ConnectionLimits
from everyword.server.memory_budget import MemoryBudget
from everyword.server.request_bodies import read_json
from everyword.server.shared_slices import SLICE
from everyword.server.uvicorn_http import UvicornHttpProtocol
from everyword.server.uvicorn_websocket import UvicornWebSocketProtocol
from everyword.testing import Gate
from tests.server.kit import PATIENCE, chat, connect, question, reading, scripted, serving
from tests.server.raw import RawSocket, frame
from tests.server.sockets import socket

SOON = 0.05
TRY_LATER, POLICY, TOO_BIG = 1013, 1008, 1009


@asynccontextmanager
async def bounded(app: Everyword, bounds: ConnectionLimits | None = None, **options: Any) -> AsyncIterator[str]:
    """Serve as `everyword serve` does."""
    bounds = bounds if bounds is not None else ConnectionLimits.within(app.limits)
    http, sockets = UvicornHttpProtocol.within(bounds), UvicornWebSocketProtocol.within(bounds)
    options = {"ws_max_size": app.limits.frame, "ws_per_message_deflate": False, **options}
    async with serving(app, http=http, ws=sockets, **options) as url:
        yield url


@asynccontextmanager
async def clients(url: str, count: int) -> AsyncIterator[list[RawSocket]]:
    async with plain(url, count) as opened:
        for each in opened:
            await each.upgrade()
        yield opened


@asynccontextmanager
async def plain(url: str, count: int) -> AsyncIterator[list[RawSocket]]:
    async with AsyncExitStack() as stack:
        yield [await stack.enter_async_context(RawSocket.connected(url)) for _ in range(count)]


async def until(fact: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not fact():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0)


# -- frames that are not whole ----------------------------------------------------------------------------------------


async def test_beyond_what_all_may_have_unfinished_the_largest_is_closed() -> None:
    app = chat(scripted(["x"]), limits=Limits(frame=150_000, unfinished=250_000))
    async with bounded(app) as url, clients(url, 3) as (first, second, third):
        await third.push(frame(b"y" * 120_000, fin=False) + frame(b"?", 9))
        while (await third.next())[0] != 10:
            pass  # the pong says that the fragment was taken
        half = first.ask("r1", "x" * 100_000)
        for client in (first, second):
            await client.push(frame(half[:-1], size=len(half)))
        code, reason, _ = await third.closed()
        assert (code, reason) == (TRY_LATER, "unable to wait for the rest of a frame; too many are unfinished")
        for client in (first, second):
            client.write(half[-1:])
        assert (await first.until(id="r1", done=True))["outcome"] == "completed"


async def test_unfinished_frames_of_sockets_that_are_gone_do_not_count() -> None:
    app = chat(scripted(["x"]), limits=Limits(frame=150_000, unfinished=200_000))
    async with bounded(app) as url:
        for _ in range(5):
            async with clients(url, 1) as (client,):
                await client.push(frame(b"x" * 120_000, size=150_000))
                await client.push(b"")
        async with clients(url, 1) as (client,):
            asked = client.ask("r1", "x" * 100_000)
            client.write(frame(asked))
            assert (await client.until(id="r1", done=True))["outcome"] == "completed"


@pytest.mark.parametrize("fragments", [1, 7])
async def test_a_frame_that_the_server_does_not_keep_is_answered_under_its_id(fragments: int) -> None:
    """P-35."""
    app = chat(scripted(["x"]), limits=Limits(frame=40_000))
    async with bounded(app) as url, clients(url, 1) as (client,):
        for request in ("r1", "r" * LONGEST_ID):
            asked = client.ask(request, "ä" * 20_000)
            step = -(-len(asked) // fragments)
            parts = [asked[first : first + step] for first in range(0, len(asked), step)]
            for number, part in enumerate(parts):
                await client.push(frame(part, 0 if number else 1, fin=number == len(parts) - 1))
            refused = await client.until(id=request, done=True)
            assert (refused["error"], "it is larger than" in refused["body"]) == (True, True)
        client.write(frame(client.ask("r3", "small")))
        assert (await client.until(id="r3", done=True))["outcome"] == "completed"


async def test_a_frame_that_is_far_too_large_closes_the_socket_at_its_header() -> None:
    async with bounded(chat(scripted(["x"]), limits=Limits(frame=40_000))) as url, clients(url, 1) as (client,):
        client.write(frame(b"{", size=2**40))
        assert (await client.closed())[0] == TOO_BIG


@pytest.mark.parametrize("begun", [frame(b"{", size=100), frame(b"", size=100), frame(b"{", size=100_000)])
async def test_a_frame_that_does_not_come_whole_in_time_closes_the_socket(begun: bytes) -> None:
    app, bounds = chat(scripted(["x"]), limits=Limits(frame=40_000)), ConnectionLimits(message_seconds=SOON)
    async with bounded(app, bounds) as url, clients(url, 2) as (slow, idle):
        slow.write(begun)
        code, reason, _ = await slow.closed()
        assert (code, reason) == (POLICY, "unable to wait any longer for the rest of a frame")
        idle.say(type="rpc", id="c1", method="nope", args=[])
        assert (await idle.until(id="c1"))["success"] is False


async def test_each_frame_has_a_time_of_its_own_even_if_the_next_one_has_begun() -> None:
    served: list[UvicornWebSocketProtocol] = []

    class Known(UvicornWebSocketProtocol):
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            served.append(self)

    async with serving(chat(scripted(["x"])), ws=Known) as url, clients(url, 1) as (client,):
        whole = frame(b'{"type":"rpc","id":"c1","method":"nope","args":[]}')
        client.write(whole[:9])
        await until(lambda: served[0]._receive_limits.deadline is not None)
        first = served[0]._receive_limits.deadline
        client.write(whole[9:] + whole[:9])
        assert (await client.until(id="c1"))["success"] is False
        await until(lambda: served[0]._receive_limits.deadline not in (None, first))
        assert first is not None and first.cancelled()


# -- many small frames ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("opcode", [0, 9, 10])
async def test_a_flood_of_empty_frames_closes_its_socket_and_delays_no_other(opcode: int) -> None:
    async with bounded(chat(scripted(["x"]))) as url, clients(url, 2) as (flooding, neighbour):
        flooding.write(frame(b"", 1, fin=False))
        flood = asyncio.create_task(flooding.push(frame(b"", opcode, fin=opcode > 0) * 600_000))
        neighbour.say(type="rpc", id="c1", method="nope", args=[])
        assert (await neighbour.until(id="c1"))["success"] is False
        await flood
        code, reason, _ = await flooding.closed()
        assert (code, "fragments" in reason or "pings" in reason) == (POLICY, True)


async def test_many_whole_frames_at_once_are_all_taken_in_order() -> None:
    class Chat(AIChatAgent):
        @callable
        def same(self, value: int) -> int:
            return value

    count = 900
    async with bounded(chat(Chat, limits=Limits(calls_per_minute=10_000))) as url, clients(url, 1) as (client,):
        calls = [{"type": "rpc", "id": f"c{number}", "method": "nope", "args": []} for number in range(count)]
        await client.push(b"".join(frame(json.dumps(call).encode()) for call in calls))
        assert [(await client.until(type="rpc"))["id"] for _ in range(count)] == [call["id"] for call in calls]


# -- compression ------------------------------------------------------------------------------------------------------


def bomb(size: int) -> bytes:
    """Return a compressed message that is so large once it is not."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -12)
    return (packer.compress(b" " * size) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]


DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=12"


async def test_compression_is_not_agreed_to_and_a_compressed_frame_is_refused() -> None:
    async with bounded(chat(scripted(["x"]))) as url:
        async with RawSocket.connected(url) as client:
            await client.upgrade(DEFLATE)
            assert b"permessage-deflate" not in client.handshake
            client.write(frame(bomb(10_000_000), first=0x40))
            assert (await client.closed())[0] == 1002


async def test_with_compression_a_frame_is_bounded_by_what_it_expands_to() -> None:
    app = chat(scripted(["x"]), limits=Limits(frame=1_000_000))
    async with bounded(app, ws_per_message_deflate=True) as url, RawSocket.connected(url) as client:
        await client.upgrade(DEFLATE)
        assert b"permessage-deflate" in client.handshake
        packed = bomb(100_000_000)
        assert len(packed) < 200_000
        client.write(frame(packed, first=0x40))
        assert (await client.closed())[0] == TOO_BIG


# -- what is not read -------------------------------------------------------------------------------------------------

REPLY = 100_000


class Talker(AIChatAgent):
    @callable
    def big(self) -> str:
        return "x" * REPLY

    @callable
    def shout(self, count: int) -> None:
        for _ in range(count):
            self.broadcast("y" * REPLY, exclude=["caller"])


Talker.__name__ = "Chat"


async def closing(app: Everyword) -> None:
    """Wait until no connection is counted any more."""
    service = await app.start()
    await until(lambda: not service.readers.is_in_use)


async def test_a_socket_that_does_not_read_its_replies_is_closed() -> None:
    calls, limits = 250, Limits(unread=REPLY * 5, unread_seconds=SOON)
    app = chat(Talker, limits=limits)
    async with bounded(app) as url, clients(url, 1) as (client,):
        for number in range(calls):
            client.say(type="rpc", id=f"c{number}", method="big", args=[])
        await closing(app)
        code, reason, size = await client.closed()
        assert (code, reason) == (TRY_LATER, "unable to send more; the client does not read fast enough")
        assert size < REPLY * calls


async def test_a_client_that_reads_may_call_for_more_at_once_than_may_wait() -> None:
    app = chat(Talker, limits=Limits(unread=REPLY * 5))
    async with bounded(app) as url, clients(url, 1) as (client,):
        for number in range(100):
            client.say(type="rpc", id=f"c{number}", method="big", args=[])
        replies = [await client.until(type="rpc") for _ in range(100)]
        assert {reply["id"] for reply in replies} == {f"c{number}" for number in range(100)}
        assert all(reply["success"] for reply in replies)


async def test_a_socket_that_does_not_read_what_the_agent_sends_is_closed() -> None:
    app = chat(Talker, limits=Limits(unread=REPLY * 5))
    async with bounded(app) as url, clients(url, 1) as (client,), RawSocket.connected(url) as caller:
        await caller.upgrade(name="ann?_pk=caller")
        caller.say(type="rpc", id="c1", method="shout", args=[200])
        assert (await caller.until(id="c1"))["success"]
        code, reason, size = await client.closed()
        assert (code, reason, size < REPLY * 200) == (
            TRY_LATER,
            "unable to send more; the client does not read fast enough",
            True,
        )


async def test_a_call_that_streams_waits_for_its_client() -> None:
    class Chat(AIChatAgent):
        @callable
        async def count(self) -> AsyncIterator[str]:
            for _ in range(100):
                yield "z" * REPLY

    async with bounded(chat(Chat, limits=Limits(unread=REPLY * 5))) as url, clients(url, 1) as (client,):
        client.say(type="rpc", id="c1", method="count", args=[])
        values = [await client.until(id="c1") for _ in range(101)]
        assert [value["done"] for value in values] == [False] * 100 + [True]


async def test_a_reply_larger_than_what_may_wait_arrives() -> None:
    async with bounded(chat(Talker, limits=Limits(unread=10))) as url, clients(url, 1) as (client,):
        client.say(type="rpc", id="c1", method="big", args=[])
        assert (await client.until(id="c1"))["result"] == "x" * REPLY


async def test_a_closed_socket_whose_client_never_reads_is_dropped() -> None:
    limits = Limits(unread=REPLY * 5, unread_seconds=SOON, sockets_per_agent=1)
    app = chat(Talker, limits=limits)
    async with bounded(app, ConnectionLimits(close_seconds=SOON)) as url, clients(url, 1) as (client,):
        for number in range(250):
            client.say(type="rpc", id=f"c{number}", method="big", args=[])
        await closing(app)
        async with socket(url) as other:
            assert (await other.greeted())["name"] == "ann"


# -- replays ----------------------------------------------------------------------------------------------------------

ANSWER = [f"{number:06} and so on and on and on and on; " * 1000 for number in range(150)]
TEXT = "".join(ANSWER)


async def test_clients_that_resume_a_long_answer_and_do_not_read_share_it() -> None:
    """P-11: ten clients hold as much as one."""
    gate = Gate()
    app = chat(scripted([*ANSWER, gate]))
    async with bounded(app) as url, socket(url) as asking:
        await asking.ask("r1")
        await asking.until(lambda frame: ANSWER[-1] in frame.get("body", ""))
        slices = (await app.start()).slices
        async with clients(url, 10) as resuming:
            for client in resuming:
                client.say(type="cf_agent_stream_resume_ack", id="r1")
            for client in resuming:
                while b"text-start" not in (await client.next())[1]:
                    pass
            assert len(TEXT) // 10 > SLICE
            assert 1 <= len(slices) <= len(TEXT) // SLICE + 10
            for client in resuming[:3]:
                replayed = await client.until(id="r1", replay=True)
                assert json.loads(replayed["body"])["delta"] == TEXT
                assert (await client.until(replayComplete=True))["id"] == "r1"
        gate.open()
        await asking.ended("r1")


@pytest.mark.parametrize("path", ["chat/stream", "chat/stream?after=3", "events", "get-messages"])
async def test_readers_over_http_that_do_not_read_share_what_they_are_sent(path: str) -> None:
    gate = Gate()
    app = chat(scripted([*ANSWER, *([] if path == "get-messages" else [gate])]))
    async with bounded(app) as url, connect(f"{url}/agents/chat/ann") as client:
        await client.post("chat", json=question(), headers={"prefer": "respond-async", "idempotency-key": "r1"})
        async with reading(client, "GET", "chat/stream?request=r1") as asking:
            await asking.until(lambda event: ANSWER[-1] in event.data)
            if path == "get-messages":
                await asking.rest()
            slices = (await app.start()).slices
            async with plain(url, 8) as readers:
                for reader in readers:
                    reader.write(f"GET /agents/chat/ann/{path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
                for reader in readers:
                    await reader.read_until(b"on and on")
                assert 1 <= len(slices) <= 2 * len(TEXT) // SLICE
            gate.open()
            await asking.rest()


# -- requests that are not whole --------------------------------------------------------------------------------------

HALVES = {
    "nothing": b"",
    "half a line": b"GET /agents/chat/ann/get-mess",
    "half the headers": b"GET /agents/chat/ann/get-messages HTTP/1.1\r\nHost: localhost\r\nX-One: 1\r\n",
    "half a handshake": b"GET /agents/chat/ann HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgr",
    "half a second request": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost:",
}


@pytest.mark.parametrize("half", HALVES.values(), ids=HALVES)
async def test_a_request_whose_headers_do_not_come_is_closed(half: bytes) -> None:
    app = chat(scripted(["x"]))
    async with bounded(app, ConnectionLimits(request_seconds=SOON)) as url, RawSocket.connected(url) as client:
        client.write(half)
        said = await client.rest()
        assert said.startswith(b"HTTP/1.1 200") == (b"healthz" in half)
        async with connect(f"{url}/agents/chat/ann") as other:
            assert (await other.get("get-messages")).json() == []


async def test_headers_that_do_not_end_are_refused() -> None:
    app = chat(scripted(["x"]))
    async with bounded(app, ConnectionLimits(header_bytes=10_000)) as url, RawSocket.connected(url) as client:
        await client.push(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"X-Long: %b\r\n" % (b"x" * 100) * 1000)
        said = await client.rest()
        assert said == b"" or b"its headers are too long" in said


@pytest.mark.parametrize("beside", [b"X-A: a\r\n", b"a"])
async def test_what_comes_besides_a_body_in_chunks_is_bounded(beside: bytes) -> None:
    async with bounded(chat(scripted(["x"])), ConnectionLimits(header_bytes=2000)) as url, plain(url, 1) as (client,):
        client.write(b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        client.write(b"2\r\n{}\r\n0;" if beside == b"a" else b"2\r\n{}\r\n0\r\n")
        await client.push(beside * (1_000_000 // len(beside)))
        assert b"HTTP/1.1 200" not in await client.rest()


async def test_a_body_in_the_smallest_chunks_is_taken() -> None:
    body = json.dumps(question(text="x" * 20_000)).encode()
    async with bounded(chat(scripted(["x"])), ConnectionLimits(header_bytes=2000)) as url, plain(url, 1) as (client,):
        client.write(b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        await client.push(b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n")
        assert b"HTTP/1.1 200" in await client.read_until(b"[DONE]")


async def test_a_body_that_does_not_come_whole_in_time_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    app = chat(scripted(["x"]))
    async with bounded(app, ConnectionLimits(message_seconds=SOON)) as url, RawSocket.connected(url) as client:
        client.write(b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        assert await client.rest() == b""
    assert "Exception in ASGI application" not in caplog.text


async def test_an_answer_that_takes_long_is_not_closed_for_it() -> None:
    gate = Gate()
    bounds = ConnectionLimits(request_seconds=SOON, message_seconds=SOON)
    async with bounded(chat(scripted(["a", gate, "b"])), bounds) as url, connect(f"{url}/agents/chat/ann") as client:
        async with reading(client, "POST", "chat", json=question()) as reader:
            await reader.until(lambda event: '"a"' in event.data)
            async with RawSocket.connected(url) as late:
                assert await late.rest() == b""  # it was given as long as a request has
            gate.open()
            assert (await reader.rest())[-1].data == "[DONE]"


async def test_some_requests_may_wait_for_the_one_before_but_not_any_number() -> None:
    asked = b"GET /agents/chat/ann/get-messages HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with bounded(chat(scripted(["x"]))) as url, plain(url, 2) as (client, flooding):
        client.write(asked * ConnectionLimits().pipelined)
        for _ in range(ConnectionLimits().pipelined):
            assert (await client.read_until(b"[]")).startswith(b"HTTP/1.1 200")
        await flooding.push(asked * 20_000)
        assert (await flooding.rest()).count(b"HTTP/1.1 200") < 20_000


async def test_a_line_end_behind_a_request_does_not_end_its_answer() -> None:
    served: list[UvicornHttpProtocol] = []

    class Known(UvicornHttpProtocol):
        bounds = ConnectionLimits(request_seconds=SOON)

        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            served.append(self)

    gate, body = Gate(), json.dumps(question()).encode()
    async with serving(chat(scripted(["x", gate])), http=Known) as url, plain(url, 1) as (client,):
        head = b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body)
        client.write(head + body)
        await client.read_until(b'"x"')
        client.write(b"\r\n")
        await until(lambda: served[0]._deadline is not None)
        first = served[0]._deadline
        await until(lambda: served[0]._deadline is not first)
        gate.open()
        assert await client.read_until(b"[DONE]")


async def test_beyond_what_all_bodies_may_have_the_largest_is_refused() -> None:
    app = chat(scripted(["x"]), limits=Limits(unfinished=100_000))
    async with bounded(app) as url, plain(url, 2) as (small, large):
        head = b"POST /agents/chat/ann/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
        body = json.dumps(question("u1", "x" * 40_000)).encode()
        service = await app.start()
        await small.push(head % len(body) + body[:-1])
        await until(lambda: service.body_budget.total == len(body) - 1)
        await large.push(head % 90_000 + b" " * 80_000)
        assert b"too many others are being sent" in await large.read_until(b"Try again.\n")
        small.write(body[-1:])
        assert b"data:" in await small.read_until(b"[DONE]")
        assert service.body_budget.total == 0


async def test_a_body_that_is_about_to_be_refused_does_no_harm_to_another() -> None:
    budget: MemoryBudget[asyncio.Timeout] = MemoryBudget(100)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0) as refused:
            await asyncio.Event().wait()
    assert budget.hold(refused, 90) is None, "it was told to end, and has not yet"

    async def receive() -> Any:
        return {"type": "http.request", "body": b'{"a": "0123456789"}'}

    request = Request({"type": "http", "method": "POST", "headers": []}, receive)
    assert await read_json(request, 1000, budget) == {"a": "0123456789"}
    assert budget.total == 0


# -- connections of one principal -------------------------------------------------------------------------------------


async def test_a_principal_has_so_many_connections_over_all_agents() -> None:
    app = chat(scripted(["x"]), limits=Limits(sockets_per_principal=2))
    async with bounded(app) as url, connect(f"{url}/agents/chat/ann") as client:
        async with socket(url, name="ann") as first, reading(client, "GET", "events") as log:
            await first.greeted()
            await log.until(lambda event: event.event == "snapshot")
            async with socket(url, name="cid") as third:
                code, reason = await third.closed()
                assert (code, "you have 2, which is the limit" in reason) == (TRY_LATER, True)
            for answer in (await client.get("events"), await client.post("chat", json=question())):
                assert (answer.status_code, "you have 2" in answer.text) == (429, True)

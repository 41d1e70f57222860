"""Calls over a real link: results, failures, cancellation, and results in parts."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from everyword.cluster.peer_requests import PeerRequests
from everyword.cluster.settings import LinkSettings
from everyword.cluster.streams import WINDOW
from everyword.errors import LinkLost, LinkTimeout, MailboxFull, RemoteError
from tests.cluster.kit import OWNER, PATIENCE, PATIENT, linked, nodes, soon, until


async def echo(method: str, payload: bytes) -> bytes:
    return method.encode() + b":" + payload


async def test_a_call_returns_what_the_method_returns() -> None:
    async with linked(PeerRequests(on_call=echo)) as link:
        assert await link.call("say", b"hello", timeout=PATIENCE) == b"say:hello"
        assert await link.call("say", b"", timeout=PATIENCE) == b"say:"
        assert link.open_streams == 0


async def test_payloads_and_results_of_many_megabytes_arrive_whole() -> None:
    payload = bytes(range(256)) * 32_768
    async with linked(PeerRequests(on_call=echo)) as link:
        assert await link.call("x", payload, timeout=PATIENCE) == b"x:" + payload


async def test_many_calls_run_at_the_same_time_and_each_gets_its_own_result() -> None:
    waiting = asyncio.Event()
    started = 0

    async def on_call(method: str, payload: bytes) -> bytes:
        nonlocal started
        started += 1
        await waiting.wait()
        return payload * 2

    async with linked(PeerRequests(on_call=on_call)) as link:
        calls = [asyncio.create_task(link.call("x", f"{n}".encode(), timeout=PATIENCE)) for n in range(200)]
        await until(lambda: started == 200)
        waiting.set()
        assert await soon(asyncio.gather(*calls)) == [f"{n}{n}".encode() for n in range(200)]
        assert link.open_streams == 0


async def test_a_public_error_comes_back_with_its_code_and_text() -> None:
    async def on_call(method: str, payload: bytes) -> bytes:
        raise MailboxFull("unable to take it; the mailbox is full")

    async with linked(PeerRequests(on_call=on_call)) as link:
        with pytest.raises(RemoteError, match="unable to take it; the mailbox is full") as failed:
            await link.call("x", b"", timeout=PATIENCE)
        assert failed.value.remote_code == "mailbox_full"
        assert link.open_streams == 0


async def test_any_other_error_is_logged_there_and_its_text_stays_there(caplog: pytest.LogCaptureFixture) -> None:
    async def on_call(method: str, payload: bytes) -> bytes:
        raise ValueError("password=1234")

    async with linked(PeerRequests(on_call=on_call)) as link:
        with caplog.at_level(logging.ERROR, "everyword.cluster"), pytest.raises(RemoteError) as failed:
            await link.call("x", b"", timeout=PATIENCE)
    assert failed.value.remote_code == "internal" and "1234" not in str(failed.value)
    assert "password=1234" in caplog.text


async def test_an_error_of_a_third_node_is_passed_on_as_it_is() -> None:
    async def on_call(method: str, payload: bytes) -> bytes:
        raise RemoteError("unable to do it there", remote_code="agent_gone")

    async with linked(PeerRequests(on_call=on_call)) as link:
        with pytest.raises(RemoteError, match="unable to do it there") as failed:
            await link.call("x", b"", timeout=PATIENCE)
        assert failed.value.remote_code == "agent_gone"


class Endless:
    """A method that never returns, and notes what happens to it."""

    def __init__(self) -> None:
        self.started, self.cancelled = asyncio.Event(), asyncio.Event()

    async def __call__(self, method: str, payload: bytes) -> bytes:
        self.started.set()
        try:
            return await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


async def test_a_cancelled_call_is_cancelled_at_the_other_node() -> None:
    method = Endless()
    async with linked(PeerRequests(on_call=method)) as link:
        calling = asyncio.create_task(link.call("x", b"", timeout=None))
        await soon(method.started.wait())
        calling.cancel()
        await soon(method.cancelled.wait())
        assert link.open_streams == 0


async def test_a_call_that_takes_too_long_fails_and_is_cancelled_there() -> None:
    method = Endless()
    async with linked(PeerRequests(on_call=method)) as link:
        with pytest.raises(LinkTimeout, match=r"unable to call 'x'; the other node did not answer within 0.02 s"):
            await link.call("x", b"", timeout=0.02)
        await soon(method.cancelled.wait())
        assert link.open_streams == 0


async def test_a_lost_link_fails_the_callers_and_cancels_the_calls() -> None:
    method = Endless()
    async with nodes(PeerRequests(on_call=method)) as pair:
        link = await pair.dial()
        calling = asyncio.create_task(link.call("x", b"", timeout=None))
        await soon(method.started.wait())
        pair.links.drop(OWNER)
        with pytest.raises(LinkLost, match="node 2 is gone"):
            await soon(calling)
        await soon(method.cancelled.wait())


async def test_a_result_in_parts_comes_in_parts() -> None:
    async def parts(count: int) -> AsyncIterator[bytes]:
        for n in range(count):
            yield f"part {n}".encode()

    async def on_call(method: str, payload: bytes) -> AsyncIterator[bytes]:
        return parts(int(payload))

    async with linked(PeerRequests(on_call=on_call)) as link:
        assert [part async for part in link.stream("x", b"3")] == [b"part 0", b"part 1", b"part 2"]
        assert [part async for part in link.stream("x", b"0")] == []
        with pytest.raises(RemoteError) as failed:
            await link.call("x", b"3", timeout=PATIENCE)
        assert failed.value.remote_code == "usage"
        assert link.open_streams == 0


async def test_a_plain_result_is_a_stream_of_one_part() -> None:
    async with linked(PeerRequests(on_call=echo)) as link:
        assert [part async for part in link.stream("x", b"y")] == [b"x:y"]


async def test_a_failure_after_some_parts_comes_after_these_parts() -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"one"
        yield b"two"
        raise MailboxFull("unable to go on")

    async def on_call(method: str, payload: bytes) -> AsyncIterator[bytes]:
        return parts()

    async with linked(PeerRequests(on_call=on_call)) as link:
        stream = link.stream("x", b"")
        assert [await anext(stream), await anext(stream)] == [b"one", b"two"]
        with pytest.raises(RemoteError, match="unable to go on"):
            await anext(stream)


async def test_parts_that_are_not_taken_stop_the_method_and_closing_ends_it() -> None:
    made, closed = 0, asyncio.Event()

    async def parts() -> AsyncIterator[bytes]:
        nonlocal made
        try:
            while True:
                made += 1
                yield b"x" * 10_000
        finally:
            closed.set()

    async def on_call(method: str, payload: bytes) -> AsyncIterator[bytes]:
        return parts()

    async with linked(PeerRequests(on_call=on_call)) as link:
        async with aclosing(link.stream("x", b"")) as stream:
            for _ in range(100):
                assert await soon(anext(stream)) == b"x" * 10_000
            before = -1
            while before != made:  # until it stands still
                before = made
                for _ in range(50):
                    await asyncio.sleep(0)
            assert made - 100 <= WINDOW / 10_000 + 2
        await soon(closed.wait())
        assert link.open_streams == 0


async def test_a_payload_above_the_limit_is_refused() -> None:
    small = LinkSettings(message_bytes=100_000, connect_seconds=PATIENCE, silent_seconds=PATIENCE)
    async with linked(PeerRequests(on_call=echo, settings=small), settings=PATIENT) as link:
        with pytest.raises(RemoteError) as failed:
            await link.call("x", b"y" * 200_000, timeout=PATIENCE)
        assert failed.value.remote_code == "bad_link_frame"
        assert await link.call("x", b"y", timeout=PATIENCE) == b"x:y"


async def test_a_node_that_serves_no_calls_refuses_them() -> None:
    async with linked(PeerRequests()) as link:
        with pytest.raises(RemoteError) as failed:
            await link.call("x", b"", timeout=PATIENCE)
        assert failed.value.remote_code == "usage"

"""Posting to receivers: one that does not answer, and what the log tells of their addresses."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

import httpx
import pytest

from everyword import Webhook
from everyword.server import webhooks
from everyword.server.webhooks import MOST_CONNECTIONS, WebhookSender
from tests.server.receivers import SECRET, Receiver
from tests.timeouts import PATIENCE


def now() -> int:
    return 1


async def test_a_receiver_that_never_answers_takes_no_connections_from_another() -> None:
    connected = asyncio.Semaphore(0)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.release()
        await reader.read()
        writer.close()

    sender = WebhookSender()
    sender.open()
    async with (
        asyncio.timeout(PATIENCE),
        Receiver() as receiver,
        await asyncio.start_server(hang, "127.0.0.1") as server,
    ):
        port = server.sockets[0].getsockname()[1]
        silent = Webhook(f"http://127.0.0.1:{port}/", SECRET, name="silent")
        waiting = [
            asyncio.create_task(sender.post(silent, f"msg_{n}", now, b"{}")) for n in range(3 * MOST_CONNECTIONS)
        ]
        for _ in range(MOST_CONNECTIONS):
            await connected.acquire()
        answer = await sender.post(Webhook(receiver.url, SECRET), "msg_x", now, b"{}")
        assert answer.status == 204
        assert connected.locked(), "one receiver has no more connections"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await sender.aclose()


async def test_a_request_that_waits_for_a_connection_is_neither_signed_nor_timed_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(webhooks, "MOST_CONNECTIONS", 1)
    signed: list[str] = []
    arrived, go_on = asyncio.Semaphore(0), asyncio.Event()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.release()
        await go_on.wait()
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        writer.close()

    def sign(id: str) -> int:
        signed.append(id)
        return len(signed)

    sender = WebhookSender()
    sender.open()
    async with asyncio.timeout(PATIENCE), await asyncio.start_server(answer, "127.0.0.1") as server:
        hook = Webhook(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", SECRET)
        first, second = (asyncio.create_task(sender.post(hook, id, partial(sign, id), b"")) for id in ("1", "2"))
        await arrived.acquire()
        assert signed == ["1"]
        go_on.set()
        assert ((await first).status, (await second).status, signed) == (204, 204, ["1", "2"])
    await sender.aclose()


async def test_the_log_does_not_tell_the_address_of_a_webhook(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sender = WebhookSender()
    sender.open()
    async with asyncio.timeout(PATIENCE), Receiver() as receiver, httpx.AsyncClient() as own:
        await sender.post(Webhook(receiver.url, SECRET), "msg_x", now, b"{}")
        assert receiver.all and "httpx" not in {record.name for record in caplog.records}
        await own.get(f"http://127.0.0.1:{receiver.port}/mine")
        assert "/mine" in caplog.text, "the requests of others are logged as before"
        await sender.aclose()

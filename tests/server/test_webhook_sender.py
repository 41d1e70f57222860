"""Posting to receivers: one that does not answer, and what the log tells of their addresses."""

from __future__ import annotations

import asyncio
import logging

import httpx
import pytest

from everyword import Webhook
from everyword.server.webhooks import MOST_CONNECTIONS, WebhookSender
from tests.server.receivers import SECRET, Receiver
from tests.timeouts import PATIENCE


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
        waiting = [asyncio.create_task(sender.post(silent, f"msg_{n}", 1, b"{}")) for n in range(3 * MOST_CONNECTIONS)]
        for _ in range(MOST_CONNECTIONS):
            await connected.acquire()
        answer = await sender.post(Webhook(receiver.url, SECRET), "msg_x", 1, b"{}")
        assert answer.status == 204
        assert connected.locked(), "one receiver has no more connections"
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        await sender.aclose()


async def test_the_log_does_not_tell_the_address_of_a_webhook(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    sender = WebhookSender()
    sender.open()
    async with asyncio.timeout(PATIENCE), Receiver() as receiver, httpx.AsyncClient() as own:
        await sender.post(Webhook(receiver.url, SECRET), "msg_x", 1, b"{}")
        assert receiver.all and "httpx" not in {record.name for record in caplog.records}
        await own.get(f"http://127.0.0.1:{receiver.port}/mine")
        assert "/mine" in caplog.text, "the requests of others are logged as before"
        await sender.aclose()

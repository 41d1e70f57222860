"""Attachments on several nodes: any node takes and serves them, also when the node that took them was killed."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.nodes.serving import running_nodes
from tests.server.kit import connect
from tests.server.sockets import socket
from tests.timeouts import PATIENCE

pytestmark = pytest.mark.crash

MEGABYTE = 1024 * 1024
SIZE = 100 * MEGABYTE
PNG = b"\x89PNG\r\n\x1a\n" + bytes(100_000)


async def test_a_photo_is_there_on_every_node_and_after_its_owner_was_killed(postgres_url: str, tmp_path: Path) -> None:
    places = str(tmp_path / "shared")
    async with (
        asyncio.timeout(PATIENCE),
        running_nodes(postgres_url, "one", "two", attachments=places) as (one, two),
        connect(two.url) as client,
    ):
        async with socket(one.url) as ann:
            await ann.greeted()
            part = {"type": "file", "mediaType": "image/png"}
            part["url"] = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"
            message = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": "one two"}, part]}
            body = json.dumps({"messages": [message]})
            await ann.send(type="cf_agent_use_chat_request", id="r1", init={"method": "POST", "body": body})
            await ann.ended("r1")
        uploaded = await client.post("/agents/chat/ann/attachments", content=b"a text")
        assert uploaded.status_code == 201, "the node relays it to the owner"
        await one.kill()
        stored = (await client.get("/agents/chat/ann/get-messages")).json()
        (url,) = [each["url"] for each in stored[0]["parts"] if each["type"] == "file"]
        assert (await client.get(url)).content == PNG
        assert (await client.get(uploaded.json()["url"])).content == b"a text"


async def test_a_large_upload_through_another_node_takes_little_memory_on_both(
    postgres_url: str, tmp_path: Path
) -> None:
    async def body() -> AsyncIterator[bytes]:
        for number in range(SIZE // MEGABYTE):
            yield bytes([number]) * MEGABYTE

    async with (
        asyncio.timeout(PATIENCE),
        running_nodes(postgres_url, "one", "two", lease=600, attachments=str(tmp_path / "shared")) as nodes,
        connect(nodes[1].url) as client,
        socket(nodes[0].url) as ann,
    ):
        await ann.greeted()
        before = [most_memory(node.pid) for node in nodes]
        uploaded = await client.post("/agents/chat/ann/attachments", content=body())
        assert uploaded.status_code == 201
        read = 0
        async with client.stream("GET", uploaded.json()["url"]) as response:
            async for piece in response.aiter_raw():
                read += len(piece)
        assert read == SIZE
        for node, memory in zip(nodes, before, strict=True):
            assert 0 < most_memory(node.pid) < memory + SIZE // 4


def most_memory(pid: int) -> int:
    """Return the most bytes of memory that a process has had."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM:"))

"""An upload of 100 MB is never in memory: it is written to the store, and read from it, piece by piece."""

from __future__ import annotations

import hashlib
import tracemalloc
from collections.abc import AsyncIterable, AsyncIterator
from pathlib import Path

from everyword import AttachmentOptions
from everyword.attachments.folder import FolderBlobStore
from tests.server.kit import chat, scripted, talking

MEGABYTE = 1024 * 1024
SIZE = 100 * MEGABYTE
Chat = scripted(["Hello."])


class Measuring(FolderBlobStore):
    """A folder that notes the largest piece that it was given, and the largest that it gave."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.taken = self.given = 0

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        async def noted() -> AsyncIterator[bytes]:
            async for piece in pieces:
                self.taken = max(self.taken, len(piece))
                yield piece

        await super().put(key, noted())

    async def read(self, key: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        async for piece in super().read(key, start, length):
            self.given = max(self.given, len(piece))
            yield piece


async def body() -> AsyncIterator[bytes]:
    piece = bytes(MEGABYTE)
    for _ in range(SIZE // MEGABYTE):
        yield piece


async def test_a_large_upload_and_download_take_little_memory(tmp_path: Path) -> None:
    store = Measuring(tmp_path)
    async with talking(chat(Chat, attachments=AttachmentOptions(store=store))) as client:
        tracemalloc.start()
        try:
            answer = await client.post("attachments", content=body())
            assert answer.status_code == 201
            digest = hashlib.sha256()
            async with client.stream("GET", answer.json()["url"].rpartition("/agents/chat/ann/")[2]) as response:
                async for piece in response.aiter_raw():
                    digest.update(piece)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert digest.hexdigest() == answer.json()["url"].rpartition("/")[2]
    assert 0 < store.taken <= MEGABYTE
    assert 0 < store.given <= MEGABYTE
    assert peak < SIZE // 4

"""A folder of attachments: what is on the disk when a content is stored, and readers that are cancelled."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from everyword.attachments import folder
from everyword.attachments.base import INCOMING, pieces_of
from everyword.attachments.folder import PIECE, FolderBlobStore
from everyword.errors import AttachmentsUnavailable
from tests.timeouts import PATIENCE


async def test_a_file_that_is_opened_for_a_cancelled_reader_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on, opened = threading.Event(), threading.Event(), list[Any]()
    open_at = folder._open_at

    def slow(path: Path, start: int) -> Any:
        begun.set()
        assert go_on.wait(PATIENCE)
        opened.append(open_at(path, start))
        return opened[0]

    monkeypatch.setattr(folder, "_open_at", slow)
    store = FolderBlobStore(tmp_path)
    await store.put("agents/a/b", pieces_of(b"content"))
    reading = asyncio.create_task(anext(store.read("agents/a/b")))
    assert await asyncio.to_thread(begun.wait, PATIENCE)
    reading.cancel()
    await asyncio.wait([reading])
    go_on.set()
    await asyncio.get_running_loop().shutdown_default_executor()
    assert [file.closed for file in opened] == [True]


async def test_the_names_of_new_folders_are_on_the_disk_when_a_content_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[Path]()
    monkeypatch.setattr(folder, "_sync_folder", synced.append)
    root = tmp_path / "chat.db.attachments"
    await FolderBlobStore(root).put("agents/a/b", pieces_of(b"content"))
    assert {tmp_path, root, root / "agents", root / "agents" / "a"} <= set(synced)
    assert synced[-1] == root / "agents" / "a"
    assert os.listdir(root / "agents" / "a") == ["b"]


async def test_an_upload_whose_file_is_deleted_meanwhile_is_reported(tmp_path: Path) -> None:
    store = FolderBlobStore(tmp_path)

    async def pieces() -> AsyncIterator[bytes]:
        yield b"content"
        for blob in [each async for each in store.list(f"{INCOMING}/")]:
            await store.delete(blob.key)

    await store.put("agents/a/b", pieces_of(b"old"))
    with pytest.raises(AttachmentsUnavailable, match="unable to use the attachments"):
        await store.put("agents/a/b", pieces())
    with pytest.raises(AttachmentsUnavailable, match="unable to use the attachments"):
        await store.move(f"{INCOMING}/gone", "agents/a/b")


async def test_a_full_disk_is_reported_and_keeps_nothing_of_the_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_new = folder._open_new

    def full(path: Path) -> Any:
        open_new(path).close()
        return open("/dev/full", "wb")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(PIECE // 1000 + 1):  # shorter than the buffer of a file, which is written when it is closed
            yield b"x" * 1000

    monkeypatch.setattr(folder, "_open_new", full)
    with pytest.raises(AttachmentsUnavailable, match="No space left"):
        await FolderBlobStore(tmp_path).put("agents/a/b", pieces())
    assert os.listdir(tmp_path / INCOMING) == []

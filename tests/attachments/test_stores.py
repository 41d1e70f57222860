"""Every blob store keeps the same promises: whole contents or none, ranges, prefixes, times."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from everyword.attachments.base import INCOMING, BlobStore, pieces_of
from everyword.attachments.folder import FolderBlobStore
from everyword.attachments.memory import MemoryBlobStore
from everyword.attachments.objects import ObjectBlobStore
from everyword.errors import AttachmentMissing, AttachmentsUnavailable
from tests.attachments.s3 import KEY, REGION, SECRET, client_of, new_bucket, running_s3


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    with running_s3() as url:
        yield url


def s3_store(url: str, bucket: str) -> ObjectBlobStore:
    """Return a store in a bucket, with a prefix."""
    from obstore.store import S3Store

    settings = {"endpoint": url, "region": REGION, "access_key_id": KEY, "secret_access_key": SECRET}
    return ObjectBlobStore(S3Store(bucket, prefix="team/chat", client_options={"allow_http": True}, **settings))


@pytest.fixture(params=["memory", "folder", "objects", "s3"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    match request.param:
        case "memory":
            return MemoryBlobStore()
        case "folder":
            return FolderBlobStore(tmp_path / "attachments")
        case "objects":
            return ObjectBlobStore.from_url("memory:///")
        case _:
            return s3_store(url := request.getfixturevalue("s3_server"), new_bucket(url))


async def content_of(store: BlobStore, key: str, start: int = 0, length: int | None = None) -> bytes:
    return b"".join([piece async for piece in store.read(key, start, length)])


async def pieces(*given: bytes) -> AsyncIterator[bytes]:
    for each in given:
        yield each


async def test_a_content_is_read_as_it_was_written_and_in_ranges(store: BlobStore) -> None:
    await store.put("agents/a/1", pieces(b"0123", b"4567", b"89"))
    assert await content_of(store, "agents/a/1") == b"0123456789"
    assert await content_of(store, "agents/a/1", 3) == b"3456789"
    assert await content_of(store, "agents/a/1", 3, 4) == b"3456"
    assert await content_of(store, "agents/a/1", 8, 100) == b"89"
    found = await store.find("agents/a/1")
    assert found is not None
    assert (found.key, found.size) == ("agents/a/1", 10)


async def test_what_is_not_there_is_missing_and_deleting_it_is_no_error(store: BlobStore) -> None:
    assert await store.find("agents/a/1") is None
    with pytest.raises(AttachmentMissing, match="not stored"):
        await content_of(store, "agents/a/1")
    await store.delete("agents/a/1")


async def test_a_content_that_breaks_off_is_not_there(store: BlobStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * 9_000_000
        raise ConnectionError("gone")

    with pytest.raises(ConnectionError, match="gone"):
        await store.put("agents/a/1", broken())
    assert await store.find("agents/a/1") is None
    assert [blob async for blob in store.list("")] == []


async def test_an_upload_to_s3_that_breaks_off_leaves_no_parts_to_pay_for(s3_server: str) -> None:
    async def broken(size: int) -> AsyncIterator[bytes]:
        for _ in range(size // 1_000_000):
            yield b"x" * 1_000_000
        raise ConnectionError("gone")

    bucket = new_bucket(s3_server)
    store = s3_store(s3_server, bucket)
    for size in (1_000_000, 20_000_000):
        with pytest.raises(ConnectionError, match="gone"):
            await store.put(f"{INCOMING}/1", broken(size))
    assert client_of(s3_server).list_multipart_uploads(Bucket=bucket).get("Uploads", []) == []
    assert [blob async for blob in store.list("")] == []


async def test_large_contents_arrive_whole(store: BlobStore) -> None:
    content = secrets.token_bytes(20_000_000)
    await store.put("incoming/1", pieces(*(content[place : place + 65536] for place in range(0, len(content), 65536))))
    await store.move("incoming/1", "agents/a/2")
    assert await content_of(store, "agents/a/2") == content
    assert await store.find("incoming/1") is None


async def test_contents_are_listed_by_folder_and_moving_gives_a_new_time(store: BlobStore) -> None:
    for key in ("agents/a/1", "agents/a/2", "agents/ab/1", "keys/x"):
        await store.put(key, pieces_of(key.encode()))
    assert sorted([blob.key async for blob in store.list("agents/a/")]) == ["agents/a/1", "agents/a/2"]
    assert len([blob async for blob in store.list("")]) == 4
    before = await store.find("agents/a/1")
    await store.put("incoming/1", pieces_of(b"agents/a/1"))
    await store.move("incoming/1", "agents/a/1")
    after = await store.find("agents/a/1")
    assert before is not None
    assert after is not None
    assert after.modified >= before.modified
    await store.delete("agents/a/1")
    assert [blob.key async for blob in store.list("agents/a/")] == ["agents/a/2"]


async def test_a_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(AttachmentsUnavailable, match="unable to use the attachments"):
        await FolderBlobStore(tmp_path / "file" / "attachments").put("agents/a/1", pieces_of(b"x"))


async def test_a_bucket_that_is_not_there_is_reported(s3_server: str) -> None:
    from obstore.store import S3Store

    keys = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}
    objects = S3Store("no-such-bucket", endpoint=s3_server, client_options={"allow_http": True}, **keys)
    with pytest.raises(AttachmentsUnavailable, match="unable to use the attachments"):
        await ObjectBlobStore(objects).put("agents/a/1", pieces_of(b"x"))


async def test_an_empty_object_is_stored_and_listed(store: BlobStore) -> None:
    await store.put("agents/a/1.unused", pieces(b""))
    assert [(blob.key, blob.size) async for blob in store.list("agents/")] == [("agents/a/1.unused", 0)]
    await store.delete("agents/a/1.unused")
    assert await store.find("agents/a/1.unused") is None

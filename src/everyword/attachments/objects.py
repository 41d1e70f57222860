"""Attachments in object storage (S3 and what speaks its protocol, Google Cloud Storage, Azure), by `obstore`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any, Final

from ..errors import AttachmentMissing, AttachmentsUnavailable
from ..extras import missing as missing_package
from ..ids import Millis
from .base import INCOMING, Blob, BlobStore, missing

__all__ = ["ObjectBlobStore"]

PART: Final = 8 * 1024 * 1024
"""Bytes of one part of an upload. S3 takes no smaller ones, except the last."""

READ: Final = 256 * 1024


class ObjectBlobStore(BlobStore):
    """Wraps a store of `obstore`. Its methods write whole objects, so a crash leaves either all of one or nothing.

    Settings that are not in the URL (`endpoint`, `region`, keys) come from the environment, as for other clients of
    that storage: `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_ACCESS_KEY_ID`.
    """

    def __init__(self, objects: Any) -> None:
        self._objects = objects
        self._api: Any = _obstore("obstore")

    @classmethod
    def from_url(cls, url: str) -> ObjectBlobStore:
        """Return the store of `s3://bucket/prefix`, `gs://…` or `az://…`.

        Raises:
            UsageError: `obstore` is not installed.
        """
        return cls(_obstore("obstore.store").from_url(url))

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        with _told():
            writer = self._api.open_writer_async(self._objects, key, buffer_size=PART, max_concurrency=2)
        size = 0
        try:
            async for piece in pieces:
                with _told():
                    await writer.write(piece)
                size += len(piece)
        except BaseException:
            # A writer that is not closed leaves nothing that is seen. But its parts are kept, and paid for.
            if size >= PART and key.startswith(f"{INCOMING}/"):
                await asyncio.shield(self._discard(writer, key))
            raise
        with _told():
            await writer.close()

    async def _discard(self, writer: Any, key: str) -> None:
        """Remove the parts of an upload that is cut off; the only way here is to complete and delete it."""
        with suppress(AttachmentsUnavailable):
            with _told():
                await writer.close()
            await self.delete(key)

    async def move(self, source: str, target: str) -> None:
        with _told():
            await self._api.copy_async(self._objects, source, target)
            await self._api.delete_async(self._objects, source)

    async def read(self, key: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        if length == 0:
            return
        part = {"offset": start} if length is None else (start, start + length)
        with _told(key):
            options = {"range": part} if start or length is not None else None
            found = await self._api.get_async(self._objects, key, options=options)
            pieces = aiter(found.stream(min_chunk_size=READ))
        while True:
            with _told(key):
                piece = await anext(pieces, None)
            if piece is None:
                return
            yield bytes(piece)

    async def find(self, key: str) -> Blob | None:
        try:
            with _told(key):
                meta = await self._api.head_async(self._objects, key)
        except AttachmentMissing:
            return None
        return _blob(meta)

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        pages = aiter(self._api.list(self._objects, prefix.rstrip("/") or None, chunk_size=1000))
        while True:
            with _told():
                page = await anext(pages, None)
            if page is None:
                return
            for meta in page:
                yield _blob(meta)

    async def delete(self, key: str) -> None:
        with suppress(AttachmentMissing), _told(key):
            await self._api.delete_async(self._objects, key)

    async def aclose(self) -> None:
        """Do nothing: connections belong to the process."""


def _obstore(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as exc:
        raise missing_package("obstore", "objects", "keep attachments in object storage") from exc


def _blob(meta: Any) -> Blob:
    return Blob(meta["path"], meta["size"], Millis(round(meta["last_modified"].timestamp() * 1000)))


@contextmanager
def _told(key: str = "") -> Iterator[None]:
    """Turn the errors of `obstore` into ours. With a key, that it is not there; else the bucket is not."""
    try:
        yield
    except FileNotFoundError as exc:
        if not key:
            raise AttachmentsUnavailable(f"unable to use the attachments; {exc}") from exc
        raise missing(key) from None
    except (OSError, ValueError, _obstore("obstore.exceptions").BaseError) as exc:
        raise AttachmentsUnavailable(f"unable to use the attachments; {exc}") from exc

"""The interface of a blob store: whole contents under keys, never changed in place.

A key is a path of printable ASCII names between slashes. A store needs no lock, no index and no transaction: what
refers to a content is in the log.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator
from typing import Final, NamedTuple, Protocol

from ..errors import AttachmentMissing
from ..ids import Millis

__all__ = ["INCOMING", "Blob", "BlobStore", "missing", "pieces_of"]

INCOMING: Final = "incoming"
"""The first name of the keys of uploads that are not complete, or not accepted. No agent has a kind of this name:
kinds of agents are in folders with a longer name."""


class Blob(NamedTuple):
    """One stored content: its key, its size in bytes, and when it was written."""

    key: str
    size: int
    modified: Millis


class BlobStore(Protocol):
    """Where attachments are kept. Every method raises `AttachmentsUnavailable` if the store cannot be used."""

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        """Write a content piece by piece; it is there when all of it is there, and survives a crash then.

        What `pieces` raises is raised, and nothing is written. A content that is there already is replaced, and its
        time is new.
        """
        ...

    async def move(self, source: str, target: str) -> None:
        """Give a content another key, and a new time. A content with that key is replaced."""
        ...

    def read(self, key: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        """Yield a content in pieces, or a part of it.

        Raises:
            AttachmentMissing: there is none with this key.
        """
        ...

    async def find(self, key: str) -> Blob | None:
        """Return size and time of a content; None if there is none with this key."""
        ...

    def list(self, prefix: str) -> AsyncIterator[Blob]:
        """Yield every content whose key begins with `prefix`, the empty string or a path that ends with a slash."""
        ...

    async def delete(self, key: str) -> None:
        """Delete a content. A key that is not there is no error."""
        ...

    async def aclose(self) -> None:
        """Release everything."""
        ...


def missing(key: str) -> AttachmentMissing:
    """Return the error for a content that is not there."""
    return AttachmentMissing(f"unable to read attachment {key.rpartition('/')[2]}; it is not stored")


async def pieces_of(content: bytes) -> AsyncIterator[bytes]:
    """Yield a content that is in memory as one piece."""
    yield content

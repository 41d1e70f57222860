"""How many bytes of attachments a conversation has, with those of uploads that have not ended yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ..attachments.base import BlobStore
from ..errors import AttachmentRefused

__all__ = ["AttachmentQuota", "Reservation"]


class AttachmentQuota:
    """Limits the bytes of each conversation; uploads at the same time share one count.

    The count is read from the store when the first of them begins, and forgotten when the last one ends: sweeps and
    other nodes change it meanwhile.
    """

    def __init__(self, store: BlobStore, most: int) -> None:
        self._store, self.most = store, most
        self._used: dict[str, int] = {}
        """Folder → bytes in it, and bytes that are reserved."""
        self._reservations: Counter[str] = Counter()

    @asynccontextmanager
    async def reserving(self, folder: str) -> AsyncIterator[Reservation]:
        """Yield a reservation of bytes in a folder. What is not confirmed inside the block is given back."""
        self._reservations[folder] += 1
        reservation = Reservation(self, folder)
        try:
            if folder not in self._used:
                sizes = [blob.size async for blob in self._store.list(f"{folder}/")]
                self._used.setdefault(folder, sum(sizes))
            yield reservation
        finally:
            reservation.give_back()
            self._reservations[folder] -= 1
            if not self._reservations[folder]:
                del self._reservations[folder]
                self._used.pop(folder, None)

    def change(self, folder: str, size: int) -> None:
        """Add bytes to a folder with a reservation.

        Raises:
            AttachmentRefused: the folder would have more than the limit.
        """
        used = self._used.get(folder, 0) + size
        if size > 0 and used > self.most:
            raise AttachmentRefused(
                f"unable to store the file; the conversation would have more than {self.most / 1024 / 1024:g} MiB of "
                "files, the limit of this server",
                status=413,
            )
        self._used[folder] = used


class Reservation:
    """Bytes that an upload is about to store."""

    def __init__(self, quota: AttachmentQuota, folder: str) -> None:
        self._quota, self._folder = quota, folder
        self._open = 0

    def add(self, size: int) -> None:
        """Reserve more bytes.

        Raises:
            AttachmentRefused: the conversation would have more than its limit.
        """
        self._quota.change(self._folder, size)
        self._open += size

    def confirm(self) -> None:
        """Count what is reserved as stored."""
        self._open = 0

    def give_back(self) -> None:
        """Count what is reserved and not stored no longer."""
        self._quota.change(self._folder, -self._open)
        self._open = 0

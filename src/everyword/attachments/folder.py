"""Attachments as files in a folder, beside the SQLite file or on a disk that several nodes share.

A content is written to a file of another name and renamed when it is complete and on the disk, so a crash leaves either
the whole content or none. All work with files is done in threads.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import threading
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Final, TypeVar

from ..errors import AttachmentsUnavailable
from ..ids import Millis
from .base import INCOMING, Blob, BlobStore, missing

__all__ = ["FolderBlobStore"]

T = TypeVar("T")

PIECE: Final = 256 * 1024
"""Bytes that are read or written at a time, and so the part of a content that is in memory."""


class FolderBlobStore(BlobStore):
    """A folder. It is made with the first content."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    async def put(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        path = self._path(key)
        part = self.folder / INCOMING / f"part-{secrets.token_hex(8)}"
        file = await self._open(_open_new, part)
        try:
            held: list[bytes] = []
            size = 0
            async for piece in pieces:
                held.append(piece)
                size += len(piece)
                if size >= PIECE:
                    await self._run(file.writelines, held)
                    held, size = [], 0
            await self._rename(_finish, file, held, part, path)
        except BaseException:
            # Not awaited in a thread: the task may be cancelled. Closing writes what is buffered: a full disk fails it.
            with suppress(OSError):
                file.close()
            with suppress(OSError):
                part.unlink()
            raise

    async def move(self, source: str, target: str) -> None:
        await self._rename(_move, self._path(source), self._path(target))

    async def read(self, key: str, start: int = 0, length: int | None = None) -> AsyncIterator[bytes]:
        try:
            file = await self._open(_open_at, self._path(key), start)
        except FileNotFoundError:
            raise missing(key) from None
        try:
            left = length
            while left is None or left > 0:
                piece = await self._run(file.read, PIECE if left is None else min(left, PIECE))
                if not piece:
                    return
                left = None if left is None else left - len(piece)
                yield piece
        finally:
            file.close()

    def read_now(self, key: str, length: int | None = None) -> bytes:
        """Return a content, or its first `length` bytes; blocks while the disk is read."""
        try:
            with open(self._path(key), "rb") as file:
                return file.read(-1 if length is None else length)
        except FileNotFoundError:
            raise missing(key) from None
        except OSError as exc:
            raise _unavailable(exc) from exc

    async def find(self, key: str) -> Blob | None:
        return await self._run(_found, self._path(key), key)

    async def list(self, prefix: str) -> AsyncIterator[Blob]:
        for blob in await self._run(lambda: [*_walk(self.folder, self.folder / prefix)]):
            yield blob

    async def delete(self, key: str) -> None:
        await self._run(_delete, self._path(key), self.folder)

    async def aclose(self) -> None:
        """Do nothing: no file is open."""

    def _path(self, key: str) -> Path:
        names = key.split("/")
        assert all(names) and not any(name.startswith(".") for name in names), key  # keys are made here, of hashes
        return self.folder.joinpath(*names)

    async def _open(self, work: Callable[..., IO[bytes]], *given: Any) -> IO[bytes]:
        opening = _Opening()
        try:
            return await self._run(opening.open, work, *given)
        except BaseException:
            opening.give_up()
            raise

    async def _run(self, work: Callable[..., T], *given: Any) -> T:
        try:
            return await asyncio.to_thread(work, *given)
        except FileNotFoundError:
            raise
        except OSError as exc:
            raise _unavailable(exc) from exc

    async def _rename(self, work: Callable[..., None], *given: Any) -> None:
        try:
            await self._run(work, *given)
        except FileNotFoundError as exc:  # another node took the file for the rest of an old upload
            raise _unavailable(exc) from exc


class _Opening:
    """A file that a thread opens for a task. If the task is cancelled meanwhile, the file is closed, by either."""

    def __init__(self) -> None:
        self._lock, self._is_given_up = threading.Lock(), False
        self._file: IO[bytes] | None = None

    def open(self, work: Callable[..., IO[bytes]], *given: Any) -> IO[bytes]:
        file = work(*given)
        with self._lock:
            self._file = file
            if self._is_given_up:
                file.close()
        return file

    def give_up(self) -> None:
        with self._lock:
            self._is_given_up = True
            if self._file is not None:
                self._file.close()


def _unavailable(exc: OSError) -> AttachmentsUnavailable:
    return AttachmentsUnavailable(f"unable to use the attachments; {exc}")


def _open_new(path: Path) -> IO[bytes]:
    _make_folder(path.parent)
    return open(path, "xb")


def _make_folder(folder: Path) -> None:
    """Make a folder and those above it. Their names are written to the disk: without them, its files are lost."""
    while True:
        try:
            folder.mkdir()
        except FileNotFoundError:  # again, if a deletion at the same time removes the folder above
            _make_folder(folder.parent)
        except FileExistsError:
            if folder.exists() and not folder.is_dir():
                raise
            return None
        else:
            return _sync_folder(folder.parent)


def _replace(source: Path, target: Path) -> None:
    """Rename a file. The folder of the target may be removed, empty, by a deletion at the same time."""
    while True:
        _make_folder(target.parent)
        try:
            os.replace(source, target)
        except FileNotFoundError:
            if target.parent.is_dir():
                raise
            continue
        return _sync_folder(target.parent)


def _finish(file: IO[bytes], rest: list[bytes], part: Path, path: Path) -> None:
    with file:
        file.writelines(rest)
        file.flush()
        os.fsync(file.fileno())
    _replace(part, path)


def _move(source: Path, target: Path) -> None:
    os.utime(source)
    _replace(source, target)


def _sync_folder(folder: Path) -> None:
    """Write the names in a folder to the disk; some systems cannot open folders, and need not."""
    try:
        opened = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def _open_at(path: Path, start: int) -> IO[bytes]:
    file = open(path, "rb")  # noqa: SIM115 - the reader closes it
    file.seek(start)
    return file


def _found(path: Path, key: str) -> Blob | None:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Blob(key, found.st_size, Millis(found.st_mtime_ns // 1_000_000))


def _walk(root: Path, folder: Path) -> Iterator[Blob]:
    for place, _, names in os.walk(folder):
        for name in names:
            path = Path(place, name)
            blob = _found(path, path.relative_to(root).as_posix())
            if blob is not None:
                yield blob


def _delete(path: Path, root: Path) -> None:
    with suppress(FileNotFoundError):
        path.unlink()
    for folder in path.parents:
        if folder in (root, root / INCOMING) or root not in folder.parents:
            return
        try:
            folder.rmdir()
        except OSError:
            return  # it is not empty

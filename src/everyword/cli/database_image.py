"""The own SQL database of an agent as bytes: the content of a SQLite file, which every store can take."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing

__all__ = ["check_image", "image_from"]


def image_from(connect: Callable[[], sqlite3.Connection]) -> bytes:
    """Return the content of a database, as it is at one moment."""
    with closing(connect()) as file, closing(sqlite3.connect(":memory:")) as memory:
        file.backup(memory)
        image = bytearray(memory.serialize())
    image[18:20] = b"\x01\x01"  # rollback mode: a database in memory cannot have a write-ahead log
    return bytes(image)


def check_image(image: bytes) -> str | None:
    """Return what is wrong with an image; None if it is a whole SQLite database."""
    try:
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.deserialize(image)
            (said,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    except sqlite3.Error as exc:
        return str(exc)
    return None if said == "ok" else str(said)

"""Messages of any size as records of a stream. Each record begins with a mark; LAST ends a message."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..errors import BadLinkFrame
from .streams import LONGEST_RECORD, LinkStream

__all__ = ["LAST", "MORE", "read_message", "send_message", "slices_of"]

MORE: Final = b"\0"
LAST: Final = b"\1"


def slices_of(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the data in slices that fit into a record, each with whether it is the last. Empty data is one slice."""
    last = max(len(data) - 1, 0) // LONGEST_RECORD
    for number in range(last + 1):
        first = number * LONGEST_RECORD
        yield data[first : first + LONGEST_RECORD] if last else data, number == last


async def send_message(stream: LinkStream, data: bytes) -> None:
    """Send a message, as fast as the other end reads."""
    if len(data) <= LONGEST_RECORD:
        await stream.send(LAST, data)
    else:
        await stream.send_all((LAST if is_last else MORE, part) for part, is_last in slices_of(data))


async def read_message(stream: LinkStream, limit: int) -> bytes | None:
    """Return the next message; None when the other end has finished.

    Raises:
        BadLinkFrame: the message is longer than `limit`, or was not finished.
    """
    parts: list[bytes] = []
    size = 0
    while (record := await stream.receive()) is not None:
        parts.append(record[1:])
        size += len(record)
        if size > limit:
            raise BadLinkFrame(f"unable to take a message of more than {limit} bytes")
        if record[:1] == LAST:
            return b"".join(parts)
    if parts:
        raise BadLinkFrame("unable to take a message; it was not finished")
    return None

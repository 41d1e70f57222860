"""ResumableStream: the verbs of the original, over the one log.

Chunks are committed before `store_chunk` returns, status and error text end in one transaction, and an errored stream
replays as what it was: its chunks, then its error.
"""

from __future__ import annotations

import inspect
from typing import Any

from ...errors import UsageError
from ...ids import RequestId, TurnId
from ...runtime.agent_runtime import BareStreams
from ...runtime.api import Outcome, StreamRecord
from ...wire import frames

__all__ = ["ResumableStream"]


class ResumableStream:
    """Streams of opaque chunks that outlive their connections and their process.

    A connection is anything with a `send(text)`, plain or async. If it has a `drain()`, a replay waits for it between
    two chunks.
    """

    def __init__(self, runtime: BareStreams) -> None:
        self._runtime = runtime

    # -- writing ------------------------------------------------------------------------------------------------

    async def start(self, request_id: str) -> str:
        """Open a stream for a request and return its id; the same request id gives the same stream."""
        return str(await self._runtime.start(RequestId(request_id)))

    async def store_chunk(self, stream_id: str, body: str) -> None:
        """Commit one chunk; those that wait together are one commit, and none is visible before it."""
        await self._runtime.write(_turn(stream_id), body)

    async def complete(self, stream_id: str) -> None:
        """End a stream well."""
        await self._runtime.end(_turn(stream_id), Outcome.COMPLETED)

    async def mark_error(self, stream_id: str, text: str) -> None:
        """End a stream as failed, with the text that every observer gets."""
        await self._runtime.end(_turn(stream_id), Outcome.ERROR, text)

    async def mark_aborted(self, stream_id: str) -> None:
        """End a stream as stopped."""
        await self._runtime.end(_turn(stream_id), Outcome.ABORTED)

    # -- asking ---------------------------------------------------------------------------------------------------

    async def has_active_stream(self) -> bool:
        """Tell whether a stream has not ended; answered by the log, so a restart changes nothing."""
        return await self._runtime.active() is not None

    async def get_active_stream(self) -> StreamRecord | None:
        """Return the newest stream that has not ended."""
        return await self._runtime.active()

    async def get_stream(self, request_id: str) -> StreamRecord | None:
        """Return the stream of a request, ended or not."""
        return await self._runtime.find(RequestId(request_id))

    async def cleanup(self) -> int:
        """Delete the chunks of everything that ended longer ago than the retention; it happens by itself as well."""
        return await self._runtime.cleanup()

    # -- replaying ------------------------------------------------------------------------------------------------

    async def replay_chunks(self, connection: Any, request_id: str) -> bool:
        """Send what a running stream has so far, then `replayComplete`; False when it is not running."""
        record = await self._runtime.find(RequestId(request_id))
        if record is None or record.outcome is not None:
            return False
        await self._replay(connection, record)
        await _send(connection, frames.replay_complete(record.request, is_continuation=False))
        return True

    async def replay_completed_chunks_by_request_id(self, connection: Any, request_id: str) -> bool:
        """Send a completed stream, then its `done`; False when there is no such stream or it ended otherwise."""
        record = await self._runtime.find(RequestId(request_id))
        if record is None or record.outcome is not Outcome.COMPLETED:
            return False
        return await self.replay_terminal_chunks_by_request_id(connection, request_id)

    async def replay_terminal_chunks_by_request_id(self, connection: Any, request_id: str) -> bool:
        """Send an ended stream as a live observer saw it: its chunks, then its end, with the error's text if it failed.

        False when there is no such stream or it still runs.
        """
        record = await self._runtime.find(RequestId(request_id))
        if record is None or record.outcome is None:
            return False
        await self._replay(connection, record)
        if record.outcome is Outcome.ERROR:
            # An observer draws what was replayed only when told that the replay is complete.
            await _send(connection, frames.replay_complete(record.request, is_continuation=False))
        await _send(connection, frames.terminal(record.request, record.outcome, error=record.error, replay=True))
        return True

    async def _replay(self, connection: Any, record: StreamRecord) -> None:
        frame = frames.ChunkFrames(record.request, is_continuation=False)
        drain = getattr(connection, "drain", None)
        for index, body in await self._runtime.chunks(record.turn):
            await _send(connection, frame.replayed(body.encode(), index))
            if drain is not None:
                await drain()


def _turn(stream_id: str) -> TurnId:
    if not stream_id.isdecimal():
        raise UsageError(f"unable to find stream {stream_id!r}; pass the id that `start` returned")
    return TurnId(int(stream_id))


async def _send(connection: Any, frame: bytes) -> None:
    sent = connection.send(frame.decode())
    if inspect.isawaitable(sent):
        await sent

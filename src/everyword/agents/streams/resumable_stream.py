"""ResumableStream: the methods of the original, with the agent's log as storage.

A chunk is committed before `store_chunk` returns. Status and error text are written in one transaction. The replay of a
failed stream is its chunks, then its error.
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

    A connection is any object with a method `send(text)`, plain or async. If it has an async `drain()`, a replay awaits
    it after each chunk.
    """

    def __init__(self, runtime: BareStreams) -> None:
        self._runtime = runtime

    # -- writing ------------------------------------------------------------------------------------------------

    async def start(self, request_id: str) -> str:
        """Open a stream for a request and return its id. The same request id returns the same stream."""
        return str(await self._runtime.start(RequestId(request_id)))

    async def store_chunk(self, stream_id: str, body: str) -> None:
        """Commit one chunk. Chunks that wait at the same time share a commit; no chunk is visible before its commit."""
        await self._runtime.write(_turn(stream_id), body)

    async def complete(self, stream_id: str) -> None:
        """End a stream as completed."""
        await self._runtime.end(_turn(stream_id), Outcome.COMPLETED)

    async def mark_error(self, stream_id: str, text: str) -> None:
        """End a stream as failed, with the text that every client gets."""
        await self._runtime.end(_turn(stream_id), Outcome.ERROR, text)

    async def mark_aborted(self, stream_id: str) -> None:
        """End a stream as stopped."""
        await self._runtime.end(_turn(stream_id), Outcome.ABORTED)

    # -- reading --------------------------------------------------------------------------------------------------

    async def has_active_stream(self) -> bool:
        """Tell whether there is a stream that has not ended. It is read from the log, so it survives a restart."""
        return await self._runtime.active() is not None

    async def get_active_stream(self) -> StreamRecord | None:
        """Return the newest stream that has not ended."""
        return await self._runtime.active()

    async def get_stream(self, request_id: str) -> StreamRecord | None:
        """Return the stream of a request, ended or not."""
        return await self._runtime.find(RequestId(request_id))

    async def cleanup(self) -> int:
        """Run retention now: delete the chunks of turns and streams that ended too long ago; return their number."""
        return await self._runtime.cleanup()

    # -- replaying ------------------------------------------------------------------------------------------------

    async def replay_chunks(self, connection: Any, request_id: str) -> bool:
        """Send the chunks of a running stream so far, then `replayComplete`; return False if it is not running."""
        record = await self._runtime.find(RequestId(request_id))
        if record is None or record.outcome is not None:
            return False
        await self._replay(connection, record)
        await _send(connection, frames.replay_complete(record.request, is_continuation=False))
        return True

    async def replay_completed_chunks_by_request_id(self, connection: Any, request_id: str) -> bool:
        """Send a completed stream, then its `done`; return False if there is no such stream, or it did not complete."""
        record = await self._runtime.find(RequestId(request_id))
        if record is None or record.outcome is not Outcome.COMPLETED:
            return False
        return await self.replay_terminal_chunks_by_request_id(connection, request_id)

    async def replay_terminal_chunks_by_request_id(self, connection: Any, request_id: str) -> bool:
        """Send an ended stream as live clients saw it: its chunks, then its end, with the error text if it failed.

        Return False if there is no such stream, or it is still running.
        """
        record = await self._runtime.find(RequestId(request_id))
        if record is None or record.outcome is None:
            return False
        await self._replay(connection, record)
        if record.outcome is Outcome.ERROR:
            # A client shows the replayed chunks only after `replayComplete`.
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

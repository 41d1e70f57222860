"""Answers while they stream: chunks are folded into messages, and the messages are read when they are needed."""

from __future__ import annotations

from typing import Any

from ...errors import FoldError
from ...messages.fold import MessageFold
from ...messages.message import UIMessage

__all__ = ["AnswerStream", "AnswerStreams"]

JsonObject = dict[str, Any]


class AnswerStream:
    """One answer under construction."""

    def __init__(self, base: UIMessage | None, *, is_whole: bool) -> None:
        self.fold = MessageFold(base.id if base is not None else "", base=base)
        self.newest_index = -1
        """Index of the last chunk of a continuation that was applied."""
        self.is_whole = is_whole
        """True if the stream began with a replay of the whole message."""
        self.is_replaying = False
        """True while the fold is behind what was shown before. It is not shown then, so that no answer shrinks."""

    def receive(self, chunk: JsonObject, *, index: int | None, is_replay: bool, is_continuation: bool) -> bool:
        """Apply a chunk; return False if it was applied before. Raises FoldError if it does not fit."""
        self.is_replaying = is_replay and (self.is_whole or not is_continuation)
        if is_continuation and index is not None:
            if index <= self.newest_index:
                return False
            self.newest_index = index
        self.fold.apply(chunk)
        return True

    def message(self) -> UIMessage | None:
        """Return the message as far as it has streamed; None before its first part."""
        message = self.fold.message()
        return message if message.id and message.parts else None


class AnswerStreams:
    """The open streams of a chat by request, in the order in which they began."""

    def __init__(self) -> None:
        self.open: dict[str, AnswerStream] = {}
        self.problems: list[str] = []
        """Why chunks were left out: they did not fit the message."""
        self._grown: dict[str, None] = {}
        """Requests whose streams have grown since `take_grown` last returned them."""

    def begin(self, request_id: str, base: UIMessage | None, *, is_whole: bool) -> AnswerStream:
        """Open a stream, in place of the one that the request had."""
        stream = self.open[request_id] = AnswerStream(base, is_whole=is_whole)
        return stream

    def receive(self, request_id: str, frame: JsonObject, chunk: JsonObject) -> None:
        """Apply the chunk of a response frame to the request's stream; note a problem if it does not fit."""
        is_replay, is_continuation = frame.get("replay", False), frame.get("continuation", False)
        try:
            is_new = self.open[request_id].receive(
                chunk, index=frame.get("seq"), is_replay=is_replay, is_continuation=is_continuation
            )
        except FoldError as error:
            self.problems.append(str(error))
            is_new = True
        if is_new:
            self._grown[request_id] = None

    def take_grown(self) -> list[tuple[str, UIMessage]]:
        """Return, once, the messages that have grown, with their requests; replays are held back until complete."""
        grown = []
        for request_id in list(self._grown):
            stream = self.open[request_id]
            if stream.is_replaying:
                continue
            del self._grown[request_id]
            if (message := stream.message()) is not None:
                grown.append((request_id, message))
        return grown

    def replay_completed(self, request_id: str) -> None:
        if request_id in self.open:
            self.open[request_id].is_replaying = False

    def shown_messages(self) -> list[JsonObject]:
        """Return the messages of all streams that are not being replayed."""
        messages = [stream.message() for stream in self.open.values() if not stream.is_replaying]
        return [message.to_dict() for message in messages if message is not None]

    def drop(self, request_id: str) -> None:
        self.open.pop(request_id, None)
        self._grown.pop(request_id, None)

    def clear(self) -> None:
        self.open.clear()
        self._grown.clear()

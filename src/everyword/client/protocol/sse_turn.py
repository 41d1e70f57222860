"""One turn over server-sent events, without a connection."""

from __future__ import annotations

from typing import Any

import msgspec

from ...messages.message import UIMessage
from ...messages.sse import SseEvent
from .stream_joiner import StreamJoiner

__all__ = ["SseTurn"]

JsonObject = dict[str, Any]


class SseTurn:
    """The message of one turn, from the events of one or more responses."""

    def __init__(self, request: str | None) -> None:
        self.request = request
        """The request of the turn; None until a response names it."""
        self.cursor = ""
        """The id of the last event: where the next response should continue."""
        self.is_over = False
        self.failure: str | None = None
        """The error text, if the turn failed."""
        self._joiner: StreamJoiner | None = None
        self._base: UIMessage | None = None
        """The last message before the turn, if it is an assistant's: a continuation extends it."""

    @property
    def has_begun(self) -> bool:
        """True once a chunk has arrived."""
        return self._joiner is not None

    def begin(self, stored: list[JsonObject]) -> None:
        """Begin the turn after the stored messages of the conversation."""
        last = stored[-1] if stored and stored[-1]["role"] == "assistant" else None
        self._base = UIMessage.from_dict(last) if last is not None else None

    def resume(self) -> None:
        """Continue with another response, which may replay what this turn has."""
        if self._joiner is not None:
            self._joiner.dropped()

    def receive(self, events: list[SseEvent]) -> bool:
        """Process events; return True if the message has changed."""
        is_news = False
        for event in events:
            self.cursor = event.id if event.id is not None else self.cursor
            if event.data == "[DONE]":
                self.is_over = True
                is_news = bool(self._joiner is not None and self._joiner.replayed()) or is_news
                continue
            chunk = msgspec.json.decode(event.data)
            if chunk["type"] == "error":
                self.failure = chunk.get("errorText")
            else:
                index = int(event.id) if event.id is not None and event.id.isdigit() else None
                is_news = bool(self._joiner_for(chunk).feed(index, chunk)) or is_news
        return is_news

    def snapshot(self) -> UIMessage | None:
        """Return the message as far as it has streamed; None before its first part."""
        message = self._joiner.held.message() if self._joiner is not None else None
        return message if message is not None and message.id and message.parts else None

    def _joiner_for(self, chunk: JsonObject) -> StreamJoiner:
        """Return the joiner, made for the first chunk: its message id tells whether the turn continues a message."""
        if self._joiner is None:
            message_id = chunk.get("messageId") if chunk["type"] == "start" else None
            base = self._base if self._base is not None and message_id in (None, self._base.id) else None
            self._joiner = StreamJoiner(base.id if base is not None else message_id or "", base=base)
        return self._joiner

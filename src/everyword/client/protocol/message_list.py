"""The messages that a client shows."""

from __future__ import annotations

from typing import Any

from ...messages.message import UIMessage

__all__ = ["MessageList", "answer_to"]

JsonObject = dict[str, Any]


class MessageList:
    """The conversation as one client shows it."""

    def __init__(self) -> None:
        self.messages: list[JsonObject] = []
        self._unaccepted: set[str] = set()
        """Ids of messages that are shown although the newest transcript does not have them."""

    def find(self, message_id: str) -> JsonObject | None:
        """Return the last message of this id."""
        return next((each for each in reversed(self.messages) if each["id"] == message_id), None)

    def last_assistant(self) -> UIMessage | None:
        for message in reversed(self.messages):
            if message["role"] == "assistant":
                return UIMessage.from_dict(message)
        return None

    def put(self, message: JsonObject, *, only_known: bool = False) -> None:
        """Replace the message of the same id; if there is none, append it, unless `only_known`."""
        for place, each in enumerate(self.messages):
            if each["id"] == message["id"]:
                self.messages[place] = message
                return
        if not only_known:
            self.messages.append(message)

    def put_streamed(self, message: UIMessage) -> None:
        """Put a message that streams, unless the list has more of its text: transcripts may be ahead of the chunks."""
        if not any(each["id"] == message.id and _is_ahead(each, message) for each in self.messages):
            self.put(message.to_dict())

    def replace(self, transcript: list[JsonObject], kept: list[JsonObject]) -> None:
        """Show a transcript, followed by the messages of `kept` that it does not have."""
        known = {message["id"] for message in transcript}
        self._unaccepted = {message["id"] for message in kept} - known
        self.messages = [*transcript, *(message for message in kept if message["id"] not in known)]

    def adopt(self, history: list[JsonObject]) -> None:
        """Put older messages before those that are shown; where both have a message, the shown one stays."""
        shown = {message["id"]: message for message in self.messages}
        known = {message["id"] for message in history}
        older = [shown.get(message["id"], message) for message in history]
        self.messages = [*older, *(message for message in self.messages if message["id"] not in known)]

    def drop_unaccepted(self, question_id: str | None) -> None:
        """Remove the question of a request that has ended, if the conversation does not have it."""
        if question_id in self._unaccepted:
            self.messages = [message for message in self.messages if message["id"] != question_id]


def answer_to(messages: list[JsonObject], question_id: str | None) -> str | None:
    """Return the id of the assistant's message that directly follows a question; None if there is none."""
    ids = [message["id"] for message in messages]
    if question_id not in ids:
        return None
    place = ids.index(question_id) + 1
    return ids[place] if place < len(ids) and messages[place]["role"] == "assistant" else None


def _is_ahead(shown: JsonObject, message: UIMessage) -> bool:
    """Tell whether the shown message has all parts and text of the streamed one, and more text."""
    text = UIMessage.from_dict(shown).text
    return len(shown["parts"]) >= len(message.parts) and len(text) > len(message.text) and text.startswith(message.text)

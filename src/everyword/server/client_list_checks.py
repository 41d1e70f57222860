"""What a client's list of messages says of the client: whether it knows the stored conversation."""

from __future__ import annotations

import msgspec

from ..core.state import State
from ..messages.attachments import large_data_urls
from ..messages.client_copies import is_equal
from ..wire.parse import ChatRequest, SyncMessages
from .client_files import stored_inside

__all__ = ["is_new", "is_stale", "is_stored"]


def is_stored(state: State, frame: SyncMessages) -> bool:
    """Tell whether the stored conversation is the list that a client set."""
    path = state.tree.shown_path()
    if [message["id"] for message in frame.messages] != [node.id for _, node in path]:
        return False
    stored = (msgspec.json.decode(node.shown or b"") for _, node in path)
    return all(map(is_equal, frame.messages, stored))


def is_stale(state: State, frame: ChatRequest, data_url_limit: int | None = None) -> bool:
    """Tell whether the list of a question lacks stored messages, or contains others.

    A stored message with a `data:` URL longer than `data_url_limit` is another: its content is an attachment here,
    unless the message was stored before the app had attachments.
    """
    known_ids = state.tree.known_ids()
    if data_url_limit is not None:
        old = [message for message in frame.messages if message["id"] in known_ids]
        large = {message["id"] for message in old if large_data_urls(message, data_url_limit)}
        if large - stored_inside(state, old, data_url_limit):
            return True
    path = state.tree.shown_path()
    if len(frame.messages) < len(path):
        return True
    stored = [node.id for _, node in path]
    known, new = frame.messages[: len(stored)], frame.messages[len(stored) :]
    if len(new) > 1:  # all but the last belong to a conversation that is not stored
        return True
    return [message["id"] for message in known] != stored or any(message["role"] != "user" for message in new)


def is_new(state: State, frame: ChatRequest) -> bool:
    """Tell whether a client asks with nothing but what it has just said."""
    known, messages = state.tree.known_ids(), frame.messages
    return bool(messages) and all(each["role"] == "user" and each["id"] not in known for each in messages)

"""A client's message list without a question: what it adds, what it changes, and what is not allowed (R-8).

A list is stored as a whole or refused as a whole. The client shows all of its list; if half of it were stored, the
page would show neither the stored conversation nor the list.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec

from ..errors import BadMessage, MessageRefused
from ..ids import MessageId, NodeId
from ..messages.client_copies import is_copy, still_streams
from ..messages.client_messages import check_client_message, checked_answer
from .sanitize import sanitized
from .state import Rules, State
from .tree import Node

__all__ = ["changes_of", "check_questions"]

JsonObject = dict[str, Any]


def changes_of(
    state: State, messages: Sequence[JsonObject], rules: Rules
) -> tuple[list[tuple[NodeId, JsonObject]], list[JsonObject]]:
    """Return the stored messages that a client's list changes, with their nodes, and the messages that it adds.

    Raises:
        MessageRefused: the client may not store one of them; none is stored.
    """
    nodes = _nodes_by_id(state)
    active = set(state.tree.active_path())
    # A client's copy of a message that an open turn writes is out of date; the message is computed from its chunks.
    written = {turn.node for turn in state.message_turns() if turn.fold is not None}
    changed: list[tuple[NodeId, JsonObject]] = []
    new: list[JsonObject] = []
    for message in _without_removed(messages, nodes, rules):
        versions = nodes.get(message["id"])
        if versions is None:
            new.append(_checked(message, None, rules))
            continue
        node = next((each for each in reversed(versions) if each in active), versions[-1])
        place = state.tree.nodes[node]
        if place.role != message["role"]:
            raise MessageRefused(f"unable to take message {message['id']!r}; a message of another role has this id")
        if node in written or place.body is None:
            continue
        if place.role == "assistant" and still_streams(message):
            continue  # the client sent it before it had the whole answer
        if not _is_unchanged(message, [state.tree.nodes[each] for each in versions], rules):
            changed.append((node, _checked(message, place, rules)))
    return changed, new


def check_questions(messages: Iterable[JsonObject]) -> None:
    """Refuse user messages that a client may not store. Stored messages are not checked again."""
    for message in messages:
        try:
            check_client_message(message)
        except BadMessage as exc:
            raise MessageRefused(str(exc)) from exc


def _checked(message: JsonObject, place: Node | None, rules: Rules) -> JsonObject:
    """Return the message as it is stored when a client adds it, or changes it at `place`."""
    if message["role"] == "user":
        check_questions([message])
        return message
    if message["role"] != "assistant" or not rules.trusts_client_messages:
        whose = "user and assistant" if rules.trusts_client_messages else "user"
        raise MessageRefused(
            f"unable to take message {message['id']!r}; clients may store {whose} messages here, and its role is "
            f"{message['role']}"
        )
    stored = msgspec.json.decode(place.body) if place is not None and place.body is not None else None
    try:
        return checked_answer(message, stored)
    except BadMessage as exc:
        raise MessageRefused(str(exc)) from exc


def _is_unchanged(message: JsonObject, versions: Iterable[Node], rules: Rules) -> bool:
    """Return whether a message is a copy of a stored one with its id. A copy of an older version is no edit."""
    stored = [msgspec.json.decode(node.body) for node in versions if node.body is not None]
    if any(is_copy(message, each) for each in stored):
        return True
    kept = sanitized(message, rules)
    return kept != message and any(is_copy(kept, each) for each in stored)


def _without_removed(messages: Sequence[JsonObject], known: Container[str], rules: Rules) -> Sequence[JsonObject]:
    """Return the list without messages that the cap has removed: clients show them until they reload."""
    if rules.max_persisted_messages is None:
        return messages
    first = next((place for place, message in enumerate(messages) if message["id"] in known), 0)
    return messages[first:]


def _nodes_by_id(state: State) -> dict[MessageId, list[NodeId]]:
    found: dict[MessageId, list[NodeId]] = {}
    for node, place in state.tree.nodes.items():
        found.setdefault(place.id, []).append(node)
    return found

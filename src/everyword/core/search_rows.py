"""Rows with the texts that a search over conversations finds: user and assistant messages, and the title.

The log does not say whether an app has searches, so these rows are not `project`'s. A kept row marks an agent that has
them. With the mark they are those of all its messages: an agent gets all of them at once, and loses all at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ..rows import (
    ALL_MESSAGES,
    CONVERSATION,
    SEARCHABLE,
    TEXT,
    TITLE_KEY,
    KeptRow,
    MessageRow,
    Row,
    RowsCleared,
    RowsRemoved,
    encode_text,
)
from ..search_words import MOST_TEXT, text_words
from .conversations import message_text
from .project import message_row
from .state import State

__all__ = ["search_rows"]

MARK: Final = KeptRow(SEARCHABLE, "", b"true")
ROLES: Final = ("user", "assistant")


def search_rows(state: State, changed: Iterable[Row], is_wanted: bool | None) -> list[KeptRow]:
    """Return the rows that follow from rows that changed, and from the app's setting; None for as it was.

    Call it once for all rows of a batch, when `state` has all of its events.
    """
    if is_wanted is None:
        is_wanted = state.is_searchable
    was_searchable, state.is_searchable = state.is_searchable, is_wanted
    if is_wanted and was_searchable:
        return [row for each in changed for row in _changed_rows(state, each)]
    if is_wanted:
        texts = [_text_row(message_row(state, node)) for node in state.tree.nodes]
        return [MARK, *(row for row in (*texts, _title_row(state)) if row.body is not None)]
    if was_searchable:
        gone = (SEARCHABLE, ""), (TEXT, ALL_MESSAGES), (TEXT, TITLE_KEY)
        return [KeptRow(kind, key, None) for kind, key in gone]
    return []


def _changed_rows(state: State, row: Row) -> list[KeptRow]:
    match row:
        case MessageRow():
            return [_text_row(row)]
        case RowsRemoved():
            return [KeptRow(TEXT, str(node), None) for node in row.nodes]
        case RowsCleared():
            return [KeptRow(TEXT, ALL_MESSAGES, None)]
        case KeptRow() if row.kind == CONVERSATION and _title(state) != state.indexed_title:
            return [_title_row(state)]
        case _:
            return []


def _text_row(row: MessageRow) -> KeptRow:
    shown = row.draft if row.draft is not None else row.body
    text = message_text(shown) if shown is not None and row.role in ROLES else ""
    return _row(str(row.node), text)


def _title_row(state: State) -> KeptRow:
    state.indexed_title = _title(state)
    return _row(TITLE_KEY, state.indexed_title or "")


def _title(state: State) -> str | None:
    """Return the title that was given; without one, lists show a part of a message."""
    return state.conversation.title if state.conversation is not None else None


def _row(key: str, text: str) -> KeptRow:
    words = text_words(text)
    return KeptRow(TEXT, key, encode_text(words, text[:MOST_TEXT]) if words else None)

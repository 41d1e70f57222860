"""Searches in a file: its texts, in the full-text table `message_text`, written and found."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final

import msgspec

from ...rows import ALL_MESSAGES, TEXT, KeptRow, decode_text, encode_text
from ..lists import LOOKED_AT, RARE, ConversationQuery, find_text
from .queries import Reader
from .statements import SQL

__all__ = ["put_text", "search_conversations"]

FEW: Final = 20
"""Texts of a conversation that are read as they are: to look each word up in the index would take longer."""

NODES: Final = 2**32
"""The nodes that an agent has in the numbers of its texts."""


def put_text(connection: sqlite3.Connection, key: int, row: KeptRow) -> None:
    """Write a text that is searched, or remove it."""
    if row.body is None:
        first, last = (1, NODES - 1) if row.key == ALL_MESSAGES else (int(row.key),) * 2
        connection.execute(SQL["remove_texts"], (key * NODES + first, key * NODES + last))
        return
    words, text = decode_text(row.body)
    connection.execute(SQL["put_text"], (key * NODES + int(row.key), " ".join(words), text))


def search_conversations(
    query: ConversationQuery, name: str, values: Sequence[Any], reader: Reader
) -> list[tuple[str, bytes, int, str | None]]:
    """Return a page of a search: id, body and `waits` of each conversation, and the text to show.

    `name` and `values` are the statement that lists the conversations of the query, whatever their words.
    """
    terms = [f'"{word}"' for word in query.words]
    terms[-1] += "*"
    counts = {term: reader.rows("count_texts", (term, RARE))[0][0] for term in terms}
    if not all(counts.values()):
        return []
    *selected, limit = values
    rare = [term for term in terms if counts[term] < RARE]
    found: list[tuple[str, int]] = []
    is_complete = False
    if not rare:  # among the newest conversations there are probably enough
        listed = reader.rows(name, (*selected, LOOKED_AT))
        found = _first_with_all(reader, [(id, key) for id, _, _, key in listed], query, terms, limit)
        is_complete = len(found) >= limit or len(listed) < LOOKED_AT
    if not is_complete:
        found = _among(reader, query, rare or terms, [term for term in terms if rare and term not in rare], selected)
    rows = [(row, key) for id, key in found[:limit] for row in reader.rows("find_conversation", (id,))]
    return [(id, body, waits, _text(reader, key, query, terms)) for (id, body, waits, _), key in rows]


def _among(
    reader: Reader, query: ConversationQuery, terms: Sequence[str], others: Sequence[str], selected: Sequence[Any]
) -> list[tuple[str, int]]:
    """Return the conversations with all of these terms, newest first; the others are looked for one by one."""
    agents = set.intersection(*({key for (key,) in reader.rows("agents_with_word", (term,))} for term in terms))
    keys = msgspec.json.encode(sorted(agents)).decode()
    listed = reader.rows("conversations_of_agents", (*selected, keys))
    return _first_with_all(reader, [(id, key) for id, _, key in listed], query, others, query.limit)


def _first_with_all(
    reader: Reader, listed: Sequence[tuple[str, int]], query: ConversationQuery, terms: Sequence[str], limit: int
) -> list[tuple[str, int]]:
    """Return the first conversations that have all of these terms; no more of them are looked at than needed."""

    def has_all(key: int) -> bool:
        if not terms:
            return True
        if (few := _few(reader, key)) is not None:
            return find_text(few, query.words) is not None
        place = key * NODES, key * NODES + NODES - 1
        return all(reader.rows("has_text", (term, *place))[0][0] for term in terms)

    return list(islice((each for each in listed if has_all(each[1])), limit))


def _few(reader: Reader, key: int) -> list[KeptRow] | None:
    """Return the texts of a conversation; None if they are many."""
    rows = reader.rows("first_texts", (key * NODES, key * NODES + NODES - 1, FEW + 1))
    if len(rows) > FEW:
        return None
    return [KeptRow(TEXT, str(node), encode_text(words.split(" "), text)) for node, words, text in rows]


def _text(reader: Reader, key: int, query: ConversationQuery, terms: Sequence[str]) -> str | None:
    """Return the text of a conversation that a search shows: a message with all words, with one, or the title."""
    if (few := _few(reader, key)) is not None:
        return find_text(few, query.words)
    first, last = key * NODES, key * NODES + NODES - 1
    has_all, has_one = " AND ".join(terms), " OR ".join(terms)
    for match, place in ((has_all, first + 1), (has_one, first + 1), (has_one, first)):
        for (text,) in reader.rows("find_text", (match, place, last)):
            return str(text)
    return None

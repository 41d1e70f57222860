"""What a page of a list costs when one owner has very many conversations, and what it costs to index their texts.

    python -m benchmarks.lists              # 100,000 conversations of one owner, on SQLite and PostgreSQL: some minutes
    SIZE=small python -m benchmarks.lists   # a hundredth of it

The stores are asked as `app.conversations.list` asks them, for a page of 50. Times are medians.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.pages import put_part
from everyword.events import AgentCreated, encode_event
from everyword.ids import AgentId, Millis, Seq
from everyword.log.base import Batch, Entry
from everyword.log.lists import AgentLists, ConversationQuery
from everyword.log.postgres.store import PostgresLog
from everyword.log.sqlite.store import SqliteLog
from everyword.rows import CONVERSATION, TEXT, ConversationSummary, KeptRow, encode_listed, encode_text
from everyword.search_words import query_words, text_words
from tests.postgres.server import OwnPostgres

Store = SqliteLog | PostgresLog

COUNTS: Final = {"full": 100_000, "small": 1_000, "tiny": 20}
TOGETHER: Final = 500
ROUNDS: Final = 21
TEXTS: Final = 4
"""Messages of each conversation."""
WORDS: Final = 25
"""Words of each message: `w1` is in nearly every conversation, `w9000` in a few."""
SHARE: Final = 100
"""One of so many conversations has failed, is archived, or belongs to another owner."""


def main() -> int:
    size = os.environ.get("SIZE", "full")
    lines = asyncio.run(_measure(COUNTS[size]))
    print("\n".join(lines))
    if size == "full":
        put_part("lists", "\n".join(lines))
    return 0


async def _measure(count: int) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="lists-") as folder:
        postgres = OwnPostgres.started({}, durable=True)
        try:
            stores: dict[str, Callable[[], Store]] = {
                "SQLite": lambda: SqliteLog(Path(folder) / "lists.db"),
                "PostgreSQL": lambda: PostgresLog(postgres.url),
            }
            plain = await _fill(SqliteLog(Path(folder) / "plain.db"), count // 10, texts=False)
            indexed = await _fill(SqliteLog(Path(folder) / "indexed.db"), count // 10, texts=True)
            found = {name: await _on(make, count) for name, make in stores.items()}
        finally:
            postgres.close()
    lines = [f"| a page of 50, of {count:,} conversations of one owner: ms | {' | '.join(found)} |", "|---|---:|---:|"]
    lines += [
        f"| {title} | {' | '.join(f'{figures[title]:.1f}' for figures in found.values())} |"
        for title in found["SQLite"]
    ]
    cost = (indexed - plain) / (count // 10 * TEXTS) * 1e6
    return [*lines, "", f"To index a message of {WORDS} words costs {cost:.0f} µs CPU on SQLite, in its commit."]


async def _on(make: Callable[[], Store], count: int) -> dict[str, float]:
    await _fill(make(), count, texts=True)
    store = make()
    await store.open()
    try:
        lists = store.lists
        assert lists is not None
        half = Millis(count // 2), AgentId("")
        asked = {
            "the first page": ConversationQuery("ann", archived=False),
            "a page in the middle": ConversationQuery("ann", archived=False, before=half),
            f"with a status that one of {SHARE} has": ConversationQuery("ann", status="failed", archived=False),
            "a search for a word that few texts have": _search("w9000"),
            "a search for a word that most conversations have": _search("w1"),
            "a search for a rare word and a frequent one": _search("w1 w9000"),
            "a search for three words, the last a beginning": _search("w1 w2 w30"),
            "a search for a word that no text has": _search("none"),
            "a search for two frequent words by an owner with few conversations": _search("w1 w2", owner="bob"),
        }
        return {title: await _median(lists, query) for title, query in asked.items()}
    finally:
        await store.aclose()


def _search(query: str, owner: str = "ann") -> ConversationQuery:
    return ConversationQuery(owner, archived=False, words=query_words(query))


async def _median(lists: AgentLists, query: ConversationQuery) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await lists.conversations(query)
        times.append(time.perf_counter() - began)
    return median(times) * 1000


async def _fill(store: Store, count: int, *, texts: bool) -> float:
    """Store the conversations; return the CPU seconds of this process."""
    await store.open()
    chance, began = random.Random(7), time.process_time()
    try:
        for start in range(0, count, TOGETHER):
            numbers = range(start, min(start + TOGETHER, count))
            agents = [AgentId(f"chat/c{number}") for number in numbers]
            loaded = await asyncio.gather(*(store.activate(agent) for agent in agents))
            entry = Entry("agent.created", None, encode_event(AgentCreated()))
            batches = [
                Batch(agent, each.epoch, Seq(1), Millis(number), [entry], _rows(number, chance, texts=texts))
                for number, agent, each in zip(numbers, agents, loaded, strict=True)
            ]
            await asyncio.gather(*store.append(batches))
        return time.process_time() - began
    finally:
        await store.aclose()


def _rows(number: int, chance: random.Random, *, texts: bool) -> Sequence[KeptRow]:
    place = number % SHARE
    summary = ConversationSummary(
        created_at=Millis(1),
        updated_at=Millis(number),
        status="failed" if place == 1 else "idle",
        archived_at=Millis(number) if place == 2 else None,
        owner="bob" if place == 3 else "ann",
        messages=TEXTS,
        question="How do I get a refund?",
        preview="You can ask for it in the app.",
    )
    rows = [KeptRow(CONVERSATION, "", encode_listed(summary))]
    for node in range(1, TEXTS + 1) if texts else ():
        # Word n is about n times as rare as the first one, as in a language.
        text = " ".join(f"w{int(1.35 ** (chance.random() * 33))}" for _ in range(WORDS))
        rows.append(KeptRow(TEXT, str(node), encode_text(text_words(text), text)))
    return rows


if __name__ == "__main__":
    sys.exit(main())

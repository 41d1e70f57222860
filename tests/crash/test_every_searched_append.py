"""The process dies at every append of conversations that are searched: what is found is what the messages say.

The texts that a search finds are written with the messages (decision 0041). After each crash they are those of the
messages that the log has, no more and no less, whether the process died before or after the commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from everyword.log.base import LogStore
from everyword.log.lists import ConversationQuery
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.rows import SEARCHABLE, TEXT, decode_text
from everyword.runtime.app_rules import AppRules
from everyword.runtime.directory import Directory
from everyword.runtime.rebuild import fold_log, stored_rows
from everyword.search_words import text_words
from tests.crash.proofs import read_all
from tests.crash.world import QUICK, SCENES, Crash, Model, World, play
from tests.runtime.kit import AGENT

PLAYED = ("versions", "clear", "approvals", "errors", "queue")
"""The scenes in which messages are replaced, removed, cleared, drafted and merged."""


def searched(world: World, log: LogStore) -> Directory:
    """Start a process of an app that has searches."""
    model = Model(world.hold, world.note_response)
    settings = replace(QUICK, app_rules=AppRules(has_search=True))
    model.directory = Directory(log, model, clock=world.clock, settings=settings)
    return model.directory


async def look_at(store: LogStore) -> None:
    """Check that exactly the texts of the messages are indexed, and that a search finds them."""
    if not await read_all(store, AGENT):
        return
    stored = await stored_rows(store, AGENT)
    _, rows, _ = await fold_log(store, AGENT, is_searchable=True)
    assert (stored.kept, stored.listed) == (rows.kept, rows.listed)
    assert (SEARCHABLE, "") in stored.kept
    assert store.lists is not None
    for kind, key in stored.listed:
        if kind == TEXT:
            words, text = decode_text(stored.listed[kind, key].body or b"")
            assert words == text_words(text)
            found = await store.lists.conversations(ConversationQuery(words=words[:8]))
            assert [each.agent for each in found] == [AGENT]


async def play_and_check(store: Callable[[], LogStore], scene: str, crashes: list[Crash]) -> World:
    world = World()
    await play(world, store, crashes, look_at, script=SCENES[scene], process=searched)
    kept = store()
    await kept.open()
    await look_at(kept)
    await kept.aclose()
    return world


def appends_of(scene: str) -> int:
    store = MemoryLog()
    (count,) = asyncio.run(play_and_check(lambda: store, scene, [])).appends
    return count


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("scene", PLAYED)
def test_dying_at_any_append_leaves_the_texts_of_the_messages(scene: str, when: str) -> None:
    count = appends_of(scene)
    assert count > 5
    for at in range(1, count + 1):
        store = MemoryLog()
        world = asyncio.run(play_and_check(lambda: store, scene, [Crash(at, when)]))  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"


@pytest.mark.parametrize("scene", ["versions", "clear"])
def test_dying_over_a_file_leaves_the_texts_of_the_messages(scene: str, tmp_path: Path) -> None:
    for at in range(2, appends_of(scene) + 1, 4):
        path = tmp_path / f"{at}.db"
        crash = Crash(at, "after" if at % 8 == 2 else "before")
        world = asyncio.run(play_and_check(lambda: SqliteLog(path), scene, [crash]))  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"

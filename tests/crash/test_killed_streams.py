"""Managed streams and their processes: wherever one dies, the next one finishes, and all clients have the same text."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import ConnectionClosed

from everyword.core.evolve import evolve
from everyword.core.project import project
from everyword.core.restore import restore
from everyword.core.state import State
from everyword.events import Chunk, TurnAccepted, TurnEnded, TurnKind, decode_event
from everyword.log.base import LogStore
from everyword.log.memory import MemoryLog
from everyword.log.sqlite.store import SqliteLog
from everyword.messages.managed_stream import fold_managed_stream
from everyword.runtime.tail import Committed
from everyword.wire.managed_stream_view import ManagedStreamView
from tests.agents.streams.kit import PageStream, Talk, talking
from tests.agents.streams.tabs import tab
from tests.core.histories import Rows, fingerprint
from tests.crash.proofs import of_kind, read_all
from tests.crash.streamer import LONG, SCRIPT, Speaker, speaking
from tests.crash.world import Crash, World, bodies, play
from tests.runtime.kit import AGENT

WHENS = ("before", "after")
SLICES = 8
KILLS = 9
PATIENCE = 60.0
ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Kept:
    """What is left when the script is over: messages, and how each stream of the conversation ended with what words."""

    messages: list[tuple[str, str]]
    streams: list[tuple[str, str]]


async def look_at(store: LogStore) -> None:
    """Check what a dead process left behind, before the next one repairs anything: rows are what the log says (I-9)."""
    log = await read_all(store, AGENT)
    assert [stored.seq for stored in log] == sorted({stored.seq for stored in log})
    state, rebuilt = State(), Rows()
    for stored in log:
        event = decode_event(stored.body)
        evolve(state, event, stored.at)
        rebuilt.apply(project(state, event))
    loaded = await store.activate(AGENT)
    assert {row.turn: row for row in loaded.turns} == rebuilt.turns
    assert {row.node: row for row in loaded.messages} == rebuilt.messages
    assert {(row.kind, row.key): row for row in loaded.kept} == rebuilt.kept
    streamed = [(stored.at, decode_event(stored.body)) for stored in loaded.chunks]
    restored, problems = restore(loaded.agent, loaded.turns, loaded.messages, streamed, loaded.kept)
    assert not problems
    assert fingerprint(restored) == fingerprint(state)


async def play_and_check(store: Callable[[], LogStore], crashes: list[Crash]) -> tuple[World, Kept]:
    world = World()
    await play(world, store, crashes, look_at, script=SCRIPT, process=speaking)
    kept = store()
    await kept.open()
    log = await read_all(kept, AGENT)
    await look_at(kept)
    assert [seq for seq, _ in bodies(world)] == sorted({seq for seq, _ in bodies(world)})
    known = {stored.seq: stored.body for stored in log}
    # What was cleaned up is not in the log any more; everything else that clients saw is.
    assert all(known[seq] == body for seq, body in bodies(world) if seq in known)
    assert set(known) <= {seq for seq, _ in bodies(world)}
    ends = Counter(event.turn for event in of_kind(log, TurnEnded))
    assert ends == Counter(event.turn for event in of_kind(log, TurnAccepted))
    found = await read_kept(kept)
    assert watched(world) == found.streams
    await kept.aclose()
    return world, found


async def read_kept(store: LogStore) -> Kept:
    rows = [row for row in await store.turns(AGENT) if row.kind is TurnKind.RSM]  # type: ignore[attr-defined]
    last = max(row.generation for row in rows)
    streams = []
    for row in rows:
        if row.generation == last:
            stored = [(each.at, bytes(chunk_of(each.body).body)) for each in await store.read_turn(AGENT, row.turn)]
            streams.append((row.status, fold_managed_stream(stored).text))
    messages = [msgspec.json.decode(row.body) for row in (await store.conversation(AGENT))[1] if row.body is not None]
    return Kept([(each["role"], each["parts"][0]["text"]) for each in messages], streams)


def chunk_of(body: bytes) -> Chunk:
    found = decode_event(body)
    assert isinstance(found, Chunk)
    return found


def watched(world: World) -> list[tuple[str, str]]:
    """Return the streams of the last conversation as a page shows them that saw every frame, across all crashes."""
    pages: dict[str, PageStream] = {}
    view, last = ManagedStreamView({}, _Nobody()), 0  # type: ignore[arg-type]
    generations: dict[str, int] = {}
    for seq, event in world.seen:
        if isinstance(event, TurnAccepted):
            generations[event.request] = last = event.generation
            pages[event.request] = PageStream()
        for text in view.happened_all([Committed(seq, world.clock.now(), event)]):
            frame = msgspec.json.decode(text)
            pages[frame["streamId"]].frame(frame)
    return [(page.status, page.text) for stream, page in pages.items() if generations[stream] == last]


class _Nobody:
    def happened(self, committed: Any) -> list[bytes]:
        return []


@pytest.fixture(autouse=True)
def steady() -> Iterator[None]:
    yield
    Speaker.is_fickle = False


@pytest.fixture(scope="module")
def undisturbed() -> tuple[int, Kept]:
    async def run() -> tuple[int, Kept]:
        store = MemoryLog()
        world, kept = await play_and_check(lambda: store, [])
        return world.appends[0], kept

    return asyncio.run(run())


def test_the_undisturbed_script_ends_well_and_badly(undisturbed: tuple[int, Kept]) -> None:
    appends, kept = undisturbed
    assert appends > 50
    assert kept.messages == [
        ("user", "ten eleven twelve"),
        ("user", "thirteen fail"),
        ("assistant", "ten eleven twelve "),
    ]
    assert kept.streams == [("completed", "ten eleven twelve "), ("error", "thirteen ")]


@pytest.mark.obligation("004-4", "004-26")
@pytest.mark.parametrize("when", WHENS)
@pytest.mark.parametrize("part", range(SLICES))
async def test_dying_at_any_append_changes_no_word(undisturbed: tuple[int, Kept], part: int, when: Any) -> None:
    appends, expected = undisturbed
    for at in range(part + 1, appends + 1, SLICES):
        store = MemoryLog()
        world, kept = await play_and_check(lambda: store, [Crash(at, when)])  # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
        assert kept.streams == expected.streams, f"append {at}, {when}"
        assert sorted(kept.messages) == sorted(expected.messages), f"append {at}, {when}"


@pytest.mark.parametrize("seed", range(4))
async def test_dying_twice_changes_no_word(undisturbed: tuple[int, Kept], seed: int) -> None:
    chance, (appends, expected) = random.Random(seed), undisturbed
    for _ in range(6):
        crashes = [Crash(at, chance.choice(WHENS)) for at in (chance.randint(1, appends - 10), chance.randint(1, 8))]  # type: ignore[arg-type]
        store = MemoryLog()
        world, kept = await play_and_check(lambda: store, crashes)  # noqa: B023
        assert world.processes == 3, f"{crashes} did not all happen"
        assert (kept.streams, sorted(kept.messages)) == (expected.streams, sorted(expected.messages)), crashes


@pytest.mark.parametrize("part", range(4))
async def test_an_answer_that_changes_at_each_attempt_is_the_same_for_all_clients(part: int) -> None:
    Speaker.is_fickle = True
    store = MemoryLog()
    world, _ = await play_and_check(lambda: store, [])
    for at in range(part + 1, world.appends[0] + 1, 4):
        store = MemoryLog()
        _, kept = await play_and_check(lambda: store, [Crash(at, WHENS[at % 2])])  # type: ignore[arg-type] # noqa: B023
        assert [status for status, _ in kept.streams] == ["completed", "error"]
        assert ("assistant", kept.streams[0][1]) in kept.messages


async def test_dying_over_a_file_changes_no_word(undisturbed: tuple[int, Kept], tmp_path: Path) -> None:
    appends, expected = undisturbed
    for at in range(2, appends - 10, 9):
        path = tmp_path / f"{at}.db"
        world, kept = await play_and_check(lambda: SqliteLog(path), [Crash(at, WHENS[at % 2])])  # type: ignore[arg-type] # noqa: B023
        assert world.processes == 2, f"append {at} was never reached"
        assert (kept.streams, sorted(kept.messages)) == (expected.streams, sorted(expected.messages))


# -- a real process --------------------------------------------------------------------------------------------------


class Server:
    """A server that is killed and started again on the same file and port."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self._runtime = listener.getsockname()[1]
        self.path, self.url = folder / "log.db", f"http://127.0.0.1:{self._runtime}"
        self._nursery: Process | None = None
        self._pid = 0

    async def open(self) -> None:
        arguments = ["-m", "tests.crash.streamer", str(self.path), str(self._runtime)]
        self._nursery = await asyncio.create_subprocess_exec(
            sys.executable, *arguments, stdin=PIPE, stdout=PIPE, cwd=ROOT
        )

    async def start(self) -> None:
        assert self._nursery is not None and self._nursery.stdin is not None
        self._nursery.stdin.write(b"\n")
        said = {await self._line(), await self._line()}
        assert "ready" in said
        self._pid = int(next(line for line in said if line.startswith("pid ")).removeprefix("pid "))

    async def kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        assert await self._line() == "dead"

    async def aclose(self) -> None:
        assert self._nursery is not None and self._nursery.stdin is not None
        self._nursery.stdin.close()
        await self._nursery.wait()

    async def _line(self) -> str:
        assert self._nursery is not None and self._nursery.stdout is not None
        async with asyncio.timeout(PATIENCE):
            return (await self._nursery.stdout.readline()).decode().strip()


@asynccontextmanager
async def server(folder: Path) -> AsyncIterator[Server]:
    running = Server(folder)
    await running.open()
    await running.start()
    try:
        yield running
    finally:
        await running.kill()
        await running.aclose()


@pytest.mark.crash
@pytest.mark.obligation("004-4", "004-26", "004-35")
async def test_a_killed_server_loses_no_word_that_a_tab_has_seen(tmp_path: Path) -> None:
    chance, streams = random.Random(7), dict[str, PageStream]()
    sent = list[str]()
    async with server(tmp_path) as running:
        for kill in range(KILLS):
            async with tab(running.url) as page:
                page.streams = streams
                if kill % 3 == 0:
                    sent.append((await page.call("send_message", f"question {kill}"))["streamId"])
                # The next process may have finished before a client came back: then there are no live frames.
                page.stream(sent[-1]).history(await page.call("get_stream_history", sent[-1]))
                seen = len(page.stream(sent[-1]).chunks)
                wanted = min(seen + chance.randint(1, 15), len(LONG) - 2)
                await page.until(lambda: len(page.stream(sent[-1]).chunks) >= wanted)  # noqa: B023
                await running.kill()
                with pytest.raises(ConnectionClosed):
                    await page.until(lambda: False)
            await running.start()
        async with tab(running.url) as page:
            page.streams = streams
            await page.until(lambda: page.state["activeStreamId"] is None)
            for stream in sent:
                history = await page.call("get_stream_history", stream)
                assert [chunk["content"] for chunk in history["chunks"]] == LONG
                assert history["metadata"]["status"] == "completed" and "restarts" not in history["metadata"]
                page.stream(stream).history(history)
                assert (page.stream(stream).text, page.stream(stream).applied) == ("".join(LONG), len(LONG))
            messages = page.state["messages"]
    assert [each["content"] for each in messages if each["role"] == "assistant"] == ["".join(LONG)] * len(sent)
    async with talking(SqliteLog(running.path), cls=Talk) as (talk, _):
        assert await talk.streams.load_messages() == messages
        assert len(await talk.sql("select * from stream_chunks")) == len(sent) * len(LONG)

"""ResumableStream: the verbs of the original, as a façade over the one log."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from everyword.agents.streams.resumable_stream import ResumableStream
from everyword.errors import Rejected, UsageError
from everyword.ids import AgentId
from everyword.log.base import Batch, LogStore
from everyword.log.memory import MemoryLog
from everyword.runtime.agent_runtime.bare_streams import BareStreams
from everyword.runtime.directory import Directory
from everyword.testing import ManualClock, ScriptedResponder

AGENT = AgentId("chat/ann")


class Connection:
    def __init__(self) -> None:
        self.frames: list[dict[str, Any]] = []

    async def send(self, text: str) -> None:
        self.frames.append(json.loads(text))

    @property
    def bodies(self) -> list[str]:
        return [frame["body"] for frame in self.frames if frame["body"] and not frame.get("error")]


@asynccontextmanager
async def streams(store: LogStore) -> AsyncIterator[ResumableStream]:
    async with Directory(store, ScriptedResponder([]), clock=ManualClock()) as directory:
        yield ResumableStream(BareStreams(directory, AGENT))


@pytest.mark.obligation("001-2.c")
async def test_starting_a_stream_makes_it_active_and_gives_its_id() -> None:
    async with streams(MemoryLog()) as stream:
        assert not await stream.has_active_stream()
        first = await stream.start("r1")
        active = await stream.get_active_stream()
        assert active is not None and (str(active.turn), active.request) == (first, "r1")
        assert await stream.start("r1") == first
        assert await stream.start("r2") != first


@pytest.mark.obligation("001-2.e", "000-9.2")
@pytest.mark.parametrize(
    ("verb", "status"), [("complete", "completed"), ("mark_error", "error"), ("mark_aborted", "aborted")]
)
async def test_ending_a_stream_sets_its_status_and_frees_the_active_slot(verb: str, status: str) -> None:
    async with streams(MemoryLog()) as stream:
        name = await stream.start("r1")
        await stream.store_chunk(name, "one")
        await getattr(stream, verb)(name, *(["boom"] if verb == "mark_error" else []))
        record = await stream.get_stream("r1")
        assert record is not None and record.outcome is not None
        assert record.outcome.value == status
        assert record.error == ("boom" if verb == "mark_error" else None)
        assert not await stream.has_active_stream()


@pytest.mark.obligation("000-5.1")
async def test_an_ended_stream_takes_no_chunk_and_no_second_end() -> None:
    async with streams(MemoryLog()) as stream:
        name = await stream.start("r1")
        await stream.complete(name)
        with pytest.raises(Rejected):
            await stream.store_chunk(name, "late")
        with pytest.raises(Rejected):
            await stream.mark_error(name, "late")
        with pytest.raises(UsageError, match="start"):
            await stream.store_chunk("nonsense", "x")


class HeldLog(MemoryLog):
    """Commits nothing while it is held; `sizes` has the number of events of each commit."""

    def __init__(self) -> None:
        super().__init__()
        self.released, self.asked = asyncio.Event(), asyncio.Event()
        self.released.set()
        self.sizes: list[int] = []

    async def append_one(self, batch: Batch) -> None:
        self.asked.set()
        await self.released.wait()
        self.sizes.append(len(batch.entries))
        await super().append_one(batch)


@pytest.mark.obligation("001-2.d")
async def test_chunks_that_wait_together_are_one_commit_and_none_is_seen_before_it() -> None:
    store, before, after = HeldLog(), Connection(), Connection()
    async with streams(store) as stream:
        name = await stream.start("r1")
        store.sizes.clear()
        store.asked.clear()
        store.released.clear()
        words = ["one ", "two ", "three ", "four"]
        writing = [asyncio.create_task(stream.store_chunk(name, word)) for word in words]
        await store.asked.wait()
        await stream.replay_chunks(before, "r1")
        assert (before.bodies, [task.done() for task in writing]) == ([], [False] * 4)
        store.released.set()
        await asyncio.gather(*writing)
        await stream.replay_chunks(after, "r1")
        assert after.bodies == words
        assert (sum(store.sizes), len(store.sizes) < len(words)) == (len(words), True)


class Draining(Connection):
    """A connection that wants to be waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.unread = self.most = 0

    async def send(self, text: str) -> None:
        await super().send(text)
        self.unread += 1
        self.most = max(self.most, self.unread)

    async def drain(self) -> None:
        self.unread = 0


async def test_a_replay_waits_for_a_connection_that_wants_to_be_waited_for() -> None:
    async with streams(MemoryLog()) as stream:
        name, connection = await stream.start("r1"), Draining()
        for number in range(20):
            await stream.store_chunk(name, str(number))
        assert await stream.replay_chunks(connection, "r1")
        assert (len(connection.frames), connection.most) == (21, 1)


async def test_a_running_stream_replays_what_is_there_then_says_that_it_is_complete() -> None:
    async with streams(MemoryLog()) as stream:
        name = await stream.start("r1")
        await stream.store_chunk(name, '{"type":"text-delta"}')
        await stream.store_chunk(name, "not json at all")
        connection = Connection()
        assert await stream.replay_chunks(connection, "r1")
        assert [frame["body"] for frame in connection.frames] == ['{"type":"text-delta"}', "not json at all", ""]
        assert [frame.get("seq") for frame in connection.frames] == [0, 1, None]
        assert all(frame["replay"] and not frame["done"] for frame in connection.frames)
        assert connection.frames[-1]["replayComplete"]
        assert not await stream.replay_terminal_chunks_by_request_id(connection, "r1")


@pytest.mark.obligation("000-7.a", "001-Q2", "001-5")
async def test_an_errored_stream_replays_every_chunk_and_then_its_error_in_one_frame() -> None:
    async with streams(MemoryLog()) as stream:
        name = await stream.start("r1")
        for body in ("Hello", " ", "Wor"):
            await stream.store_chunk(name, body)
        await stream.mark_error(name, "boom")
        connection = Connection()
        assert not await stream.replay_completed_chunks_by_request_id(connection, "r1")
        assert connection.frames == []
        assert await stream.replay_terminal_chunks_by_request_id(connection, "r1")
        assert connection.bodies == ["Hello", " ", "Wor"]
        last = connection.frames[-1]
        wanted = {"body": "boom", "done": True, "error": True, "replay": True}
        assert {key: last[key] for key in wanted} == wanted
        assert sum(frame["done"] or frame.get("error", False) for frame in connection.frames) == 1


async def test_a_completed_stream_replays_with_a_clean_done() -> None:
    async with streams(MemoryLog()) as stream:
        name = await stream.start("r1")
        await stream.store_chunk(name, "Hello")
        await stream.complete(name)
        connection = Connection()
        assert await stream.replay_completed_chunks_by_request_id(connection, "r1")
        assert connection.bodies == ["Hello"]
        last = connection.frames[-1]
        assert (last["done"], last["replay"], last.get("error")) == (True, True, None)


@pytest.mark.obligation("001-2.a")
async def test_an_ended_streams_chunks_go_after_the_retention_and_its_end_stays() -> None:
    clock = ManualClock()
    async with Directory(MemoryLog(), ScriptedResponder([]), clock=clock) as directory:
        stream = ResumableStream(BareStreams(directory, AGENT))
        ended, running = await stream.start("r1"), await stream.start("r2")
        await stream.store_chunk(ended, "old")
        await stream.store_chunk(running, "going on")
        await stream.mark_error(ended, "boom")
        assert await stream.cleanup() == 0
        clock.advance(25 * 60 * 60)
        await stream.cleanup()
        connection = Connection()
        assert await stream.replay_terminal_chunks_by_request_id(connection, "r1")
        assert [frame["body"] for frame in connection.frames] == ["", "boom"]
        assert await stream.replay_chunks(connection, "r2")
        assert connection.frames[-2]["body"] == "going on"


async def test_an_unknown_request_replays_nothing() -> None:
    async with streams(MemoryLog()) as stream:
        connection = Connection()
        assert not await stream.replay_chunks(connection, "nobody")
        assert not await stream.replay_terminal_chunks_by_request_id(connection, "nobody")
        assert connection.frames == []


@pytest.mark.obligation("001-Q1")
async def test_what_is_active_and_what_failed_is_answered_by_the_log_after_a_restart() -> None:
    store = MemoryLog()
    async with streams(store) as stream:
        failed = await stream.start("r1")
        await stream.store_chunk(failed, "Hel")
        await stream.mark_error(failed, "boom")
        await stream.store_chunk(await stream.start("r2"), "still ")
    async with streams(store) as stream:
        active = await stream.get_active_stream()
        assert active is not None and active.request == "r2"
        await stream.store_chunk(str(active.turn), "going")
        connection = Connection()
        assert await stream.replay_chunks(connection, "r2")
        assert connection.bodies == ["still ", "going"]
        assert await stream.replay_terminal_chunks_by_request_id(connection, "r1")
        assert connection.frames[-1]["body"] == "boom"

"""Readers: a tail that forgets, subscriptions that do not, an outbox that keeps the order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from everyword.core.commands import BeginAttempt as BeginStream
from everyword.core.commands import EmitChunks, Emitted, OpenStream
from everyword.errors import AgentStopped, MailboxFull
from everyword.events import Chunk
from everyword.ids import Attempt, MessageId, Millis, RequestId, Seq, TurnId
from everyword.log.memory import MemoryLog
from everyword.runtime.directory import LoadedAgent
from everyword.runtime.outbox import ConnectionOutbox
from everyword.runtime.subscription import PAGE, PAGE_BYTES
from everyword.runtime.tail import Committed, Tail
from everyword.testing import ScriptedResponder
from tests.runtime.kit import AGENT, running, submit, watching


def committed(first: int, count: int) -> list[Committed]:
    chunk = Chunk(TurnId(1), Attempt(1), 0, b"{}")  # type: ignore[arg-type]
    return [Committed(Seq(first + number), Millis(0), chunk) for number in range(count)]


async def stream(loaded: LoadedAgent, count: int) -> None:
    """Write `count` chunks into a bare stream, one commit each."""
    await loaded.actor.ask(OpenStream(RequestId("s"), MessageId("m")))
    await loaded.actor.ask(BeginStream(TurnId(1)))
    for _ in range(count):
        await loaded.actor.ask(EmitChunks(TurnId(1), Attempt(1), [Emitted(b'"x"')]))


def test_a_tail_keeps_nothing_without_readers() -> None:
    tail = Tail(Seq(0))
    tail.publish(committed(1, 10))
    assert tail.head == 10
    assert tail.after(Seq(0), 100, 1000) is None


@pytest.mark.parametrize("cursor", range(11))
def test_a_tail_hands_out_what_follows_a_cursor(cursor: int) -> None:
    async def main() -> None:
        tail = Tail(Seq(0))
        tail.join()
        tail.publish(committed(1, 4))
        tail.publish(committed(5, 6))
        page = tail.after(Seq(cursor), 3, 1000)
        assert page is not None
        assert [each.seq for each in page] == list(range(cursor + 1, min(cursor + 4, 11)))

    asyncio.run(main())


def test_a_tail_forgets_the_oldest_and_says_so() -> None:
    async def main() -> None:
        tail = Tail(Seq(0), count=4)
        reader = tail.join()
        tail.publish(committed(1, 10))
        assert tail.after(Seq(0), 100, 1000) is None
        page = tail.after(Seq(6), 100, 1000)
        assert page is not None and [each.seq for each in page] == [7, 8, 9, 10]
        tail.leave(reader)
        assert tail.after(Seq(6), 100, 1000) is None

    asyncio.run(main())


async def test_a_tail_keeps_only_what_a_reader_has_not_read() -> None:
    tail = Tail(Seq(0))
    quick = tail.join()
    tail.set_sink(quick, lambda told: True)
    tail.publish(committed(1, 4))
    assert tail.after(Seq(3), 10, 1000) is None, "all have read it: it is in the log"
    slow = tail.join()
    tail.publish(committed(5, 4))
    tail.publish(committed(9, 1))
    page = tail.after(Seq(4), 10, 1000)
    assert page is not None
    assert [each.seq for each in page] == [5, 6, 7, 8, 9]
    tail.leave(slow)
    tail.set_sink(quick, lambda told: False)
    tail.publish(committed(10, 1))
    assert tail.after(Seq(9), 10, 1000), "who could not be told at once reads it from here"
    tail.set_sink(quick, lambda told: True)
    tail.publish(committed(11, 1))
    assert tail.after(Seq(9), 10, 1000) is None, "by now all have read it"


async def test_a_sink_gets_every_batch_and_its_reader_is_not_woken() -> None:
    tail, handed = Tail(Seq(0)), list[int]()
    reader = tail.join()

    def sink(batch: Sequence[Committed]) -> bool:
        handed.extend(each.seq for each in batch)
        return True

    tail.set_sink(reader, sink)
    tail.publish(committed(1, 2))
    tail.publish(committed(3, 1))
    assert handed == [1, 2, 3]
    assert not reader.is_set()
    tail.set_sink(reader, None)
    tail.publish(committed(4, 1))
    assert handed == [1, 2, 3]
    assert reader.is_set()


async def test_a_sink_that_gave_up_gets_nothing_until_the_reader_waits_again() -> None:
    tail, asked = Tail(Seq(0)), list[int]()
    reader = tail.join()

    def sink(batch: Sequence[Committed]) -> bool:
        asked.append(batch[0].seq)
        return False

    tail.set_sink(reader, sink)
    tail.publish(committed(1, 1))
    tail.publish(committed(2, 1))
    assert asked == [1]
    assert reader.is_set()
    page = tail.after(Seq(0), 10, 1000)
    assert page is not None
    assert [each.seq for each in page] == [1, 2]


async def test_a_reader_is_handed_everything_even_if_the_process_was_stopped_while_others_were_told() -> None:
    tail = Tail(Seq(0))
    tail.join()
    tail.publish(committed(1, 1))
    quick = tail.join()

    def stop(batch: Sequence[Committed]) -> bool:
        raise KeyboardInterrupt

    tail.set_sink(quick, stop)
    with pytest.raises(KeyboardInterrupt):
        tail.publish(committed(2, 1))
    page = tail.after(Seq(1), 10, 1000)
    assert page is not None
    assert [each.seq for each in page] == [2]


async def test_a_reader_that_has_left_has_no_sink() -> None:
    tail = Tail(Seq(0))
    reader = tail.join()
    tail.leave(reader)
    tail.set_sink(reader, lambda told: False)
    tail.publish(committed(1, 1))
    assert not reader.is_set()
    assert tail.readers == 0


async def test_a_tail_keeps_and_hands_out_so_many_bytes_and_at_least_one_event() -> None:
    tail = Tail(Seq(0), size=100)
    tail.join()
    chunk = committed(1, 1)[0].event
    tail.publish([Committed(Seq(seq), Millis(0), chunk, 40) for seq in (1, 2, 3)])
    assert tail.after(Seq(0), 10, 1000) is None
    page = tail.after(Seq(1), 10, 50)
    assert page is not None and [each.seq for each in page] == [2]
    tail.publish([Committed(Seq(4), Millis(0), chunk, 500)])
    page = tail.after(Seq(3), 10, 1)
    assert page is not None and [each.seq for each in page] == [4]


async def test_a_reader_that_fell_behind_memory_is_handed_everything_from_the_store_in_pages() -> None:
    store = MemoryLog()
    async with running(store, ScriptedResponder([])) as directory, directory.attach(AGENT) as loaded:
        async with loaded.subscribe(Seq(0)) as slow:
            await stream(loaded, 1200)
            seen: list[int] = []
            while len(seen) < 1202:
                page = await slow.next()
                assert len(page) <= PAGE
                seen += [each.seq for each in page]
        assert seen == list(range(1, 1203))


async def test_pruned_events_are_a_gap_and_not_an_end() -> None:
    store = MemoryLog()
    async with running(store, ScriptedResponder(["one", "two"])) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.ended(1)
        await store.prune(Millis(10**15))
        async with watching(loaded) as late:
            await late.ended(1)
        assert not any(isinstance(event, Chunk) for event in late.events)


async def test_a_page_has_few_large_events_whether_they_are_in_memory_or_stored() -> None:
    words = ["w" * 300_000 for _ in range(12)]
    async with running(MemoryLog(), ScriptedResponder(words)) as directory, directory.attach(AGENT) as loaded:
        async with loaded.subscribe(Seq(0)) as live, watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.ended(1)
            for subscription in (live, loaded.subscribe(Seq(0))):
                pages = []
                while subscription.cursor < subscription.head:
                    pages.append(await subscription.poll())
                assert sum(map(len, pages)) == subscription.head
                assert max(sum(each.size for each in page) for page in pages if len(page) > 1) <= PAGE_BYTES
                subscription.close()


async def test_an_unreadable_event_is_reported_and_skipped(caplog: pytest.LogCaptureFixture) -> None:
    class Damaged(MemoryLog):
        async def read(self, agent, after, limit=500, *, size=None):  # type: ignore[no-untyped-def]
            rows = await super().read(agent, after, limit, size=size)
            return [type(row)(row.seq, row.at, row.kind, row.turn, b"{" if row.seq == 3 else row.body) for row in rows]

    async with running(Damaged(), ScriptedResponder(["one"])) as directory, directory.attach(AGENT) as loaded:
        async with watching(loaded) as watcher:
            await loaded.actor.ask(submit("r1"))
            await watcher.ended(1)
        async with watching(loaded) as late:
            await late.ended(1)
        assert [each.seq for each in late.seen][:3] == [1, 2, 4]
        assert "unable to read event 3" in caplog.text


async def test_a_direct_frame_never_overtakes_what_was_committed_before_it() -> None:
    async with running(MemoryLog(), ScriptedResponder([])) as directory, directory.attach(AGENT) as loaded:
        async with loaded.subscribe(Seq(0)) as subscription:
            outbox = ConnectionOutbox(subscription)
            outbox.post(b"first")
            await stream(loaded, 3)
            outbox.post(b"second")
            await loaded.actor.ask(EmitChunks(TurnId(1), Attempt(1), [Emitted(b'"x"')]))
            order: list[object] = []
            while len(order) < 8:
                item = await outbox.next()
                order += [item] if isinstance(item, bytes) else [each.seq for each in item]
        assert order == [b"first", 1, 2, 3, 4, 5, b"second", 6]


async def test_a_client_that_does_not_read_its_direct_frames_is_told_to_come_back() -> None:
    async with running(MemoryLog(), ScriptedResponder([])) as directory, directory.attach(AGENT) as loaded:
        async with loaded.subscribe() as subscription:
            outbox = ConnectionOutbox(subscription, limit=2, max_bytes=100)
            outbox.post(b"a")
            outbox.post(b"b")
            with pytest.raises(MailboxFull, match="1013"):
                outbox.post(b"c")
            assert [await outbox.next(), await outbox.next()] == [b"a", b"b"]
            outbox.post(b"x" * 60)
            with pytest.raises(MailboxFull):
                outbox.post(b"x" * 41)


async def test_one_direct_frame_may_be_larger_than_what_may_wait() -> None:
    async with running(MemoryLog(), ScriptedResponder([])) as directory, directory.attach(AGENT) as loaded:
        async with loaded.subscribe() as subscription:
            outbox = ConnectionOutbox(subscription, max_bytes=100)
            outbox.post(b"x" * 101)
            with pytest.raises(MailboxFull):
                outbox.post(b"y")
            assert await outbox.next() == b"x" * 101
            outbox.post(b"y")
            assert await outbox.next() == b"y"


async def test_drain_waits_until_half_is_read_or_the_reader_is_gone() -> None:
    async with running(MemoryLog(), ScriptedResponder([])) as directory, directory.attach(AGENT) as loaded:
        async with loaded.subscribe() as subscription:
            outbox = ConnectionOutbox(subscription, max_bytes=100)
            outbox.post(b"x" * 50)
            await outbox.drain()
            outbox.post(b"y" * 10)
            waiting = asyncio.create_task(outbox.drain())
            await asyncio.sleep(0)
            assert not waiting.done()
            assert await outbox.next() == b"x" * 50
            await waiting
            outbox.post(b"z" * 90)
            waiting = asyncio.create_task(outbox.drain())
            await asyncio.sleep(0)
            assert not waiting.done()
            outbox.close()
            await waiting


async def test_readers_of_an_unloaded_agent_get_everything_and_are_then_told() -> None:
    async with running(MemoryLog(), ScriptedResponder([])) as directory, directory.attach(AGENT) as loaded:
        async with loaded.subscribe(Seq(0)) as subscription:
            await stream(loaded, 2)
            loaded.actor.stop()
            assert len(await subscription.next()) == 4
            with pytest.raises(AgentStopped):
                await subscription.next()

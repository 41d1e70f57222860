"""Streams over a real link: order, credit, and how they end."""

from __future__ import annotations

import asyncio
import random
from struct import pack

import pytest

from everyword.cluster.frame_writer import MOST_PENDING
from everyword.cluster.link_frames import CREDIT, DATA, OPEN
from everyword.cluster.settings import LinkSettings
from everyword.cluster.streams import LONGEST_RECORD, RECORD_COST, WINDOW, LinkStream
from everyword.errors import BadLinkFrame, LinkBusy, LinkLost, RemoteError
from tests.cluster.kit import PATIENCE, PATIENT, Pair, Proxy, Streams, linked, nodes, soon, until


async def ends(pair: Pair, services: Streams) -> tuple[LinkStream, LinkStream]:
    """Return both ends of a new stream, the edge's first."""
    near = (await pair.dial()).open(b"x")
    return near, await services.next()


async def rest_of(stream: LinkStream) -> list[bytes]:
    found = []
    async with asyncio.timeout(PATIENCE):
        while (record := await stream.receive()) is not None:
            found.append(record)
    return found


async def test_records_arrive_in_order_in_both_directions() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        for number in range(50):
            await near.send(b"up ", b"%d" % number)
            await far.send(b"down %d" % number)
        near.finish(b"bye")
        far.finish()
        assert await rest_of(far) == [b"up %d" % number for number in range(50)]
        assert await rest_of(near) == [b"down %d" % number for number in range(50)]
        assert far.ended.result() == b"bye" and near.ended.result() == b""
        assert (await pair.dial()).open_streams == 0


async def test_a_slow_reader_holds_the_writer_and_memory_is_bounded() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        sent = 0

        async def write() -> None:
            nonlocal sent
            for number in range(2000):
                await near.send(pack(">I", number) + b"x" * 5000)
                sent += 1
            near.finish()

        writing = asyncio.create_task(write())
        for taken in range(0, 2000, 100):
            await until(lambda: near._room is not None or writing.done())  # it waits for credit
            await until(lambda: far._unread + near._credit == WINDOW)  # everything has arrived
            assert (sent - taken) * (5004 + RECORD_COST) <= WINDOW
            assert sum(map(len, far._records)) <= WINDOW
            for number in range(taken, taken + 100):
                record = await soon(far.receive())
                assert record is not None and record[:4] == pack(">I", number)
        assert await soon(far.receive()) is None
        await soon(writing)


async def test_records_without_content_are_counted_too() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        count = 0
        while near.write(b""):
            count += 1
        assert count == WINDOW // RECORD_COST
        await until(lambda: len(far._records) == count)


async def test_a_peer_that_sends_more_than_it_was_granted_is_cut() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        near._credit = 10 * WINDOW
        while near._credit > 8 * WINDOW:
            assert near.write(b"x" * 1000)
        failure = await soon(far.broken)
        assert isinstance(failure, BadLinkFrame) and "had no credit" in str(failure)
        assert far._unread <= WINDOW + 1000 + RECORD_COST
        assert isinstance(await soon(near.broken), LinkLost)


@pytest.mark.parametrize("payload", [pack(">I", 1), b"", b"abc", pack(">I", 2**32 - 1)])
async def test_credit_beyond_the_window_is_refused(payload: bytes) -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        near._writer.put(CREDIT, near.number, payload)
        assert isinstance(await soon(far.broken), BadLinkFrame)


async def test_many_streams_share_a_link_and_one_that_is_slow_holds_up_no_other() -> None:
    services, draw = Streams(), random.Random(7)
    async with nodes(services) as pair:
        link = await pair.dial()
        slow, _ = await ends(pair, services)
        while slow.write(b"x" * 1000):
            pass
        near = [link.open(b"x") for _ in range(60)]
        far = {stream.number: stream for stream in [await services.next() for _ in near]}
        sizes = {stream.number: [draw.randrange(20_000) for _ in range(40)] for stream in near}

        async def write(stream: LinkStream) -> None:
            for number, size in enumerate(sizes[stream.number]):
                await stream.send(pack(">II", stream.number, number), b"x" * size)
            stream.finish()

        async def read(stream: LinkStream) -> list[tuple[bytes, int]]:
            found = [(record[:8], len(record) - 8) for record in await rest_of(stream)]
            stream.finish()
            return found

        found, *_ = await soon(
            asyncio.gather(asyncio.gather(*map(read, far.values())), *map(write, near)),
        )
        for stream, records in zip(far.values(), found, strict=True):
            assert records == [(pack(">II", stream.number, n), size) for n, size in enumerate(sizes[stream.number])]
        await until(lambda: link.open_streams == 1)


async def test_the_records_of_one_message_stay_together() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        part = b"x" * (LONGEST_RECORD - 1)
        overtaken: list[bool] = []  # by a record that does not wait

        async def send(who: bytes) -> None:
            await near.send_all([(who, part)] * 10)
            if who != b"2":
                overtaken.append(near.write(b"9"))

        long = [asyncio.create_task(send(who)) for who in (b"0", b"1", b"2")]
        await until(lambda: near._room is not None)
        overtaken.append(near.write(b"9"))
        short = asyncio.create_task(near.send(b"3"))
        found = [(await soon(far.receive()))[:1] for _ in range(31)]
        await soon(asyncio.gather(*long, short))
        assert b"".join(found) == b"0" * 10 + b"1" * 10 + b"2" * 10 + b"3"
        assert overtaken == [False, False, False]


async def test_what_is_written_in_one_iteration_is_one_system_call() -> None:
    services = Streams()
    async with nodes(services) as pair:
        link = await pair.dial()
        near = [link.open(b"x") for _ in range(20)]
        far = [await services.next() for _ in near]
        writes: list[int] = []
        transport = link._writer._transport
        assert transport is not None
        link._writer._transport = _Counting(transport, writes)  # type: ignore[assignment]
        for stream in near:
            for _ in range(5):
                assert stream.write(b"record")
        for stream in far:
            for _ in range(5):
                assert await soon(stream.receive()) == b"record"
        assert len(writes) == 1


class _Counting:
    def __init__(self, transport: asyncio.Transport, writes: list[int]) -> None:
        self._transport, self._writes = transport, writes

    def write(self, data: bytes) -> None:
        self._writes.append(len(data))
        self._transport.write(data)


async def test_a_sink_takes_records_as_they_arrive_and_returns_what_it_cannot_take() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        taken: list[bytes] = []

        def sink(record: bytes) -> bytes | None:
            if len(taken) == 3:
                return record[1:]
            taken.append(record)
            return None

        reading = asyncio.create_task(far.receive(sink))
        for number in range(6):
            await near.send(b"-%d" % number)
        near.finish()
        assert await soon(reading) == b"3"
        assert taken == [b"-0", b"-1", b"-2"]
        assert await rest_of(far) == [b"-4", b"-5"]


async def test_credit_comes_back_for_what_a_sink_takes() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        reading = asyncio.create_task(far.receive(lambda record: None))
        for _ in range(100):
            await soon(near.send(b"x" * 50_000))
        near.finish()
        assert await soon(reading) is None


async def test_a_reset_ends_both_directions_at_once() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        await near.send(b"not read")
        await until(lambda: far._records)
        waiting = asyncio.create_task(near.receive())
        near.reset()
        await soon(far.broken)
        for stream in (near, far):
            with pytest.raises(RemoteError, match="gave up the stream"):
                await soon(stream.receive())
            with pytest.raises(RemoteError, match="gave up the stream"):
                stream.write(b"x")
        with pytest.raises(RemoteError):
            await soon(waiting)
        assert (await pair.dial()).open_streams == 0


async def test_a_closed_stream_can_be_read_to_its_end_and_not_written() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        while far.write(b"x" * 50_000):
            pass
        stuck = asyncio.create_task(far.send(b"x" * 50_000))
        await until(lambda: far._room is not None)
        await near.send(b"last words")
        near.close(b"bye")
        with pytest.raises(LinkLost, match="it was closed"):
            await soon(stuck)
        with pytest.raises(LinkLost, match="it was closed"):
            far.write(b"x")
        assert await rest_of(far) == [b"last words"]
        assert far.ended.result() == b"bye"
        assert (await pair.owner_end()).open_streams == 0


async def test_a_lost_link_wakes_readers_and_writers() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        while near.write(b"x" * 10_000):
            pass
        writing, reading = asyncio.create_task(near.send(b"x" * 60_000)), asyncio.create_task(near.receive())
        await until(lambda: near._room is not None and near._news is not None)
        (await pair.dial()).abort("the test says so")
        for task in (writing, reading):
            with pytest.raises(LinkLost, match="the test says so"):
                await soon(task)
        await soon(far.broken)


async def test_a_finished_stream_is_read_to_its_end_after_the_link_is_lost() -> None:
    services = Streams()
    async with nodes(services) as pair:
        near, far = await ends(pair, services)
        await near.send(b"one")
        near.finish(b"done")
        await until(far.ended.done)
        (await pair.dial()).abort("the test says so")
        await soon(far.broken)
        assert await rest_of(far) == [b"one"]


async def test_the_number_of_streams_is_limited_on_both_ends() -> None:
    services = Streams()
    few = LinkSettings(streams=3, connect_seconds=PATIENCE, silent_seconds=PATIENCE)
    async with linked(services, settings=few) as link:
        streams = [link.open(b"x") for _ in range(3)]
        with pytest.raises(LinkBusy, match="3 are open on this link"):
            link.open(b"x")
        link._streams._most = 4
        refused = link.open(b"x")
        failure = await soon(refused.broken)
        assert isinstance(failure, RemoteError) and failure.remote_code == "link_busy"
        streams[0].reset()
        link.open(b"x")
        assert link.is_usable


@pytest.mark.parametrize("number", [0, 2, 1])
async def test_a_stream_with_a_number_that_is_not_the_peers_cuts_the_link(number: int) -> None:
    services = Streams()
    async with linked(services) as link:
        link.open(b"x")
        link._writer.put(OPEN, number, b"x")
        assert isinstance(await soon(link.lost), LinkLost)


async def test_frames_of_a_stream_that_is_closed_are_ignored() -> None:
    services = Streams()
    async with linked(services) as link:
        link._writer.put(DATA, 99, b"x" * 100)
        link._writer.put(CREDIT, 99, b"")
        near = link.open(b"x")
        far = await services.next()
        await near.send(b"fine")
        assert await soon(far.receive()) == b"fine"


async def test_numbers_begin_again_behind_the_last_one() -> None:
    services = Streams()
    async with linked(services) as link:
        kept = link.open(b"x")
        link._streams._next = 2**32 - 1
        assert [link.open(b"x").number for _ in range(3)] == [2**32 - 1, 3, 5]
        assert kept.number == 1


async def test_a_link_that_is_stuck_holds_its_writers_and_memory_is_bounded() -> None:
    services = Streams()
    async with nodes(services, settings=PATIENT) as pair, Proxy.before(pair.address) as (proxy, address):
        pair.address = address
        link = await pair.dial()
        near = [link.open(b"x") for _ in range(100)]
        far = [await services.next() for _ in near]
        proxy.stick()

        async def write(stream: LinkStream) -> None:
            for _ in range(4):
                await stream.send(b"x" * 60_000)
            stream.finish()

        writing = [asyncio.create_task(write(stream)) for stream in near]
        await until(lambda: link._writer._is_paused)
        for _ in range(10):
            await asyncio.sleep(0)
        assert not link._writer.has_room
        assert not link.hint("topic", b"dropped")
        transport = link._writer._transport
        assert transport is not None
        assert transport.get_write_buffer_size() <= 2 * MOST_PENDING + 2 * LONGEST_RECORD
        proxy.unstick()
        for stream in far:
            assert len(await rest_of(stream)) == 4
        await soon(asyncio.gather(*writing))
        assert link.hint("topic", b"taken")
        await until(lambda: services.hints)

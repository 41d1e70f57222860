"""Rows of many agents in one commit: few statements, the last word on each, and nothing that goes without saying."""

from __future__ import annotations

import asyncio
from pathlib import Path

from everyword.events import TurnKind
from everyword.ids import AgentId, Generation, Millis, NodeId
from everyword.log.base import Batch
from everyword.log.sqlite.row_codec import PermanentEvent
from everyword.log.sqlite.store import SqliteLog
from everyword.rows import RowsCleared, RowsRemoved
from tests.log.building import (
    FOREVER,
    A,
    B,
    Owner,
    agent_row,
    append_one,
    chunk,
    ended_row,
    fact,
    message_row,
    read_all,
    turn_row,
)
from tests.log.sqlite.faults import Faults, change, hold_writer, look, opened

LONG = b'{"id":"m2","words":"%b"}' % (b"a long answer " * 100)


async def together(store: SqliteLog, faults: Faults, *batches: Batch) -> None:
    """Append all of them in one transaction."""
    faults.executed.clear()
    await asyncio.gather(*store.append(batches))
    assert faults.executed.count("COMMIT") == 1


async def test_rows_of_a_hundred_agents_take_a_few_statements(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owners = [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(100)]
        rows = [turn_row(1), message_row(1), message_row(2), agent_row(last_turn=1)]
        batches = [owner.batch(fact("turn.accepted", 1), rows=rows, wake=Millis(0)) for owner in owners]
        await together(store, faults, *batches)
        counts = {name: faults.executed.count(name) for name in ("put_turn", "put_message", "put_agents")}
        assert counts == {"put_turn": 3, "put_message": 4, "put_agents": 3}  # 64 + 32 + 4, and 64 + 64 + 64 + 8
        assert [len((await store.conversation(owner.agent))[1]) for owner in owners] == [2] * 100
        assert [len(await store.turns(owner.agent)) for owner in owners] == [1] * 100
        assert (await store.conversation(owners[99].agent))[0] == agent_row(last_turn=1)


async def test_two_batches_of_one_agent_in_a_transaction_say_what_they_would_say_in_two(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        rows = [turn_row(1), message_row(2, body=None)]
        begun = owner.batch(fact("turn.accepted", 1), chunk(1, 0), rows=rows, wake=Millis(0))
        owner.head += 2
        said = owner.batch(chunk(1, 1), fact("turn.ended", 1), rows=[ended_row(1, 2), message_row(2)], wake=None)
        await together(store, faults, begun, said)
        assert look(tmp_path, "SELECT status, first_seq, last_seq FROM turn") == [("completed", 1, 4)]
        assert (await store.conversation(A))[1] == [message_row(2)]
        assert await store.due(FOREVER) == []


async def test_what_is_removed_and_put_again_in_a_transaction_is_there(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        before = [each.batch(fact("x"), rows=[message_row(1), message_row(2)]) for each in (owner, other)]
        owner.head += 1
        other.head += 1
        removed = owner.batch(fact("y"), rows=[RowsRemoved([NodeId(1)]), message_row(3)])
        cleared = other.batch(fact("y"), rows=[RowsCleared(Generation(1)), message_row(4)])
        await together(store, faults, *before, removed, cleared)
        assert (await store.conversation(A))[1] == [message_row(2), message_row(3)]
        assert (await store.conversation(B))[1] == [message_row(4)]


async def test_a_lease_taken_in_the_transaction_of_a_batch_knows_of_it(tmp_path: Path) -> None:
    faults = Faults()
    async with opened(tmp_path, faults) as store:
        owner = await Owner.take(store)
        batch = owner.batch(fact("turn.accepted", 1), chunk(1, 0), rows=[turn_row(1)], wake=Millis(7))
        release = await hold_writer(store, faults)
        receipt, loading = append_one(store, batch), asyncio.ensure_future(store.activate(A))
        await asyncio.sleep(0)
        release()
        _, loaded = await receipt, await loading
        assert (loaded.head, [row.turn for row in loaded.turns]) == (2, [1])
        later = Owner(store, A, loaded)
        await later.append(fact("turn.ended", 1), rows=[ended_row(1, 2)], wake=None)
        assert look(tmp_path, "SELECT first_seq, last_seq FROM turn") == [(1, 3)]
        assert await store.due(FOREVER) == []


async def test_that_a_running_turn_is_to_be_gone_on_with_goes_without_saying(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for status in ("running", "cancelling"):
            await owner.append(fact("x", 1), rows=[turn_row(1, status)], wake=Millis(0))
            assert look(tmp_path, "SELECT * FROM wake") == []
            assert (await store.due(Millis(0)), await store.next_wake()) == ([(A, 0)], 0)
        await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 2, hook_due=True)])
        assert look(tmp_path, "SELECT at FROM wake") == [(0,)], "its hook is still due"
        assert await store.due(FOREVER) == [(A, 0)]
        await owner.append(fact("hook.done", 1), rows=[ended_row(1, 2)], wake=None)
        assert look(tmp_path, "SELECT * FROM wake") == []
        assert (await store.due(FOREVER), await store.next_wake()) == ([], None)


async def test_an_agent_that_runs_a_turn_may_want_another_time_or_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("x", 1), rows=[turn_row(1)], wake=Millis(9))
        assert (await store.due(FOREVER), await store.next_wake()) == ([(A, 9)], 9)
        await owner.append(fact("x", 1), wake=None)
        assert (await store.due(FOREVER), await store.next_wake()) == ([], None)
        again = await Owner.take(store)
        await again.append(fact("x", 1), rows=[turn_row(1, "accepted")])
        assert (await store.due(FOREVER), look(tmp_path, "SELECT * FROM wake")) == ([], [])
        await again.append(fact("x", 1), rows=[turn_row(1)], wake=Millis(0))
        assert await store.due(FOREVER) == [(A, 0)]


async def test_a_bare_stream_sets_no_wake_time_and_writes_none(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("x", 1), rows=[turn_row(1, kind=TurnKind.RSM)], wake=None)
        assert (await store.due(FOREVER), look(tmp_path, "SELECT * FROM wake")) == ([], [])


async def test_a_large_body_that_its_event_has_is_stored_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        event = fact(
            "message.ended", 1, b'{"t":"message.ended","turn":1,"node":2,"message":%b,"sanitized":true}' % LONG
        )
        await owner.append(fact("x"), event, fact("turn.ended", 1), rows=[message_row(2, body=LONG)])
        assert (await store.conversation(A))[1] == [message_row(2, body=LONG)]
        assert look(tmp_path, "SELECT body, event, size FROM message") == [(None, 2, len(LONG))]
        assert list((await store.activate(A)).messages) == [message_row(2, body=LONG)]
    async with opened(tmp_path) as store:
        assert (await store.conversation(A))[1] == [message_row(2, body=LONG)]


async def test_a_large_body_that_no_event_of_its_batch_has_lies_in_its_row(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        event = fact("message.ended", 1, b'{"message":%b}' % LONG)
        await owner.append(event, rows=[message_row(2, body=LONG)])
        await owner.append(fact("call.answered", 1), rows=[message_row(2, body=LONG + b" ")])
        await owner.append(chunk(1, 0, LONG.decode()), rows=[message_row(3, body=LONG)])
        assert [row.body for row in (await store.conversation(A))[1]] == [LONG + b" ", LONG]
        assert look(tmp_path, "SELECT length(body), event FROM message") == [(len(LONG) + 1, None), (len(LONG), None)]


async def test_many_large_bodies_of_one_event_are_each_stored_once(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        bodies = [b'{"id":"m%d","words":"%b"}' % (n, b"many words " * 100) for n in range(20)]
        rows = [message_row(n, body=body) for n, body in enumerate(bodies)]
        await owner.append(fact("messages.put", body=b'{"messages":[%b]}' % b",".join(bodies)), rows=rows)
        assert look(tmp_path, "SELECT count(*) FROM message WHERE event = 1 AND body IS NULL") == [(20,)]
        assert (await store.conversation(A))[1] == rows


def test_an_event_is_looked_through_once_however_many_bodies_it_lacks() -> None:
    bodies = [b"%d" % n * 2000 for n in range(1, 5)]
    event = PermanentEvent(7, b"".join(bodies))
    assert [event.find(body) for body in bodies[:2]] == [0, 2000]
    assert event.find(b"not there") == -1
    assert event.find(bodies[3]) == -1, "it was given up"


async def test_a_small_body_lies_in_its_row(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        small = b'{"id":"m"}'
        await owner.append(fact("message.ended", 1, b'{"message":%b}' % small), rows=[message_row(2, body=small)])
        assert look(tmp_path, "SELECT body, event FROM message") == [(small, None)]


async def test_a_body_whose_event_is_gone_is_missing_only_in_its_message(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        event = fact("message.ended", 1, b'{"message":%b}' % LONG)
        await owner.append(event, rows=[message_row(1), message_row(2, body=LONG)])
        change(tmp_path, "UPDATE message SET event = 99 WHERE node = 2")
        assert (await store.conversation(A))[1] == [message_row(1), message_row(2, body=None)]


async def test_a_file_that_does_not_know_how_far_it_was_carried_over_is_read_from_the_beginning(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        await (await Owner.take(store)).append(fact("x"))
    change(tmp_path, "UPDATE store SET scanned = 'x', pruned = 'y'")
    async with opened(tmp_path) as store:
        assert ((await Owner.take(store)).head, len(await read_all(store))) == (1, 1)

"""What every store must do. Subclass `LogContract`, name the kind of store and its options, and it is tested.

A store that is closed and made again must have what it had before.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from everyword.errors import Fenced, LogError, LogUnavailable, UsageError
from everyword.events import TurnKind
from everyword.ids import AgentId, Millis, NodeId, RequestId, Seq, TurnId, children_prefix
from everyword.log.base import Pruned
from everyword.rows import Row, RowsCleared, RowsRemoved
from tests.log.building import (
    FOREVER,
    A,
    B,
    C,
    Owner,
    agent_row,
    append_one,
    chunk,
    chunks,
    drain,
    ended_row,
    fact,
    message_row,
    read_all,
    seqs,
    turn_row,
)
from tests.log.states import StatesContract

FULL_TURN = turn_row(
    7,
    "error",
    kind=TurnKind.CONTINUATION,
    request=RequestId("r/ü"),
    generation=3,
    chunks=5,
    reason="crash",
    error="it broke",
    detail="Traceback",
    finish_reason="stop",
    usage=b'{"tokens":1}',
    ended_at=Millis(9),
    hook_due=True,
)


class LogContract(StatesContract):
    """The contract, one sentence per test."""

    # Leases

    async def test_a_new_agent_is_empty(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            activation = await store.activate(A)
            assert (activation.epoch, activation.head, activation.agent) == (1, 0, None)
            assert [*activation.turns, *activation.messages, *activation.chunks] == []

    async def test_every_activation_has_a_higher_epoch(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            await store.activate(B)
            assert [(await store.activate(A)).epoch for _ in range(3)] == [1, 2, 3]
        async with self.opened(tmp_path) as store:
            assert (await store.activate(A)).epoch == 4

    async def test_an_owner_whose_lease_was_taken_cannot_append(self, tmp_path: Path) -> None:
        """P-3."""
        async with self.opened(tmp_path) as store:
            old = await Owner.take(store)
            await old.append(fact("one"))
            new = await Owner.take(store)
            with pytest.raises(Fenced, match="chat/a"):
                await old.append(fact("lost"), rows=[message_row(1)], wake=Millis(1))
            await new.append(fact("two"))
            with pytest.raises(Fenced):
                await old.append(fact("lost again"))
            assert [each.kind for each in await store.read(A, Seq(0))] == ["one", "two"]
            assert ((await store.conversation(A))[1], await store.next_wake()) == ([], None)

    async def test_a_lease_is_fenced_by_an_activation_that_waits_in_the_same_moment(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            old = await Owner.take(store)
            taken, refused = await asyncio.gather(
                store.activate(A), append_one(store, old.batch(fact("late"))), return_exceptions=True
            )
            written = await store.read(A, Seq(0))
            assert not isinstance(taken, BaseException)
            if isinstance(refused, Fenced):
                assert (taken.head, written) == (0, [])
            else:  # it was in time: then the activation must know
                assert (refused, taken.head, seqs(written)) == (None, 1, [1])

    async def test_an_agent_without_a_lease_cannot_be_appended_to(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            owner.agent = B
            with pytest.raises(Fenced, match="chat/b"):
                await owner.append(fact("one"))
            assert await store.agents() == []

    async def test_an_epoch_of_the_future_is_fenced_too(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            with pytest.raises(Fenced):
                await owner.append(fact("one"), epoch=2)
            await owner.append(fact("one"))
            assert seqs(await store.read(A, Seq(0))) == [1]

    # Seqs

    @pytest.mark.parametrize("first", [0, 1, 2, 4, 5])
    async def test_a_batch_that_does_not_begin_at_the_head_is_refused(self, tmp_path: Path, first: int) -> None:
        """P-2."""
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("one"), fact("two"))
            with pytest.raises(LogUnavailable, match=f"begins at {first}"):
                await owner.append(fact("x"), first=first, rows=[message_row(1)], wake=Millis(1))
            await owner.append(fact("three"))
            assert [(each.seq, each.kind) for each in await read_all(store)] == [(1, "one"), (2, "two"), (3, "three")]
            assert ((await store.conversation(A))[1], await store.next_wake()) == ([], None)

    async def test_batches_in_flight_together_are_stored_in_order(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owners = [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(5)]
            batches = [owner.batch(chunk(1, n), first=n) for n in range(1, 41) for owner in owners]
            await asyncio.gather(*store.append(batches))
            for owner in owners:
                assert seqs(await read_all(store, owner.agent)) == list(range(1, 41))

    async def test_what_follows_a_refused_batch_is_refused_as_well(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("end", 1), rows=[ended_row(1, 1)])
            bad = owner.batch(fact("again", 1), rows=[ended_row(1, 2)])
            after = owner.batch(fact("next"), first=bad.first + 1)
            results = await asyncio.gather(*store.append([bad, after]), return_exceptions=True)
            assert [type(each) for each in results] == [LogUnavailable, LogUnavailable]
            assert seqs(await read_all(store)) == [1]

    # All or nothing

    async def test_a_request_is_accepted_once_and_for_ever(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            await owner.append(fact("one", 1), rows=[ended_row(1, 1)])
            again = turn_row(2, request=RequestId("r1"))
            with pytest.raises(LogUnavailable):
                await owner.append(fact("two", 2), rows=[message_row(4), again], wake=Millis(5))
            assert (seqs(await read_all(store)), (await store.conversation(A))[1], await store.next_wake()) == (
                [1],
                [],
                None,
            )
            await other.append(fact("one", 2), rows=[again])  # another agent's requests are its own
            await owner.append(fact("two", 2), rows=[turn_row(2)])
            assert seqs(await read_all(store)) == [1, 2]

    @pytest.mark.parametrize(
        "change", [{"status": "error"}, {"ended_at": Millis(8)}, {"ended_at": None}, {"error": "x"}, {"reason": "x"}]
    )
    async def test_the_ending_of_a_turn_never_changes(self, tmp_path: Path, change: dict[str, Any]) -> None:
        """P-1."""
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            row = ended_row(1, 7)
            await owner.append(fact("turn.ended", 1), rows=[row])
            with pytest.raises(LogUnavailable, match="ends once"):
                await owner.append(
                    fact("x", 1),
                    fact("y"),
                    rows=[message_row(1), msgspec.structs.replace(row, **change)],
                    wake=Millis(3),
                )
            assert (seqs(await read_all(store)), await store.turns(A)) == ([1], [row])
            assert ((await store.conversation(A))[1], await store.next_wake()) == ([], None)

    async def test_an_ended_turn_may_still_learn_that_its_hook_ran(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 7, hook_due=True)])
            await owner.append(fact("hook.done", 1), rows=[ended_row(1, 7)])
            assert await store.turns(A) == [ended_row(1, 7)]

    async def test_one_bad_batch_among_many_does_not_affect_the_others(self, tmp_path: Path) -> None:
        """P-4."""
        async with self.opened(tmp_path) as store:
            owners = [await Owner.take(store, AgentId(f"chat/{n}")) for n in range(20)]
            for owner in owners:
                await owner.append(fact("turn.ended", 1), rows=[ended_row(1, 1)])
            bad = {3, 11, 12}
            batches = [
                owner.batch(chunk(1, 0), rows=[ended_row(1, 2)] if n in bad else ()) for n, owner in enumerate(owners)
            ]
            results = await asyncio.gather(*store.append(batches), return_exceptions=True)
            assert {n for n, result in enumerate(results) if isinstance(result, LogUnavailable)} == bad
            for n, owner in enumerate(owners):
                assert seqs(await read_all(store, owner.agent)) == ([1] if n in bad else [1, 2])

    async def test_rows_may_come_without_events(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(rows=[message_row(1)], wake=Millis(4))
            assert ((await store.conversation(A))[1], await store.next_wake()) == ([message_row(1)], 4)
            assert (await store.activate(A)).head == 0

    # Rows

    async def test_every_field_of_every_row_comes_back(self, tmp_path: Path) -> None:
        message = message_row(5, parent=NodeId(3), role="assistant", body=None, draft=b"\x00\xff", at=Millis(2**45))
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("x"), rows=[FULL_TURN, message, agent_row(3, 5, 7, 14)])
            assert await store.turns(A) == [FULL_TURN]
            assert await store.find_turn(A, RequestId("r/ü")) == FULL_TURN
            assert await store.conversation(A) == (agent_row(3, 5, 7, 14), [message])
            assert await store.conversation(B) == (None, [])
        async with self.opened(tmp_path) as store:
            activation = await store.activate(A)
            assert (activation.turns, activation.messages) == ([FULL_TURN], [message])
            assert activation.agent == agent_row(3, 5, 7, 14)

    async def test_a_conversation_is_read_as_of_one_moment(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)

            async def write() -> None:
                for node in range(1, 60):
                    await owner.append(fact("x"), rows=[message_row(node), agent_row(leaf=node)])

            writing = asyncio.create_task(write())
            leaves = []
            while not writing.done():
                await asyncio.sleep(0)
                row, messages = await store.conversation(A)
                newest = max((message.node for message in messages), default=None)
                assert (row.leaf if row is not None else None) == newest
                leaves.append(newest)
            await writing
            assert len(set(leaves)) > 1, "it changed meanwhile"

    async def test_a_row_replaces_the_one_with_its_key(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            await owner.append(fact("x"), rows=[turn_row(1, "accepted"), message_row(2), message_row(1), agent_row()])
            await other.append(fact("x"), rows=[message_row(2, role="other")])
            changed = [turn_row(1, "cancelling"), message_row(2, body=b"new", parent=NodeId(1)), agent_row(leaf=2)]
            await owner.append(fact("y"), rows=changed)
            assert await store.turns(A) == changed[:1]
            assert await store.conversation(A) == (changed[2], [message_row(1), changed[1]])
            assert (await store.conversation(B))[1] == [message_row(2, role="other")]

    async def test_the_last_of_several_rows_with_one_key_counts(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("x"), rows=[turn_row(1, "accepted"), turn_row(1), ended_row(1, 3)])
            assert await store.turns(A) == [ended_row(1, 3)]

    async def test_message_rows_are_removed_and_cleared_and_turns_stay(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            for each in (owner, other):
                await each.append(fact("x"), rows=[turn_row(1), *(message_row(n) for n in range(1, 5))])
            await owner.append(fact("y"), rows=[RowsRemoved([NodeId(2), NodeId(4), NodeId(99)])])
            assert [row.node for row in (await store.conversation(A))[1]] == [1, 3]
            await owner.append(fact("z"), rows=[RowsCleared(agent_row(1).generation), message_row(9), agent_row(1)])
            assert [row.node for row in (await store.conversation(A))[1]] == [9]
            assert await store.turns(A) == [turn_row(1)]
            assert len((await store.conversation(B))[1]) == 4

    # Activation

    async def test_activation_loads_the_chunks_and_answers_of_open_turns_only(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.answer(1, 3, ended_at=5)
            await owner.answer(2, 2)
            await owner.append(fact("turn.accepted", 3), rows=[turn_row(3, "accepted", attempt=0)])
            await owner.append(fact("call.answered", 2), chunk(2, 2), fact("call.answered"), fact("messages.put", 2))
            await owner.append(chunk(3, 0))
            activation = await store.activate(A)
            kinds = [(each.kind, each.turn) for each in activation.chunks]
            streamed = [("chunk", 2), ("chunk", 2), ("call.answered", 2), ("chunk", 2), ("chunk", 3)]
            assert kinds == [("attempt.started", 2), *streamed]
            assert seqs(activation.chunks) == sorted(seqs(activation.chunks))
            assert activation.head == owner.head
            everything = {each.seq: each for each in await read_all(store)}
            assert all(everything[each.seq] == each for each in activation.chunks)

    async def test_activation_loads_open_turns_however_old_and_the_newest_ended_ones(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            rows = [turn_row(n) if n in (1, 4) else ended_row(n, n) for n in range(1, 9)]
            await owner.append(fact("x"), rows=rows)
            for recent, expected in ((0, [1, 4]), (2, [1, 4, 7, 8]), (6, list(range(1, 9))), (256, list(range(1, 9)))):
                assert [row.turn for row in (await store.activate(A, recent=recent)).turns] == expected

    async def test_the_head_is_exact_however_the_log_ended(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            await owner.answer(1, 3)
            await other.answer(1, 1, ended_at=3)
        for more in range(3):
            async with self.opened(tmp_path) as store:
                owner, other = await Owner.take(store), await Owner.take(store, B)
                assert (owner.head, other.head) == (5 + more, 5)
                assert len(owner.activation.chunks) == 4 + more
                await owner.append(chunk(1, 3 + more))

    # Reading

    async def test_activation_has_the_time_of_the_last_event(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            assert owner.activation.last_at == 0
            await owner.append(fact("x"), at=70)
            await owner.append(*chunks(1, 3), rows=[turn_row(1)], at=50)
            assert (await store.activate(A)).last_at == 50
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            assert owner.activation.last_at == 50
            await owner.append(fact("agent.destroyed"), at=99)
            await store.destroy(A, owner.epoch)
            assert (await store.activate(A)).last_at == 0

    async def test_reading_pages_from_every_cursor_gives_the_same_events(self, tmp_path: Path) -> None:
        """P-7."""
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            expected = []
            for n in range(1, 301):
                entries = [chunk(1, 2 * n), fact("fact", None, b"%d" % n)]
                await owner.append(*entries, at=n)
                if n % 3 == 0:
                    await other.append(chunk(9, n))
                expected += [(2 * n - 1, n, "chunk", 1, entries[0].body), (2 * n, n, "fact", None, entries[1].body)]
            for after in (0, 1, 254, 255, 256, 257, 511, 512, 513, 599, 600, 601, 10_000):
                for limit in (1, 7, 256, 500):
                    page = await store.read(A, Seq(after), limit)
                    assert [msgspec.structs.astuple(each) for each in page] == expected[after : after + limit]
            assert seqs(await read_all(store, limit=37)) == list(range(1, 601))
            assert seqs(await read_all(store, B, limit=1)) == list(range(1, 101))

    async def test_a_turn_is_read_without_the_chunks_of_others(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("turn.accepted", 1), chunk(1, 0), rows=[turn_row(1)])
            await owner.append(fact("turn.accepted", 2), rows=[turn_row(2, "accepted", attempt=0)])
            await owner.append(chunk(1, 1), fact("call.answered", 1))
            await owner.append(fact("attempt.started", 2), rows=[turn_row(2)])
            await owner.append(chunk(2, 0), chunk(1, 2), chunk(2, 1))
            for attempt in (2, 3):
                await owner.append(fact("attempt.started", 2), rows=[turn_row(2, attempt=attempt)])
            await owner.append(chunk(1, 3), fact("turn.ended", 1), rows=[ended_row(1, 4)])
            await owner.append(chunk(2, 2))
            await owner.append(fact("hook.done", 1), rows=[ended_row(1, 4, hook_due=True)])
            await owner.append(chunk(2, 3), fact("turn.ended", 2), rows=[ended_row(2, 5)])
            assert [each.body for each in await store.read_turn(A, TurnId(1))] == [e.body for e in chunks(1, 4)]
            assert [each.body for each in await store.read_turn(A, TurnId(2))] == [e.body for e in chunks(2, 4)]
            assert await store.read_turn(A, TurnId(3)) == []

    async def test_bodies_come_back_byte_for_byte(self, tmp_path: Path) -> None:
        """P-6."""
        bodies = [b"", b"\x00\xff\xfe not json", '{"text":"ü…\u2028"}'.encode(), b"x" * 3_000_000]
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(*(fact("x", None, body) for body in bodies))
            assert [each.body for each in await store.read(A, Seq(0))] == bodies

    async def test_an_unknown_agent_reads_as_empty_and_does_not_come_to_be(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            assert await store.read(A, Seq(0)) == []
            assert await store.read_turn(A, TurnId(1)) == []
            assert await store.turns(A) == []
            assert (await store.conversation(A), await store.find_turn(A, RequestId("r"))) == ((None, []), None)
            assert (await store.agents(), await store.next_wake(), await store.due(FOREVER)) == ([], None, [])
            assert (await store.activate(A)).epoch == 1

    async def test_a_reader_sees_what_was_acknowledged_and_nothing_else(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            for n in range(1, 60):
                await owner.append(chunk(1, n))
                assert seqs(await store.read(A, Seq(n - 3)))[-1] == n

    # Retention

    async def test_only_chunks_of_turns_that_ended_long_enough_ago_are_pruned(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            await owner.answer(1, 4, ended_at=10)
            await other.answer(1, 4, ended_at=20, kind=TurnKind.RSM)
            await owner.answer(2, 4, ended_at=20)
            await owner.answer(3, 4)
            assert await drain(store, 10) == 0
            assert await drain(store, 20) == 4
            assert [len(await store.read_turn(A, TurnId(n))) for n in (1, 2, 3)] == [0, 4, 4]
            assert await drain(store, 21) == 4
            assert [len(await store.read_turn(A, TurnId(n))) for n in (1, 2, 3)] == [0, 0, 4]
            assert await drain(store, FOREVER) == 0
            assert len(await store.read_turn(B, TurnId(1))) == 4

    async def test_a_step_of_retention_keeps_to_its_limit_and_says_whether_there_is_more(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            assert await store.prune(FOREVER) == Pruned(0, more=False)
            await owner.answer(1, 7, ended_at=1)
            steps = [await store.prune(FOREVER, limit=3) for _ in range(4)]
            assert [(step.chunks, step.more) for step in steps] == [(3, True), (3, True), (1, False), (0, False)]
            await owner.answer(2, 3, ended_at=1)
            assert await store.prune(FOREVER, limit=3) == Pruned(3, more=False)

    async def test_pruning_changes_nothing_but_the_chunks(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            for turn in range(1, 7):
                await owner.answer(turn, 90, ended_at=None if turn == 4 else turn)
            before = await read_all(store)
            rows = (await store.turns(A), await store.conversation(A))
            assert await drain(store, 6, limit=64) == 4 * 90
            gone = {1, 2, 3, 5}
            kept = [each for each in before if not (each.kind == "chunk" and each.turn in gone)]
            assert await read_all(store, limit=50) == kept
            assert (await store.turns(A), await store.conversation(A)) == rows
            for after in range(0, owner.head, 13):
                assert await store.read(A, Seq(after), 40) == [each for each in kept if each.seq > after][:40]
            activation = await store.activate(A)
            assert (activation.head, len(activation.chunks)) == (owner.head, 91)

    async def test_a_log_whose_end_was_pruned_goes_on(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("turn.ended", 1), *chunks(1, 3), rows=[ended_row(1, 1)])
            assert await drain(store, FOREVER) == 3
            assert seqs(await read_all(store)) == [1]
            await owner.append(fact("next"))
            assert seqs(await read_all(store)) == [1, 5]
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            assert owner.head == 5
            await owner.append(fact("more"))
            assert seqs(await read_all(store)) == [1, 5, 6]

    # Wake times

    async def test_wake_times_are_due_earliest_first(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owners = [await Owner.take(store, agent) for agent in (A, B, C)]
            for owner, wake in zip(owners, (30, 10, 10), strict=True):
                await owner.append(fact("x"), wake=Millis(wake))
            assert await store.due(Millis(9)) == []
            assert await store.due(Millis(10)) == [(B, 10), (C, 10)]
            assert await store.due(FOREVER) == [(B, 10), (C, 10), (A, 30)]
            assert await store.due(FOREVER, limit=1) == [(B, 10)]
            assert await store.next_wake() == 10

    async def test_a_wake_time_stays_until_a_batch_changes_it(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("x"), wake=Millis(10))
            await owner.append(fact("y"))
            assert await store.next_wake() == 10
            await owner.append(wake=Millis(20))
            assert await store.next_wake() == 20
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            assert await store.due(FOREVER) == [(A, 20)]
            await owner.append(fact("z"), wake=None)
            assert (await store.due(FOREVER), await store.next_wake()) == ([], None)

    # Tools

    async def test_agents_with_a_log_are_listed_in_order_of_creation(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owners = [await Owner.take(store, agent) for agent in (C, A, B)]
            for owner in (owners[1], owners[0]):
                await owner.append(chunk(1, 0))
            assert await store.agents() == [C, A]
        async with self.opened(tmp_path) as store:
            assert await store.agents() == [C, A]

    async def test_an_agent_is_there_once_something_was_appended(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            assert (await store.has(A), await store.has(B)) == (False, False), "to take it is not enough"
            await owner.append(fact("x"))
            assert (await store.has(A), await store.has(B)) == (True, False)
        async with self.opened(tmp_path) as store:
            assert (await store.has(A), await store.has(B)) == (True, False)

    async def test_the_agents_below_one_are_found_by_their_path_and_have_a_log(self, tmp_path: Path) -> None:
        paths = ["/sub/k/b", "/sub/k/a", "/sub/k/a/sub/j/c", "/subs/k/d", "0", "/sub"]
        agents = [AgentId(f"{A}{path}") for path in paths]
        async with self.opened(tmp_path) as store:
            owners = [await Owner.take(store, agent) for agent in (*agents, AgentId(f"{B}/sub/k/a"))]
            assert await store.agents(children_prefix(A)) == []
            for owner in owners:
                await owner.append(chunk(1, 0))
            await Owner.take(store, AgentId(f"{A}/sub/k/silent"))
            assert await store.agents(children_prefix(A)) == agents[:3]
            assert await store.agents(children_prefix(agents[1])) == [agents[2]]
        async with self.opened(tmp_path) as store:
            assert await store.agents(children_prefix(A)) == agents[:3]

    async def test_projections_are_replaced_as_a_whole(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner, other = await Owner.take(store), await Owner.take(store, B)
            await other.append(fact("x"), rows=[message_row(1)], wake=Millis(1))
            await owner.answer(1, 3, ended_at=4)
            await owner.answer(2, 3)
            await owner.append(fact("x"), rows=[message_row(1), agent_row(1)], wake=Millis(9))
            rows: list[Row] = [ended_row(1, 4, "error"), turn_row(2), turn_row(3, "accepted"), message_row(7)]
            await store.replace_rows(A, iter(rows), Millis(30))
            assert (await store.turns(A), (await store.conversation(A))[1]) == (rows[:3], rows[3:])
            assert ((await store.conversation(A))[0], await store.due(FOREVER)) == (None, [(B, 1), (A, 30)])
            assert [len(await store.read_turn(A, TurnId(n))) for n in (1, 2, 3)] == [3, 3, 0]
            await owner.append(chunk(3, 0), wake=Millis(30))
            assert len(await store.read_turn(A, TurnId(3))) == 1
            await store.replace_rows(A, [], None)
            assert (await store.turns(A), await store.due(FOREVER)) == ([], [(B, 1)])
            assert len(await read_all(store)) == owner.head

    async def test_rows_of_an_agent_without_a_log_are_not_replaced(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            with pytest.raises(UsageError, match="chat/a"):
                await store.replace_rows(A, [message_row(1)], Millis(1))
            assert ((await store.conversation(A))[1], await store.next_wake()) == ([], None)

    async def test_the_newest_turns_come_in_their_order(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("x"), rows=[ended_row(n, n) for n in (1, 2, 3, 4)])
            found = [[row.turn for row in await store.turns(A, newest=n)] for n in (None, 0, 2, 9)]
            assert found == [[1, 2, 3, 4], [], [3, 4], [1, 2, 3, 4]]

    # The store itself

    async def test_a_cancelled_append_is_wholly_there_or_wholly_absent(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            for n in range(30):
                batch = owner.batch(fact("a"), fact("b"), rows=[message_row(n)])
                task = asyncio.ensure_future(append_one(store, batch))
                for _ in range(n % 5):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                owner = await Owner.take(store)  # as the next owner does
                written = await store.read(A, Seq(batch.first - 1))
                has_row = message_row(n) in (await store.conversation(A))[1]
                assert (len(written), has_row) in ((2, True), (0, False))
                assert owner.head == batch.first - 1 + len(written)

    async def test_a_closed_store_refuses_everything(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            await owner.append(fact("x"))
        await store.aclose()
        for use in (
            owner.append(fact("y")),
            store.activate(A),
            store.read(A, Seq(0)),
            store.prune(FOREVER),
            store.due(FOREVER),
        ):
            with pytest.raises(LogUnavailable):
                await use
        async with self.opened(tmp_path) as store:
            assert seqs(await read_all(store)) == [1]

    async def test_a_store_is_opened_before_anything_else_and_once(self, tmp_path: Path) -> None:
        store = self.make(tmp_path)
        with pytest.raises(LogError):
            await store.activate(A)
        await store.aclose()
        await store.open()
        with pytest.raises(UsageError):
            await store.open()
        await store.aclose()

    async def test_what_was_accepted_is_written_before_closing(self, tmp_path: Path) -> None:
        async with self.opened(tmp_path) as store:
            owner = await Owner.take(store)
            waiting = store.append([owner.batch(chunk(1, n), first=n) for n in range(1, 50)])
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await store.aclose()
            assert await asyncio.gather(*waiting) == [None] * 49
        async with self.opened(tmp_path) as store:
            assert (await store.activate(A)).head == 49

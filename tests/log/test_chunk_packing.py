"""Packed chunks: fewer rows, and the same events, cursors and retention as with one row per chunk."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import astuple

from everyword.errors import LogCorrupt
from everyword.events import Chunk, decode_event, encode_event
from everyword.ids import Attempt, Millis, Seq, TurnId
from everyword.log.base import Entry
from everyword.log.chunk_packing import MAX_PACKED_BYTES, chunks_in_row, pack, repack, unpack
from everyword.log.memory import MemoryLog
from everyword.log.sqlite import pending_events, queries
from tests.log.building import (
    FOREVER,
    A,
    B,
    Owner,
    chunk,
    chunks,
    drain,
    ended_row,
    fact,
    read_all,
    seqs,
    turn_row,
)
from tests.log.sqlite.faults import change, look, opened

ROWS = "SELECT seq, more, kind, turn FROM event WHERE agent = 1 ORDER BY id"

BODIES = [
    b'{"type":"text-delta","id":"1","delta":""}',
    rb'{"type":"text-delta","id":"1","delta":"a \"delta\":\"b\" \\"}',
    rb'{"type":"text-delta","delta":"\\","id":"1"}',
    b'{"type":"text-delta","id":"1","delta":"x","providerMetadata":{"a":"b"}}',
    rb'{"type":"tool-input-delta","toolCallId":"c","inputTextDelta":"{\"a\":1}"}',
    b'{"type":"data-x","data":{"delta":"x"}}',
    b'{"type":"text-delta","id":"1","delta":"gr\xc3\xbc\xc3\x9fe"}',
    b'{"type":"data-x","data":{"index":3,"body":[1]},"transient":true}',
    b'"just,\\"index\\":5,\\"body\\":text"',
    b"[1,2]",
    b"null",
    b'{"delta":"' + b"x" * 1500 + b'"}',
    b'{"delta":"' + b"y" * MAX_PACKED_BYTES + b'"}',
]
CHUNKS = st.builds(
    Chunk,
    st.sampled_from([TurnId(1), TurnId(1), TurnId(2)]),
    st.sampled_from([Attempt(1), Attempt(1), Attempt(2)]),
    st.sampled_from([-1, -1, -1, 0, 7]),  # below 0: the index after the last one
    st.sampled_from(BODIES).map(Raw),
    st.sampled_from([False, False, False, True]),
)


def call_input(turn: int, index: int, text: str) -> Entry:
    body = Raw(msgspec.json.encode({"type": "tool-input-delta", "toolCallId": "c", "inputTextDelta": text}))
    return Entry("chunk", TurnId(turn), encode_event(Chunk(TurnId(turn), Attempt(1), index, body)))


def entries_of(drawn: list[Chunk | None]) -> list[Entry]:
    """Make entries as an actor does; None stands for another event."""
    entries, following = [], itertools.count()
    for each in drawn:
        if each is None:
            entries.append(fact("attempt.started", 1, b'{"t":"attempt.started","turn":1,"index":1,"body":2}'))
            continue
        index = next(following) if each.index < 0 else each.index
        event = Chunk(each.turn, each.attempt, index, each.body, each.transient)
        entries.append(Entry("chunk", each.turn, encode_event(event)))
    return entries


def through(entries: list[Entry]) -> list[Entry]:
    """Pack the entries and return the unpacked events."""
    found = []
    for kind, turn, more, body in pack(entries):
        bodies = unpack(body, more) if more else [body]
        assert len(bodies) == more + 1
        assert not more or len(body) <= MAX_PACKED_BYTES + 64
        found += [Entry(kind, None if turn is None else TurnId(turn), each) for each in bodies]
    return found


@given(st.lists(st.none() | CHUNKS, max_size=12))
def test_what_is_packed_comes_out_byte_for_byte(drawn: list[Chunk | None]) -> None:
    entries = entries_of(drawn)
    assert through(entries) == entries


@given(st.lists(CHUNKS, min_size=1, max_size=12), st.sets(st.integers(1, 12)))
def test_chunks_that_are_replaced_in_their_rows_are_read_and_all_others_are_as_before(
    drawn: list[Chunk | None], replaced: set[int]
) -> None:
    body = Raw(b'{"type":"tool-output-available","toolCallId":"c","output":"gone"}')
    entries, chunks = entries_of(drawn), dict[Seq, bytes]()
    for seq, entry in enumerate(entries, start=1):
        event = decode_event(entry.body)
        if seq in replaced and isinstance(event, Chunk) and not event.transient:
            chunks[Seq(seq)] = encode_event(msgspec.structs.replace(event, body=body))
    last, found = 0, []
    for _, _, more, row in pack(entries):
        last += more + 1
        new = chunks_in_row(chunks, last, more)
        found += unpack(repack(row, more, new), more) if more else [new.get(0, row)]
    assert found == [chunks.get(Seq(seq), entry.body) for seq, entry in enumerate(entries, start=1)]


def test_any_three_chunks_in_a_row_come_out_as_they_went_in() -> None:
    for bodies in itertools.product(BODIES, repeat=3):
        entries = entries_of([Chunk(TurnId(1), Attempt(1), -1, Raw(body)) for body in bodies])
        assert through(entries) == entries


def test_consecutive_chunks_share_one_row_and_store_common_fields_once() -> None:
    entries = chunks(3, 40)
    ((kind, turn, more, body),) = pack(entries)
    assert (kind, turn, more) == ("chunk", 3, 39)
    assert len(body) < 0.2 * sum(len(entry.body) for entry in entries)
    shown = json.loads(body)["bodies"]
    assert shown[0] == {"type": "text-delta", "id": "1", "delta": "some words"}
    assert shown[1:] == ["some words"] * 39


@pytest.mark.parametrize(
    ("entries", "rows"),
    [
        ([chunk(1, 0), chunk(2, 1)], 2),  # another turn
        ([chunk(1, 0), chunk(1, 2)], 2),  # a gap
        ([chunk(1, 1), chunk(1, 0)], 2),
        ([chunk(1, 0), fact("call.started", 1), chunk(1, 1)], 3),
        ([fact("x"), fact("x")], 2),
        ([Entry("chunk", TurnId(1), b"{}"), Entry("chunk", TurnId(1), b"{}")], 2),  # not encoded by everyword
        ([chunk(1, 0, "x" * MAX_PACKED_BYTES), chunk(1, 1)], 2),
        ([chunk(1, n, "x" * 1000) for n in range(6)], 2),  # three fit
        ([chunk(1, 0), chunk(1, 1), fact("turn.ended", 1)], 2),
    ],
)
def test_entries_that_cannot_be_packed_get_rows_of_their_own(entries: list[Entry], rows: int) -> None:
    assert len(list(pack(entries))) == rows


@pytest.mark.parametrize(
    "damaged",
    [
        b"{",
        b"",
        b"[]",
        b'{"index":0,"bodies":[{}]}',
        b'{"t":"chunk","turn":1,"attempt":1,"index":"0","bodies":[1,2,3]}',
    ],
)
def test_unpacking_a_damaged_row_returns_the_row_for_each_event(damaged: bytes) -> None:
    assert unpack(damaged, 2) == [damaged] * 3
    assert unpack("text", 1) == [b"text"] * 2


async def test_a_batch_is_stored_in_few_rows_and_read_from_any_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_events, "ROWS_PER_MARK", 8)
    monkeypatch.setattr(pending_events, "EVENTS_PER_MARK", 16)
    monkeypatch.setattr(queries, "MARKS_AT_ONCE", 2)
    async with opened(tmp_path) as store:
        memory = MemoryLog()
        await memory.open()
        for each in (store, memory):
            await _speak(await Owner.take(each))
        expected = [astuple(event) for event in await read_all(memory)]
        assert len(look(tmp_path, ROWS)) < len(expected) / 3
        for after in range(len(expected) + 1):
            for limit in (1, 3, 1000):
                page = await store.read(A, Seq(after), limit)
                assert [astuple(event) for event in page] == expected[after : after + limit]
        for turn in (1, 2, 3):
            assert await store.read_turn(A, TurnId(turn)) == await memory.read_turn(A, TurnId(turn))
        assert (await store.activate(A)).chunks == (await memory.activate(A)).chunks


async def _speak(owner: Owner) -> None:
    """Append three turns with runs of chunks of all lengths; the third stays open."""
    for turn in (1, 2, 3):
        await owner.append(fact("turn.accepted", turn), rows=[turn_row(turn)])
        first = 0
        for length in (1, 2, 5, 13, 1, 30):
            await owner.append(*chunks(turn, length, first), at=turn)
            first += length
        if turn < 3:
            await owner.append(*chunks(turn, 2, first), fact("turn.ended", turn), rows=[ended_row(turn, turn)], at=turn)


async def test_a_row_ends_at_its_last_seq_and_a_mark_stands_where_one_was_due(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        for n in range(24):
            await owner.append(*chunks(1, 50, 50 * n))
        assert look(tmp_path, ROWS)[0] == (50, 49, "chunk", 1)
        assert look(tmp_path, "SELECT agent, seq FROM mark") == [(1, 1050)]
        assert seqs(await read_all(store, after=120, limit=77)) == list(range(121, 1201))
        for _ in range(300):
            await owner.append(fact("x"))
        marks = look(tmp_path, "SELECT seq FROM mark")
        assert [seq for (seq,) in marks] == [1050, 1200 + 253], "a row in 256, whatever it holds"
    async with opened(tmp_path) as again:
        assert (await again.activate(A)).head == 1500


async def test_the_largest_packed_row_fits_into_one_page(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(*(fact("x") for _ in range(70_000)))  # so that seqs and arrivals have many digits
        before = look(tmp_path, "PRAGMA page_count")[0][0]
        for _ in range(100):
            await owner.append(*(chunk(1, 70_000 + index, "y" * 7) for index in range(390)))
        full = [length for length, more in look(tmp_path, "SELECT length(body), more FROM event") if more == 389]
        assert len(full) == 100 and full[0] >= MAX_PACKED_BYTES
        assert look(tmp_path, "PRAGMA page_count")[0][0] - before <= 103


async def test_retention_takes_rows_whole_and_counts_their_chunks(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        await _speak(owner)
        await _speak(other)
        kept = [each for each in await read_all(store) if each.kind != "chunk" or each.turn == 3]
        step = await store.prune(FOREVER, limit=20)
        assert 20 <= step.chunks < 50
        assert step.more
        assert step.chunks + await drain(store, FOREVER, limit=20) == 4 * 54
        assert await read_all(store) == kept
        assert (await store.prune(FOREVER)).chunks == 0
        assert seqs(await read_all(store, B)) == seqs(kept)


async def test_views_show_a_chunk_as_it_came_whatever_the_one_before_had_besides(tmp_path: Path) -> None:
    said = [
        b'{"type":"text-delta","delta":"a","id":"1"}',
        b'{"type":"text-delta","delta":"b"}',
        b'{"type":"text-delta","delta":"c \\"d\\""}',
        b'{"type":"text-delta","delta":"e"}',
    ]
    chunks = [Chunk(TurnId(1), Attempt(1), index, Raw(body)) for index, body in enumerate(said)]
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        entries = [Entry("chunk", TurnId(1), encode_event(each)) for each in chunks]
        await owner.append(fact("turn.accepted", 1), *entries, rows=[turn_row(1)])
        assert len(look(tmp_path, ROWS)) == 2
        shown = look(tmp_path, "SELECT body FROM cf_ai_chat_stream_chunks ORDER BY chunk_index")
        assert [body for (body,) in shown] == [body.decode() for body in said]


@pytest.mark.parametrize(
    "said",
    [
        [b'{"delta":"q"}', rb'{"delta":"a\u0000b"}', b'{"delta":"r"}'],
        [b'{"data":1,"argsDelta":"a"}', b'{"data":1,"argsDelta":"b"}'],
        [b'{"delta":null,"inputTextDelta":"a"}', b'{"delta":null,"inputTextDelta":"b"}'],
        [b'{"inputTextDelta":"x","delta":"a"}', b'{"inputTextDelta":"x","delta":"b"}'],
        [b'"one"', b'"two"'],
        [b'"only"'],
    ],
)
async def test_views_show_what_came_whatever_it_looks_like(said: list[bytes], tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        entries = entries_of([Chunk(TurnId(1), Attempt(1), -1, Raw(body)) for body in said])
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)])
        await owner.append(*entries)
        assert [each.body for each in await store.read_turn(A, TurnId(1))] == [each.body for each in entries]
        shown = look(tmp_path, "SELECT body FROM cf_ai_chat_stream_chunks ORDER BY chunk_index")
        assert [body for (body,) in shown] == [
            json.loads(body) if body.startswith(b'"') else body.decode() for body in said
        ]


@pytest.mark.parametrize("body", ['\'{"bodies":"abc"}\'', "'{}'", "'[]'", "'{\"body\":1}'", "x'ff'"])
async def test_views_show_a_damaged_row_once_and_all_other_rows(body: str, tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)])
        await owner.append(*chunks(1, 3))
        await owner.append(*chunks(1, 2, 3))
        change(tmp_path, f"UPDATE event SET body = {body} WHERE seq = 4")
        shown = look(tmp_path, "SELECT body FROM cf_ai_chat_stream_chunks")
        assert [found is None for (found,) in shown] == [True, False, False]
        assert len(await store.read(A, Seq(0))) == 6


async def test_a_row_that_was_changed_to_text_by_hand_is_read_as_before(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(*chunks(1, 3))
        change(tmp_path, "UPDATE event SET body = CAST(replace(body, 'some', 'more') AS TEXT)")
        assert [each.body for each in await store.read(A, Seq(0))] == [
            entry.body.replace(b"some", b"more") for entry in chunks(1, 3)
        ]


@pytest.mark.parametrize("more", [3, 7, 2**62, -1])
async def test_a_row_with_an_impossible_number_of_events_is_damaged(more: int, tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(*chunks(1, 3))
        change(tmp_path, f"UPDATE event SET more = {more}")
        with pytest.raises(LogCorrupt):
            await store.read(A, Seq(0))


async def test_views_show_every_chunk_of_a_row(tmp_path: Path) -> None:
    async with opened(tmp_path) as store:
        owner = await Owner.take(store)
        await owner.append(fact("turn.accepted", 1), rows=[turn_row(1)])
        await owner.append(chunk(1, 0, "one"))
        await owner.append(
            chunk(1, 1, "two"), chunk(1, 2, 'th"ree'), call_input(1, 3, "fo"), call_input(1, 4, "ur"), at=9
        )
        found = look(tmp_path, "SELECT id, chunk_index, created_at, body FROM cf_ai_chat_stream_chunks")
        assert [row[:3] for row in found] == [
            ("1:2", 0, 1),
            ("1:3", 1, 9),
            ("1:4", 2, 9),
            ("1:5", 3, 9),
            ("1:6", 4, 9),
        ]
        shown = [json.loads(row[3]) for row in found]
        assert [each.get("delta") or each["inputTextDelta"] for each in shown] == ["one", "two", 'th"ree', "fo", "ur"]
        assert [each["type"] for each in shown] == ["text-delta"] * 3 + ["tool-input-delta"] * 2
        change(tmp_path, "UPDATE event SET body = x'ff00' WHERE seq = 6")
        bodies = [body for (body,) in look(tmp_path, "SELECT body FROM cf_ai_chat_stream_chunks")]
        assert [body is None for body in bodies] == [False, True]


@pytest.mark.parametrize("pruned", [0, 3, 1000])
async def test_a_destroyed_agent_leaves_no_row_behind(tmp_path: Path, pruned: int) -> None:
    async with opened(tmp_path) as store:
        owner, other = await Owner.take(store), await Owner.take(store, B)
        await _speak(other)
        await _speak(owner)
        await store.prune(Millis(2), limit=pruned)
        await store.destroy(A, owner.epoch)
        assert look(tmp_path, ROWS) == []
        assert len(await store.read_turn(B, TurnId(3))) == 52

"""Retention, and the days that have a partition; see `migrations/0003_retention.sql`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .server import Call, statement
from .tables import Row, Tables, TurnRecord, rows


@statement("days")
async def days(call: Call) -> list[Row]:
    return rows("day", [[day] for day in sorted(call.tables.days)])


@statement("count_deletion")
async def count_deletion(call: Call) -> list[Row]:
    return []


@statement("make_day")
async def make_day(call: Call, day: int) -> list[Row]:
    call.tables.days.add(day)
    return []


@statement("lock_store")
async def lock_store(call: Call) -> list[Row]:
    return rows("one", [[1]])


def _prunable(tables: Tables, part: int) -> Iterator[tuple[int, TurnRecord]]:
    for agent in sorted(tables.turns):
        for turn in tables.turns_of(agent):
            if turn.part == part and not turn.is_pruned and turn.kind != "rsm":
                yield agent, turn


def _chunks(tables: Tables, agent: int, turn: TurnRecord) -> list[int]:
    return [
        event.seq
        for event in tables.events_of(agent)
        if (event.part, event.turn, event.kind) == (turn.part, turn.turn, "chunk") and event.seq >= turn.first_seq
    ]


@statement("drop_day")
async def drop_day(call: Call, day: int, before: int) -> list[Row]:
    found = list(_prunable(call.tables, day))
    if any(turn.ended_at is None or turn.ended_at >= before for _, turn in found):
        return rows("dropped", [[None]])
    for agent in list(call.tables.events):
        kept = {seq: event for seq, event in call.tables.events[agent].items() if event.part != day}
        call.tables.events[agent] = kept
    for _, turn in found:
        turn.is_pruned = True
    call.tables.days.discard(day)
    return rows("dropped", [[sum(turn.chunks for _, turn in found)]])


@statement("prune_states")
async def prune_states(call: Call, before: int, limit: int) -> list[Row]:
    old = sorted((at, *place) for place, at in call.tables.replaced.items() if at < before)[:limit]
    deleted = 0
    for _, agent, seq in old:
        del call.tables.replaced[agent, seq]
        deleted += call.tables.events.get(agent, {}).pop(seq, None) is not None
    return rows("count", [[deleted]])


@statement("prune_chunks")
async def prune_chunks(call: Call, part: int, before: int, limit: int) -> list[Row]:
    found = [(agent, turn) for agent, turn in _prunable(call.tables, part)]
    over = [(turn.ended_at, agent, turn.turn, turn) for agent, turn in found if turn.ended_at is not None]
    deleted = 0
    for ended_at, agent, _, turn in sorted(over, key=lambda each: each[:3]):
        if deleted >= limit or ended_at >= before:
            break
        for seq in _chunks(call.tables, agent, turn):
            if deleted >= limit:
                break
            deleted += call.tables.events[agent].pop(seq).more + 1
        else:
            turn.is_pruned = True
    return rows("deleted", [[deleted]])


@statement("is_more_to_prune")
async def is_more_to_prune(call: Call, before: int, parts: Sequence[int]) -> list[Row]:
    tables = call.tables
    turns = [each for part in parts for each in _prunable(tables, part)]
    is_more = any(at < before for at in tables.replaced.values()) or any(
        turn.ended_at is not None and turn.ended_at < before and _chunks(tables, agent, turn) for agent, turn in turns
    )
    return rows("more", [[is_more]])


@statement("erase_streams")
async def erase_streams(call: Call, agent: str, until: int, limit: int) -> list[Row]:
    key = call.tables.keys.get(agent, 0)
    ended = [turn for turn in call.tables.turns_of(key) if turn.kind == "rsm" and turn.ended_at is not None]
    doomed = [turn for turn in ended if turn.ended_at <= until and not turn.is_pruned][:limit]
    for turn in doomed:
        for seq in _chunks(call.tables, key, turn):
            del call.tables.events[key][seq]
        turn.is_pruned = True
    return rows("erased", [[len(doomed)]])

"""Appends, activations and what else an owner writes; see `migrations/0002_functions.sql`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import asyncpg

from ...rows import LISTED, KeptRow, put_listed
from .server import Call, refused, statement
from .tables import TURN, AgentRecord, EventRecord, Row, Tables, TurnRecord, rows

__all__ = ["may_take"]

ENDING = [TURN.index(name) for name in ("ended_at", "status", "reason", "error")]


@statement("append")
async def append(call: Call, node: int, generation: int, *values: Any) -> list[Row]:
    return await _append(call, node, generation, values[:4], values[4:13], ([], [], []), [])


@statement("append_with_rows")
async def append_with_rows(call: Call, node: int, generation: int, *values: Any) -> list[Row]:
    return await _append(call, node, generation, values[:4], values[4:13], values[13:16], values[16:])


async def _append(
    call: Call, node: int, generation: int, leases: Any, columns: Any, states: Any, changes: Any
) -> list[Row]:
    tables = call.tables
    with call.fence(node, generation):
        lost = [
            key
            for key, epoch, root, term in zip(*leases, strict=True)
            if not is_held(tables, node, key, epoch, root, term)
        ]
        await call.work()
        if lost:
            return rows("lost", [[lost]])
        events: dict[int, list[EventRecord]] = {}
        for agent, *event in zip(*columns, strict=True):
            events.setdefault(agent, []).append(EventRecord(*event))
        for agent, added in events.items():
            if any(event.seq in tables.events.get(agent, ()) for event in added):
                raise asyncpg.UniqueViolationError('duplicate key value violates unique constraint "event_0_pkey"')
        if changes:
            check_turns(tables, changes[5])
            put_rows(tables, *changes)
        for agent, added in events.items():
            tables.events.setdefault(agent, {}).update({event.seq: event for event in added})
        for agent, seq, at in zip(*states, strict=True):
            old = [each.seq for each in tables.events_of(agent) if each.kind == "state.set" and each.seq < seq]
            if old:
                tables.replaced.setdefault((agent, old[-1]), at)
        if call.database.on_commit is not None:
            for agent, added in events.items():
                call.database.on_commit(node, tables.agents[agent].id, added)
        return rows("lost", [[None]])


def is_held(tables: Tables, node: int, key: int, epoch: int, root: int, term: int) -> bool:
    """Tell whether the node owns the root since this term, and the agent has this epoch."""
    agent, above = tables.agents.get(key), tables.agents.get(root)
    return agent is not None and agent.epoch == epoch and above is not None and (above.node, above.term) == (node, term)


def check_turns(tables: Tables, turns: Sequence[Sequence[Any]]) -> None:
    """Raise if a turn would end twice, or a request would be accepted twice."""
    requests = dict[tuple[int, str], int]()
    for turn in turns:
        old = tables.turns.get(turn[0], {}).get(turn[1])
        if old is not None and old.ended_at is not None and any(old.values[each] != turn[each] for each in ENDING):
            raise refused(f"turn {turn[1]} has ended, and ends once (I-1)", "EW001")
        place = turn[0], turn[2]
        if requests.get(place, tables.requests.get(place, turn[1])) != turn[1]:
            raise asyncpg.UniqueViolationError('duplicate key value violates unique constraint "turn_by_request"')
        requests[place] = turn[1]


def put_rows(
    tables: Tables,
    h_agent: Any,
    h_seq: Any,
    r_agent: Any,
    r_node: Any,
    cleared: Any,
    turns: Any,
    messages: Any,
    keeps: Any,
    drops: Any,
    agents: Any,
    w_agent: Any,
    w_at: Any,
    unwoken: Any,
) -> None:
    for agent in cleared:
        tables.messages.pop(agent, None)
    for agent, node in zip(r_agent, r_node, strict=True):
        tables.messages.get(agent, {}).pop(node, None)
    for turn in turns:
        _put_turn(tables, tuple(turn))
    for message in messages:
        tables.messages.setdefault(message[0], {})[message[1]] = tuple(message)
    for agent, kind, key, _ in drops:
        tables.kept.get(agent, {}).pop((kind, key), None)
    for agent, kind, key, body in keeps:
        if kind in LISTED:
            put_listed(tables.listed.setdefault(agent, {}), KeptRow(kind, key, body or None))
        else:
            tables.kept.setdefault(agent, {})[kind, key] = body
    for agent, *row in agents:
        tables.agents[agent].row = tuple(row)
    for agent, seq in zip(h_agent, h_seq, strict=True):
        tables.agents[agent].head = max(tables.agents[agent].head, seq)
    for agent in unwoken:
        tables.wakes.pop(agent, None)
    tables.wakes.update(zip(w_agent, w_at, strict=True))


def _put_turn(tables: Tables, values: tuple[Any, ...]) -> None:
    agent, turn, request = values[:3]
    old = tables.turns.setdefault(agent, {}).get(turn)
    if old is not None:
        tables.requests.pop((agent, old.request), None)
        values = (*values[:-2], *old.values[-2:])
    tables.turns[agent][turn] = TurnRecord(values, old is not None and old.is_pruned)
    tables.requests[agent, request] = turn


def may_take(tables: Tables, root: AgentRecord, node: int) -> bool:
    """Tell whether the node may become the owner of a root agent."""
    return root.node is None or root.node == node or not tables.is_live(root.node)


ACTIVATION = (
    "owner key root term epoch head last_at generation leaf last_turn last_node turns messages kept events wakes"
)


@statement("activate_all")
async def activate_all(
    call: Call,
    node: int,
    generation: int,
    agents: Sequence[str],
    roots: Sequence[str],
    recents: Sequence[int],
    known: Sequence[bool],
    replayed: Sequence[str],
) -> list[Row]:
    given = zip(agents, roots, recents, known, strict=True)
    with call.fence(node, generation):
        await call.work()
        return [_activated(call.tables, node, *values, replayed) for values in given]


def _activated(
    tables: Tables, node: int, agent: str, root: str, recent: int, is_known: bool, replayed: Sequence[str]
) -> Row:
    """Take one agent and return what is loaded of it."""
    above = tables.agent(root)
    if above is None or above.node != node:
        if above is None:
            key = tables.new_key()
            above = tables.put_agent(AgentRecord(key, root, key, 0))
        elif not may_take(tables, above, node):
            return rows(ACTIVATION, [[above.node, *([None] * 15)]])[0]
        above.node, above.term = node, above.term + 1
        is_known = False
    wakes = [] if is_known else wakes_of(tables, above)
    own = tables.agent(agent) or tables.put_agent(AgentRecord(tables.new_key(), agent, above.key, 0))
    own.epoch += 1
    events = tables.events_of(own.key)
    head = max(own.head, events[-1].seq if events else 0)
    last_at = events[-1].at if events and events[-1].seq == head else 0
    turns = tables.turns_of(own.key)
    ended = [turn for turn in turns if turn.ended_at is not None]
    left_out = {turn.turn for turn in ended[: max(len(ended) - recent, 0)]}
    is_open = {turn.turn for turn in turns if turn.ended_at is None}
    loaded = [Row(TURN, turn.values) for turn in turns if turn.turn not in left_out]
    messages = [each for _, each in sorted(tables.messages.get(own.key, {}).items())]
    kept = [(own.key, *key, body) for key, body in sorted(tables.kept.get(own.key, {}).items())]
    chunks = [event.sent for event in events if event.turn in is_open and event.kind in replayed]
    found = [None, own.key, above.key, above.term, own.epoch, head, last_at, *own.row]
    return rows(ACTIVATION, [[*found, loaded, messages, kept, chunks, wakes]])[0]


def wakes_of(tables: Tables, root: AgentRecord) -> list[Row]:
    """Return the wake times of a family."""
    family = [(each.id, tables.wakes[each.key]) for each in tables.family(root.key) if each.key in tables.wakes]
    return rows("id at root term", [[*pair, root.key, root.term] for pair in sorted(family, key=lambda pair: pair[1])])


@statement("release")
async def release(call: Call, node: int, generation: int, roots: Sequence[int], terms: Sequence[int]) -> list[Row]:
    with call.fence(node, generation):
        await call.work()
        for key, term in zip(roots, terms, strict=True):
            root = call.tables.agents.get(key)
            if root is not None and is_held(call.tables, node, key, root.epoch, key, term):
                root.node = None
        return []


@statement("claim")
async def claim(call: Call, node: int, generation: int, until: int, limit: int) -> list[Row]:
    tables = call.tables
    with call.fence(node, generation):
        await call.work()
        due = sorted((at, key) for key, at in tables.wakes.items() if at <= until)
        free = [(at, key) for at, key in due if _is_free(tables, tables.agents[key].root, node)][:limit]
        taken = list(dict.fromkeys(tables.agents[key].root for _, key in free))
        found: list[Row] = []
        for root in taken:
            above = tables.agents[root]
            above.node, above.term = node, above.term + 1
            found += wakes_of(tables, above)
        return found


@statement("wakes_of_unknown")
async def wakes_of_unknown(call: Call, node: int, known: Sequence[int]) -> list[Row]:
    roots = [each for each in call.tables.agents.values() if each.node == node and each.key not in known]
    return [row for root in roots for row in wakes_of(call.tables, root)]


def _is_free(tables: Tables, root: int, node: int) -> bool:
    owner = tables.agents[root].node
    return owner is None or (owner != node and not tables.is_live(owner))


@statement("destroy")
async def destroy(call: Call, node: int, generation: int, key: int, epoch: int, below: str) -> list[Row]:
    tables = call.tables
    with call.fence(node, generation):
        await call.work()
        own = tables.agents.get(key)
        if own is None or own.epoch != epoch or tables.agents[own.root].node != node:
            return rows("destroyed", [[False]])
        others = [each for each in tables.family(own.root) if each.id.startswith(below) and each.key != key]
        top = tables.new_key()
        for each in (own, *sorted(others, key=lambda each: each.key)):
            tables.erase(each.key)
            del tables.agents[each.key], tables.keys[each.id]
            new = top if each is own else tables.new_key()
            root = top if own.root == key else own.root
            row = replace(each, key=new, root=root, epoch=each.epoch + 1, head=0, row=(None,) * 4)
            tables.put_agent(row)
        return rows("destroyed", [[True]])


@statement("replace_rows")
async def replace_rows(call: Call, node: int, generation: int, *values: Any) -> list[Row]:
    with call.fence(node, generation):
        await call.work()
        is_ours = is_held(call.tables, node, *values[:4])
        if is_ours:
            _replace_rows(call.tables, values[0], values[4:])
        return rows("replaced", [[is_ours]])


def _replace_rows(tables: Tables, key: int, changes: Sequence[Any]) -> None:
    own = tables.agents[key]
    for table in (tables.turns, tables.messages, tables.kept, tables.listed, tables.wakes):
        table.pop(own.key, None)
    tables.requests = {key: turn for key, turn in tables.requests.items() if key[0] != own.key}
    own.row = (None,) * 4
    put_rows(tables, *changes)
    for turn, record in tables.turns.get(own.key, {}).items():
        events = [event for event in tables.events_of(own.key) if event.turn == turn]
        if events:
            part, first = max(event.part for event in events), min(event.seq - event.more for event in events)
            record.values = (*record.values[:-2], part, first)

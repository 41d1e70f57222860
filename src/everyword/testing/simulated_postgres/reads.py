"""Everything that is read without a lease; see `sql/queries.sql`."""

from __future__ import annotations

from collections.abc import Sequence

from .server import Call, statement
from .tables import TURN, AgentRecord, NodeRecord, Row, Tables, TurnRecord, rows

__all__ = ["node_rows"]

EVENT = "seq at kind turn more body"


def _key(call: Call, agent: str) -> int:
    return call.tables.keys.get(agent, 0)


def _has_log(tables: Tables, agent: AgentRecord) -> bool:
    return agent.head > 0 or bool(tables.events.get(agent.key))


def _turns(turns: list[TurnRecord]) -> list[Row]:
    return [Row(TURN[1:-2], turn.values[1:-2]) for turn in turns]


@statement("key_of")
async def key_of(call: Call, agent: str) -> list[Row]:
    return rows("key", [[call.tables.keys.get(agent)]])


@statement("read_events")
async def read_events(call: Call, agent: str, after: int, limit: int) -> list[Row]:
    found = [event.sent for event in call.tables.events_of(_key(call, agent)) if event.seq > after]
    return rows(EVENT, found[:limit])


@statement("read_turn")
async def read_turn(call: Call, agent: str, turn: int) -> list[Row]:
    events = call.tables.events_of(_key(call, agent))
    return rows(EVENT, [event.sent for event in events if event.kind == "chunk" and event.turn == turn])


@statement("conversation")
async def conversation(call: Call, agent: str) -> list[Row]:
    own = call.tables.agent(agent)
    if own is None:
        return []
    messages = [each for _, each in sorted(call.tables.messages.get(own.key, {}).items())]
    names = "generation leaf last_turn last_node agent node parent id role body draft at"
    return rows(names, [(*own.row, *each) for each in messages or [(None,) * 8]])


@statement("kept")
async def kept(call: Call, agent: str) -> list[Row]:
    key = _key(call, agent)
    found = sorted(call.tables.kept.get(key, {}).items())
    return rows("agent kind key body", [(key, kind, name, body) for (kind, name), body in found])


@statement("has")
async def has(call: Call, agent: str) -> list[Row]:
    own = call.tables.agent(agent)
    return rows("has", [[1]]) if own is not None and _has_log(call.tables, own) else []


@statement("agents")
async def agents(call: Call, prefix: str) -> list[Row]:
    found = sorted(call.tables.agents.values(), key=lambda each: each.key)
    return rows("id", [[each.id] for each in found if each.id.startswith(prefix) and _has_log(call.tables, each)])


@statement("agents_named")
async def agents_named(call: Call, prefix: str, after: str, limit: int) -> list[Row]:
    found = sorted(call.tables.agents.values(), key=lambda each: each.id.encode())
    named = [each for each in found if each.id.startswith(prefix) and each.id.encode() > after.encode()]
    return rows("id", [[each.id] for each in named if _has_log(call.tables, each)][:limit])


@statement("find_turn")
async def find_turn(call: Call, agent: str, request: str) -> list[Row]:
    key = _key(call, agent)
    turn = call.tables.requests.get((key, request))
    return [] if turn is None else _turns([call.tables.turns[key][turn]])


@statement("newest_turns")
async def newest_turns(call: Call, agent: str, limit: int | None) -> list[Row]:
    found = _turns(call.tables.turns_of(_key(call, agent))[::-1])
    return found if limit is None else found[:limit]


def _waking(call: Call, node: int | None) -> list[tuple[int, int]]:
    """Return the wake times and keys of agents that no live node owns, or that this one does; earliest first."""
    tables = call.tables
    owners = {key: tables.agents[tables.agents[key].root].node for key in tables.wakes}
    mine = [key for key, owner in owners.items() if not tables.is_live(owner) or (node is not None and owner == node)]
    return sorted((tables.wakes[key], key) for key in mine)


@statement("due")
async def due(call: Call, until: int, limit: int, node: int) -> list[Row]:
    found = [(call.tables.agents[key].id, at) for at, key in _waking(call, node) if at <= until]
    return rows("id at", found[:limit])


@statement("next_claim")
async def next_claim(call: Call, after: int, until: int) -> list[Row]:
    return rows("min", [[min((at for at, _ in _waking(call, None) if after < at <= until), default=None)]])


def node_rows(call: Call, nodes: Sequence[NodeRecord]) -> list[Row]:
    """Return nodes as `LiveNode` has them."""
    now = int(call.now)
    found = [
        (each.id, each.name, each.url, each.version, each.state, each.since, int(each.until) - now) for each in nodes
    ]
    return rows("id name url version state since left_ms", found)


@statement("owner")
async def owner(call: Call, agent: str) -> list[Row]:
    own = call.tables.agent(agent)
    if own is None or own.node is None or not call.tables.is_live(own.node):
        return []
    return node_rows(call, [call.tables.nodes[own.node]])

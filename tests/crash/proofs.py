"""What must hold of a log after any crash, said once for every store and every way to die."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from everyword.core.evolve import evolve
from everyword.core.project import project
from everyword.core.restore import restore
from everyword.core.state import State
from everyword.events import Chunk, Event, HookDone, MessageEnded, TurnAccepted, TurnEnded, decode_event, turn_of
from everyword.ids import AgentId, Seq
from everyword.log.base import LogAdmin, LogStore, Stored
from everyword.log.lists import ApprovalQuery
from everyword.messages.message import Part
from everyword.messages.server_fields import without_fields
from everyword.rows import SETTLED, KeptRow, encode_listed
from tests.core.histories import Rows, fingerprint, refold

PAGE = 1000


async def read_all(store: LogStore, agent: AgentId) -> list[Stored]:
    """Return the agent's whole log."""
    log: list[Stored] = []
    while page := await store.read(agent, log[-1].seq if log else Seq(0), PAGE):
        log += page
    return log


def check_log(log: list[Stored]) -> None:
    """Seqs increase, a turn ends at most once and nothing follows, its message and its end are one (I-1, I-2, I-8)."""
    assert [stored.seq for stored in log] == list(range(1, len(log) + 1))
    ended, message_due = set[int](), set[int]()
    for stored in log:
        event = decode_event(stored.body)
        turn = turn_of(event)
        assert turn not in ended or isinstance(event, HookDone), f"{stored} follows the end of its turn"
        match event:
            case MessageEnded():
                message_due.add(event.turn)
            case TurnEnded():
                message_due.discard(event.turn)
                ended.add(event.turn)
    assert not message_due, f"turns {message_due} have a message and no end"


async def check_projections(store: LogStore, agent: AgentId) -> None:
    """What is stored beside the log is what the log says: rows, and the state that they are loaded into (I-9)."""
    log = await read_all(store, agent)
    state, rebuilt = State(), Rows()
    for stored in log:
        event = decode_event(stored.body)
        evolve(state, event, stored.at)
        rebuilt.apply(project(state, event))
    assert await _stored_rows(store, agent) == rebuilt
    loaded = await store.activate(agent)
    assert loaded.head == len(log)
    streamed = [(stored.at, decode_event(stored.body)) for stored in loaded.chunks]
    restored, problems = restore(loaded.agent, loaded.turns, loaded.messages, streamed, loaded.kept)
    assert not problems
    assert fingerprint(restored) == fingerprint(state)


async def _stored_rows(store: Any, agent: AgentId) -> Rows:
    admin: LogAdmin = store
    turns = {row.turn: row for row in await admin.turns(agent)}
    row, places = await store.conversation(agent)
    kept = {(each.kind, each.key): each for each in await store.kept(agent)}
    query = ApprovalQuery(root=agent, is_settled=True, limit=10_000)
    settled = await store.lists.approvals(query) if store.lists is not None else []
    listed = {(SETTLED, each.key): KeptRow(SETTLED, each.key, encode_listed(each.record)) for each in settled}
    return Rows(row, turns, {place.node: place for place in places}, kept, listed)


@dataclass(frozen=True)
class Outcomes:
    """What a log says that no crash may change: who asked what, what they were told, how it ended, what is left."""

    asked: list[Any]
    answers: dict[int, Any]
    endings: dict[int, Any]
    shown: dict[int, Any]
    transient: list[Any]


def outcomes(log: list[Stored], *, has_steps: bool = True) -> Outcomes:
    """Read them from a log; without `has_steps` it does not count in how many steps a message was said."""
    events = [decode_event(stored.body) for stored in log]
    accepted = [event for event in events if isinstance(event, TurnAccepted)]
    state = refold([(event, stored.at) for event, stored in zip(events, log, strict=True)])
    return Outcomes(
        asked=[_asked(event) for event in accepted],
        answers={e.turn: canonical(e.message, has_steps) for e in events if isinstance(e, MessageEnded)},
        endings={e.turn: _ending(e) for e in events if isinstance(e, TurnEnded)},
        shown={node: canonical(place.body, has_steps) for node, place in state.tree.nodes.items()},
        transient=sorted({bytes(event.body) for event in events if isinstance(event, Chunk) and event.transient}),
    )


def _asked(event: TurnAccepted) -> Any:
    placed = [(each.node, each.parent, each.id, each.role, canonical(each.message, True)) for each in event.messages]
    return (
        *(event.turn, event.request, event.kind, event.generation),
        *(event.node, event.parent, event.message_id, placed),
    )


def _ending(event: TurnEnded) -> Any:
    return event.outcome, event.reason, event.error, event.detail, event.finish_reason, event.usage, event.hook_due


def canonical(body: Any, has_steps: bool) -> Any:
    """Return a message with neighbouring text parts joined: where an attempt was cut off does not count, nor when."""
    if body is None:
        return None
    message = without_fields(msgspec.json.decode(bytes(body)))
    parts: list[Part] = []
    for part in message["parts"]:
        if part["type"] == "step-start" and not has_steps:
            continue
        if parts and part["type"] == parts[-1]["type"] == "text":
            parts[-1] = {**parts[-1], "text": parts[-1]["text"] + part["text"]}
        else:
            parts.append(part)
    if not has_steps and "metadata" in message:
        message["metadata"] = {name: value for name, value in message["metadata"].items() if name != "steps"}
    return {**message, "parts": parts}


def of_kind(log: list[Stored], kind: type[Event]) -> list[Any]:
    """Return the events of one kind."""
    return [event for stored in log if isinstance(event := decode_event(stored.body), kind)]

"""Checks one stored agent: its log can be decoded and folded, and the tables beside it match the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from ..core.evolve import evolve
from ..core.project import project
from ..core.state import State
from ..core.wanted import NOW, wanted
from ..errors import BadMessage, LogCorrupt, LogUnavailable
from ..events import Chunk, Event, MessageEnded, TurnEnded, decode_event, kind_of, turn_of
from ..ids import AgentId, Millis, Seq, TurnId
from ..log.base import Stored
from ..messages.message import UIMessage
from ..rows import CONVERSATION, SEARCHABLE, WAITING
from ..runtime.rebuild import Projections
from .log_reader import LogReader
from .text import count_of

__all__ = ["CheckedAgent", "Cure", "Finding", "examine"]

Cure = Literal["rebuild", "restore"]

PAGE = 1000
TRIES = 5
"""Attempts to check an agent that grew while it was checked."""

MOST = 20
"""Findings reported per agent; the rest is only counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem. `rebuild` repairs the tables that are derived from the log; the log itself needs a backup."""

    what: str
    cure: Cure


@dataclass(slots=True)
class CheckedAgent:
    """The findings of one agent; `is_busy` when it grew too fast to be checked."""

    agent: AgentId
    events: int = 0
    turns: int = 0
    findings: list[Finding] = field(default_factory=list)
    is_busy: bool = False

    @property
    def is_curable(self) -> bool:
        """True when rebuilding repairs all of it."""
        return all(finding.cure == "rebuild" for finding in self.findings)


async def examine(store: LogReader, agent: AgentId, now: Millis, stored: int | None = None) -> CheckedAgent:
    """Read an agent's log and compare the tables with it; `stored` is the number of its events, if known."""
    for _ in range(TRIES):
        head = await store.head(agent)
        log = _Log(agent)
        try:
            await log.read(store)
            if not log.is_broken and log.last != head:
                log.find(f"its log ends at event {log.last} instead of {head}", "restore")
            if not log.is_broken:
                await _compare(store, agent, log, now)
        except LogCorrupt as exc:
            log.find(str(exc), "restore")
        if head == await store.head(agent):
            is_known = stored is not None and not log.is_broken and log.count < stored
            if is_known:
                log.find(
                    f"{count_of((stored or 0) - log.count, 'event')} in the {store.noun} cannot be reached", "restore"
                )
            return CheckedAgent(agent, log.count, len(log.rows.turns), log.told())
    return CheckedAgent(agent, is_busy=True)


class _Log:
    """One agent's log while it is read: folds the events and checks each of them."""

    def __init__(self, agent: AgentId) -> None:
        self.agent, self.state, self.rows = agent, State(), Projections()
        self.count, self.is_broken = 0, False
        self._findings: list[Finding] = []
        self.last = Seq(0)
        self._missing = 0
        self._chunks: Counter[TurnId] = Counter()
        self._next: dict[TurnId, int] = {}
        self._ended: dict[TurnId, int] = {}
        self._unlike: dict[TurnId, str] = {}

    def find(self, what: str, cure: Cure) -> None:
        self._findings.append(Finding(what, cure))

    def told(self) -> list[Finding]:
        more = len(self._findings) - MOST
        if more <= 0:
            return self._findings
        cure: Cure = "restore" if any(finding.cure == "restore" for finding in self._findings) else "rebuild"
        return [*self._findings[:MOST], Finding(f"and {more} more", cure)]

    async def read(self, store: LogReader) -> None:
        while page := await store.read(self.agent, self.last, PAGE):
            for stored in page:
                self._take(stored)
                if self.is_broken:
                    return
        self._count_missing((await store.agent_record(self.agent)).states_gone)

    def _take(self, stored: Stored) -> None:
        if stored.seq <= self.last:
            self.find(f"event {stored.seq} is stored after event {self.last}", "restore")
        self._missing += stored.seq - self.last - 1
        self.last = stored.seq
        self.count += 1
        try:
            event = decode_event(stored.body)
        except msgspec.DecodeError as exc:
            return self._break(f"event {stored.seq} cannot be read ({exc})")
        if (kind_of(event), turn_of(event)) != (stored.kind, stored.turn):
            self.find(
                f"event {stored.seq} is stored as {stored.kind} of turn {stored.turn}, but its body differs", "restore"
            )
        if isinstance(event, Chunk):
            self._count_chunk(event)
        elif isinstance(event, MessageEnded):
            self._compare_message(event)
        elif isinstance(event, TurnEnded):
            self._end(event)
        return self._fold(stored, event)

    def _fold(self, stored: Stored, event: Event) -> None:
        try:
            evolve(self.state, event, stored.at)
            self.rows.put(project(self.state, event))
        except (AssertionError, KeyError, ValueError, BadMessage) as exc:
            self._break(f"event {stored.seq} ({stored.kind}) does not follow from the events before it ({exc})")

    def _break(self, what: str) -> None:
        self.is_broken = True
        self.find(f"{what}; later events were not checked", "restore")

    def _count_chunk(self, event: Chunk) -> None:
        self._chunks[event.turn] += 1
        expected = self._next.get(event.turn)
        if expected is not None and event.index != expected:
            self.find(f"turn {event.turn}: chunk {event.index} found instead of chunk {expected}", "restore")
        self._next[event.turn] = event.index + 1

    def _compare_message(self, event: MessageEnded) -> None:
        """Remember a turn whose chunks fold to another message than the stored one, until all chunks are counted."""
        turn = self.state.open.get(event.turn)
        if turn is None or turn.fold is None or event.sanitized:
            return
        try:
            if turn.fold.closed_message().to_dict() != UIMessage.decode(bytes(event.message)).to_dict():
                self._unlike[event.turn] = "its chunks add up to another message than the stored one"
        except BadMessage as exc:
            self._unlike[event.turn] = str(exc)

    def _end(self, event: TurnEnded) -> None:
        self._ended[event.turn] = event.chunks
        unlike = self._unlike.pop(event.turn, None)
        if unlike is not None and self._chunks[event.turn] == event.chunks:
            self.find(f"turn {event.turn}: {unlike}", "restore")
        if self._next.get(event.turn, event.chunks) != event.chunks:
            self.find(
                f"turn {event.turn}: it counts {event.chunks} chunks, but the last chunk has another number", "restore"
            )

    def _count_missing(self, states: int) -> None:
        """Check that only events are missing that retention deletes: chunks of ended turns, and the counted states."""
        for turn in self.state.open:
            if self._chunks[turn] != self._next.get(turn, 0):
                self.find(f"turn {turn} is open, and its first chunks are missing", "restore")
        takeable = sum(max(chunks - self._chunks[turn], 0) for turn, chunks in self._ended.items()) + states
        if self._missing > takeable:
            gone = count_of(self._missing - takeable, "event")
            self.find(f"{gone} missing that retention does not delete", "restore")


async def _compare(store: LogReader, agent: AgentId, log: _Log, now: Millis) -> None:
    """Compare the tables with the state that the log folds to."""
    stored = Projections(await store.agent_row(agent))
    try:
        stored.put(await store.turns(agent))
        stored.put((await store.conversation(agent))[1])
        stored.put(await store.kept(agent))
    except LogUnavailable as exc:
        return log.find(str(exc), "restore")
    for what in _differences(stored, log.rows):
        log.find(what, "rebuild")
    for node, row in stored.messages.items():
        log_row = log.rows.messages.get(node)
        if log_row == row and (problem := _unreadable(row.body) or _unreadable(row.draft)):
            log.find(f"message {row.id!r}: {problem}", "restore")
    epoch, wake, _ = await store.agent_record(agent)
    if epoch < 1:
        log.find("it has events, but its lease was never taken", "restore")
    due = wanted(log.state, now).wake
    if due is not None and (wake is None or wake > max(due, now)):
        when = "missing" if wake is None else "too late"
        what = "work is due" if due == NOW else "work is scheduled"
        log.find(f"{what}, but its wake-up time is {when}", "rebuild")
    return None


def _differences(stored: Projections, folded: Projections) -> Iterator[str]:
    yield from _named("turn", stored.turns, folded.turns)
    yield from _named("the message at node", stored.messages, folded.messages)
    kept = folded.kept
    if (CONVERSATION, "") not in stored.kept:  # a release without lists has written it; `everyword rebuild` lists it
        kept = {key: row for key, row in kept.items() if row.kind not in (CONVERSATION, WAITING)}
    if (SEARCHABLE, "") in stored.kept:  # a setting of the app, which the log does not have
        kept = {**kept, (SEARCHABLE, ""): stored.kept[SEARCHABLE, ""]}
    yield from _named("the stored value", stored.kept, kept)
    if stored.agent != folded.agent:
        yield "the agent's row differs from its log"


def _named(noun: str, stored: Mapping[Any, Any], folded: Mapping[Any, Any]) -> Iterator[str]:
    for key in _keys(stored, folded):
        name = "/".join(filter(None, key)) if isinstance(key, tuple) else key
        if key not in stored:
            yield f"{noun} {name} has no row"
        elif key not in folded:
            yield f"{noun} {name} has a row, but is not in the log"
        elif stored[key] != folded[key]:
            fields = [f for f in stored[key].__struct_fields__ if getattr(stored[key], f) != getattr(folded[key], f)]
            yield f"{noun} {name}: {', '.join(fields)} of the row differ{'s' if len(fields) == 1 else ''} from the log"


def _keys(*mappings: Mapping[Any, Any]) -> Iterable[Any]:
    return sorted({key for mapping in mappings for key in mapping})


def _unreadable(body: bytes | None) -> str | None:
    if body is None:
        return None
    try:
        UIMessage.decode(body)
    except BadMessage as exc:
        return str(exc)
    return None

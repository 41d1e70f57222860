"""Random histories of a store: it must agree with the reference store after each step. Subclass `Agreement`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from everyword.errors import LogError
from everyword.events import TurnKind
from everyword.ids import AgentId, Generation, Millis, NodeId, RequestId, Seq, TurnId
from everyword.log.base import UNCHANGED, Activation, Entry, Unchanged
from everyword.log.memory import MemoryLog
from everyword.rows import Row, RowsCleared, RowsRemoved, TurnRow
from tests.log.building import (
    FOREVER,
    A,
    B,
    C,
    Owner,
    Store,
    agent_row,
    chunk,
    drain,
    ended_row,
    fact,
    message_row,
    read_all,
    state,
    turn_row,
)

AGENTS = st.sampled_from([A, B, C])
NEVER_MIND = st.sampled_from(range(100))
WAKES = st.sampled_from([None, Millis(0), UNCHANGED]) | st.integers(1, 50).map(Millis)


class Agreement(RuleBasedStateMachine):
    """Runs every step on both stores. Between steps both must return the same for every query."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.memory: Store = MemoryLog()
        self.owners: dict[AgentId, tuple[Owner, Owner]] = {}
        self.rows: dict[AgentId, dict[int, TurnRow]] = {}
        self.now = 1

    def make(self) -> Store:
        """Make the store to test; it has what the ones before it have left."""
        raise NotImplementedError

    @initialize()
    def start(self) -> None:
        self.runner.run(self.memory.open())
        self.open()
        for agent in (A, B):
            self.activate(agent)

    def open(self) -> None:
        self.store = self.make()
        self.runner.run(self.store.open())

    def close(self) -> None:
        self.runner.run(self.store.aclose())

    def teardown(self) -> None:
        self.close()
        self.runner.close()

    def both(self, ask: Callable[[Store], Awaitable[object]]) -> object:
        """Call both stores; results and types of errors must be the same."""
        answers = [self.runner.run(self.answer(store, ask)) for store in (self.memory, self.store)]
        assert answers[0] == answers[1]
        return answers[0]

    @staticmethod
    async def answer(store: Store, ask: Callable[[Store], Awaitable[object]]) -> object:
        try:
            return await ask(store)
        except LogError as exc:
            return type(exc)

    def append(self, agent: AgentId, *entries: Entry, expect: object = None, **options: object) -> None:
        owners = self.owners[agent]
        for owner in owners:
            owner.store = self.memory if owner is owners[0] else self.store
        results = [self.runner.run(self.appended(owner, entries, options)) for owner in owners]
        assert results[0] == results[1]
        if expect is None:
            assert results[0] is None

    @staticmethod
    async def appended(owner: Owner, entries: tuple[Entry, ...], options: dict[str, object]) -> object:
        try:
            await owner.append(*entries, **options)
        except LogError as exc:
            return type(exc)
        return None

    def pick(self, agent: AgentId, number: int, *, is_open: bool) -> TurnRow | None:
        found = [row for row in self.rows.get(agent, {}).values() if row.is_open is is_open]
        return found[number % len(found)] if found else None

    def known(self, agent: AgentId) -> bool:
        return agent in self.owners

    async def activated(self, store: Store, agent: AgentId) -> Activation:
        """Activate an agent; return what every store has to say of it: wake times are for several nodes."""
        return msgspec.structs.replace(await store.activate(agent, recent=3), wakes=())

    @rule(agent=AGENTS)
    def activate(self, agent: AgentId) -> None:
        loaded = self.both(lambda store: self.activated(store, agent))
        assert isinstance(loaded, Activation)
        self.owners[agent] = (Owner(self.memory, agent, loaded), Owner(self.store, agent, loaded))
        self.rows.setdefault(agent, {})

    @rule(time=st.integers(1, 5))
    def tick(self, time: int) -> None:
        self.now += time

    @rule(agent=AGENTS, wake=WAKES, is_rsm=st.booleans())
    def accept(self, agent: AgentId, wake: Millis | Unchanged | None, is_rsm: bool) -> None:
        if not self.known(agent):
            return
        turn = len(self.rows[agent]) + 1
        row = turn_row(turn, "accepted", attempt=0, kind=TurnKind.RSM if is_rsm else TurnKind.CHAT)
        rows = [row, message_row(turn * 2), agent_row(last_turn=turn)]
        self.append(agent, fact("turn.accepted", turn), rows=rows, at=self.now, wake=wake)
        self.rows[agent][turn] = row

    @rule(agent=AGENTS, number=NEVER_MIND, wake=WAKES, status=st.sampled_from(["accepted", "running", "cancelling"]))
    def begin(self, agent: AgentId, number: int, wake: Millis | Unchanged | None, status: str) -> None:
        if row := self.pick(agent, number, is_open=True):
            row = msgspec.structs.replace(row, status=status, attempt=row.attempt + 1)
            self.append(agent, fact("attempt.started", row.turn), rows=[row], at=self.now, wake=wake)
            self.rows[agent][row.turn] = row

    @rule(agent=AGENTS, number=NEVER_MIND, count=st.integers(1, 9), answered=st.booleans())
    def speak(self, agent: AgentId, number: int, count: int, answered: bool) -> None:
        if row := self.pick(agent, number, is_open=True):
            entries = [chunk(row.turn, index) for index in range(count)]
            if answered:
                entries.insert(0, fact("call.answered", row.turn))
            self.append(agent, *entries, at=self.now)

    @rule(agent=AGENTS, number=NEVER_MIND, says_more=st.booleans(), size=st.integers(1, 9), wake=WAKES)
    def end(self, agent: AgentId, number: int, says_more: bool, size: int, wake: Millis | Unchanged | None) -> None:
        if row := self.pick(agent, number, is_open=True):
            row = msgspec.structs.replace(row, status="completed", ended_at=Millis(self.now))
            body = b'{"words":"%b"}' % (b"said " * size)
            entries = [chunk(row.turn, 99)] if says_more else []
            entries.append(fact("message.ended", row.turn, b'{"message":%b}' % body))
            rows = [row, message_row(row.node, body=body)]
            self.append(agent, *entries, fact("turn.ended", row.turn), rows=rows, at=self.now, wake=wake)
            self.rows[agent][row.turn] = row

    @rule(agent=AGENTS, count=st.integers(1, 4), node=st.none() | st.integers(1, 6))
    def set_state(self, agent: AgentId, count: int, node: int | None) -> None:
        """Now and then with a message in the same batch that the state has as well.

        The clock does not go back here: SQLite sweeps in order of arrival, and may then take a state later than memory.
        """
        if self.known(agent):
            body = b'{"words":"%d, which is as good as any"}' % self.now
            rows = [] if node is None else [message_row(node, body=body)]
            states = [state({"shown": {"words": f"{self.now}, which is as good as any"}, "n": n}) for n in range(count)]
            self.append(agent, *states, rows=rows, at=self.now)

    @rule(agent=AGENTS, node=st.integers(1, 6), is_told=st.booleans())
    def reword(self, agent: AgentId, node: int, is_told: bool) -> None:
        if self.known(agent):
            body = b'{"words":"%d others, which are long enough"}' % self.now
            entry = fact("message.replaced", body=b'{"message":%b}' % (body if is_told else b"{}"))
            self.append(agent, entry, rows=[message_row(node, body=body)], at=self.now)

    @rule(agent=AGENTS, node=st.integers(1, 6), is_clear=st.booleans(), others=st.tuples(st.booleans(), st.booleans()))
    def remove(self, agent: AgentId, node: int, is_clear: bool, others: tuple[bool, bool]) -> None:
        if self.known(agent):
            row = RowsCleared(Generation(1)) if is_clear else RowsRemoved([NodeId(node)])
            before, after = [[message_row(node, id=f"m{self.now}")] if other else [] for other in others]
            self.append(agent, fact("messages.removed"), rows=[*before, row, *after], at=self.now)

    @rule(agent=AGENTS, number=NEVER_MIND, how=st.sampled_from(["seq", "epoch", "request", "ending", "reopen"]))
    def break_a_rule(self, agent: AgentId, number: int, how: str) -> None:
        if not self.known(agent):
            return
        owner, row = self.owners[agent][0], self.pick(agent, number, is_open=False)
        if how == "seq":
            first = number % (owner.head + 3)
            if first != owner.head + 1:
                self.append(agent, fact("x"), first=first, rows=[message_row(50)], expect=LogError)
        elif how == "epoch":
            self.append(agent, fact("x"), epoch=owner.epoch - 1, expect=LogError)
        elif row is not None and how == "request":
            self.append(agent, fact("x"), rows=[message_row(50), turn_row(999, request=row.request)], expect=LogError)
        elif row is not None:
            changed = turn_row(row.turn) if how == "reopen" else ended_row(row.turn, 10**6, "error")
            self.append(agent, chunk(row.turn, 1), rows=[message_row(50), changed], wake=Millis(1), expect=LogError)

    @rule(age=st.integers(0, 8), limit=st.integers(1, 12))
    def prune(self, age: int, limit: int) -> None:
        self.both(lambda store: drain(store, self.now - age, limit=limit))

    @rule(agent=AGENTS, wake=st.none() | st.integers(1, 50))
    def rebuild(self, agent: AgentId, wake: int | None) -> None:
        if self.known(agent):
            rows: list[Row] = [*self.rows[agent].values(), message_row(2)]
            self.both(lambda store: store.replace_rows(agent, rows, None if wake is None else Millis(wake)))

    @rule()
    def reopen(self) -> None:
        self.close()
        self.open()

    @invariant()
    def every_question_has_one_answer(self) -> None:
        if self.owners:
            self.both(self.everything)

    async def everything(self, store: Store) -> object:
        answers: list[object] = [await store.agents(), await store.due(FOREVER), await store.next_wake()]
        for agent, (owner, _) in self.owners.items():
            answers += [await read_all(store, agent, limit=1000), await store.read(agent, Seq(owner.head // 2), 3)]
            answers += [
                await store.turns(agent),
                await store.conversation(agent),
            ]
            for turn in self.rows[agent]:
                answers.append(await store.read_turn(agent, TurnId(turn)))
                answers.append(await store.find_turn(agent, RequestId(f"r{turn}")))
        return answers

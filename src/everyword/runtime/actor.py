"""The one writer of one agent: takes what waits, decides it, commits it, and only then lets anybody see it.

An actor that cannot append is dropped (R-27): nothing was shown, the state that ran ahead is thrown away, and the next
activation folds what the log really has.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextvars import Context, copy_context
from itertools import count
from typing import Any, TypeVar, cast

import msgspec

from ..core.commands import BeginAttempt, Command, EmitChunks, Emitted
from ..core.decide import decide
from ..core.evolve import evolve
from ..core.project import project
from ..core.state import Rules, State
from ..core.wanted import Wanted, wanted
from ..errors import AgentStopped, EverywordError, Rejected
from ..events import AttemptStarted, Chunk, Event, encode_event, kind_of, turn_of
from ..ids import AgentId, Attempt, Epoch, Millis, Seq, TurnId
from ..log.base import UNCHANGED, Batch, Entry, LogStore, Unchanged
from ..log.receipt import Receipt, receipt_for
from ..rows import AgentRow, KeptRow, MessageRow, Row, RowsCleared, RowsRemoved, TurnRow
from .clock import Clock
from .mailbox import Envelope, Mailbox, Query
from .office import Office
from .random_ids import random_request_id
from .tail import Committed, Tail

__all__ = ["Actor"]

T = TypeVar("T")
log = logging.getLogger("everyword.runtime")

BATCH = 1024
"""How many commands one commit may hold: bounds the memory of a batch, not its latency."""

UNLOADED = "unable to answer; the agent was unloaded. Reconnect and ask again."


class _Pending(msgspec.Struct, eq=False):
    """A decided batch: what to commit, and whom to tell."""

    envelopes: list[Envelope]
    at: Millis
    committed: list[Committed] = []
    """What happens, once it is committed."""
    is_quiet: bool = True
    """Whether there is nothing in it but chunks: nothing has to be started or stopped because of it."""
    entries: list[Entry] = []
    rows: dict[object, Row] = {}
    work: Wanted | None = None
    """What the state calls for, unless there is nothing but chunks."""
    replies: list[tuple[asyncio.Future[Any], list[Event] | Exception]] = []


class Actor:
    """One loaded agent. Run `run()` in a task; it returns when the actor was stopped and raises when it failed.

    The task only waits for that. The work is done by callbacks, one for what was posted in a turn of the loop and one
    for each commit: to wake a task for either, and put it to sleep again, would cost more than the words of a chat do.
    """

    def __init__(
        self,
        agent: AgentId,
        state: State,
        *,
        epoch: Epoch,
        head: Seq,
        store: LogStore,
        clock: Clock,
        rules: Rules,
        on_change: Callable[[State, Wanted], None],
        mailbox: Mailbox | None = None,
        office: Office | None = None,
    ) -> None:
        self.agent, self.tail = agent, Tail(head)
        self._state, self._epoch, self._store = state, epoch, store
        self._clock, self._rules, self._on_change = clock, rules, on_change
        self._mailbox = mailbox if mailbox is not None else Mailbox()
        self._mailbox.on_mail = self._has_mail
        self._office = office if office is not None else Office()
        self.offer: Callable[[TurnId, Attempt, list[Emitted]], bool] = self._mailbox.offer
        """Hands over a runner's chunks; False if there is no room. A stale attempt's are dropped without a word."""
        self._wake: Millis | Unchanged | None = UNCHANGED
        self._why: AgentStopped | None = None
        self._last: asyncio.Task[Any] | None = None
        self.begins: Callable[[State, Wanted], TurnId | None] = lambda state, work: None
        """Names the turn that may begin as part of a commit, if there is one: a commit less before its first word."""
        self.on_commit: Callable[[State], None] | None = None
        """Called with the state after each commit, before anybody is told of it."""
        self.on_append: Callable[[Batch, Receipt], None] | None = None
        """Called with each batch that is handed to the store, and the receipt of its commit."""
        self.begun: TurnId | None = None
        """The turn that began with the last commit, or with the one that is under way, until it is run."""
        self._is_served = False
        self._over: asyncio.Future[None] | None = None
        """Done when there is nothing more to serve, or no way to."""
        self._context = Context()
        """What it is served in, whoever posts: what is started because of a commit is the agent's own."""
        self._is_due = False
        """Whether mail is looked at in the next turn of the loop."""
        self._flight: tuple[_Pending, Receipt] | None = None
        """What is being committed: meanwhile nothing else is decided."""

    @property
    def epoch(self) -> Epoch:
        return self._epoch

    @property
    def is_halted(self) -> bool:
        return self._why is not None

    # -- asking ------------------------------------------------------------------------------------------

    async def ask(self, command: Command) -> list[Event]:
        """Decide a client's command; return the committed events that it caused, none if there was nothing to do.

        Raises:
            Rejected: the rules said no, the mailbox is full, or the agent was unloaded.
            LogError: nothing was committed.
        """
        return await self.post(command)

    async def insist(self, command: Command) -> list[Event]:
        """As `ask`, for commands that must fit whatever else waits: cancel, clear, ends of turns."""
        return await self.post(command, must_fit=True)

    def post(self, command: Command, *, must_fit: bool = False) -> asyncio.Future[list[Event]]:
        """As `ask` or `insist`, but the command has its place in the order when this returns."""
        reply: asyncio.Future[list[Event]] = asyncio.get_running_loop().create_future()
        envelope = Envelope(command, reply)
        if must_fit:
            self._mailbox.force(envelope)
        else:
            self._mailbox.post(envelope)
        return reply

    async def room(self) -> None:
        """Wait until it is worth while to offer again."""
        await self._mailbox.room()

    async def inspect(self, ask: Callable[[State], T]) -> T:
        """Ask about the committed state, in order with the commands before; `ask` must not keep or change it."""
        if self._is_served and self._flight is None and self._mailbox.is_empty:
            return ask(self._state)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._mailbox.force(Query(ask, future))
        return await future

    def force(self, envelope: Envelope) -> None:
        """Post a envelope that always fits and that nobody waits for."""
        self._mailbox.force(envelope)

    def take_begun(self, turn: TurnId) -> bool:
        """Tell whether the turn began with the last commit; only once, to whoever is to run it."""
        is_begun, self.begun = self.begun == turn, None
        return is_begun

    def stop(self) -> None:
        """Take no more commands; `run` returns when those inside are committed."""
        self._mailbox.close()

    def halt(self, why: AgentStopped, last: asyncio.Task[Any] | None = None) -> None:
        """Take no more commands and drop those that wait: the agent is not to be written any more.

        Readers are let go when `last` is over, so that what it has to say to a client still gets there.
        """
        self._why, self._last = why, last
        for left in self._mailbox.drain(why):
            _fail(left.reply, why)

    # -- serving the mailbox ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the mailbox until stopped; raises what made it impossible to go on."""
        self._over, self._context = asyncio.get_running_loop().create_future(), copy_context()
        self._is_served = True
        try:
            self._work()
            await self._over
            if self._last is not None:
                await asyncio.wait([self._last])
        finally:
            self._leave()
            if self._flight is not None and self._flight[1].writing is not None:
                await asyncio.wait([self._flight[1].writing])  # it was cancelled: what it undoes is undone before we go

    def _has_mail(self) -> None:
        if not self._is_due and self._is_served and self._flight is None:
            self._is_due = True
            self._office.call_soon(self._work, self._context)

    def _work(self) -> None:
        """Serve what waits, up to the first commit; `_appended` goes on from there."""
        self._is_due = False
        if not self._is_served or self._flight is not None:
            return
        while (mail := self._mailbox.take(BATCH)) is not None:
            if isinstance(mail, Query):
                self._answer(mail)
            elif self._serve(mail):
                return
        if self._mailbox.is_over:
            self._end()

    def _end(self, failure: BaseException | None = None) -> None:
        """Let `run` return, or raise; who asks from now on must find the agent gone, not this."""
        assert self._over is not None
        self._is_served = False
        if self._last is None:
            self._leave()
        if failure is not None:
            _raise_in(self._over, failure)
        elif not self._over.done():
            self._over.set_result(None)

    def _leave(self) -> None:
        """See to it that nobody waits for an answer that never comes, and that nothing goes on here. Idempotent."""
        self._is_served = False
        told = self._why or AgentStopped(UNLOADED)
        if self._flight is not None:
            pending, appending = self._flight
            appending.cancel(self._appended)
            self._refuse(pending.envelopes, told)
        self.tail.close(self._why)
        for left in self._mailbox.drain():
            _fail(left.reply, told)
        self._mailbox.on_mail = _nobody  # who is gone is not kept by it

    def _answer(self, query: Query) -> None:
        if query.reply.done():
            return
        try:
            query.reply.set_result(query.ask(self._state))
        except Exception as exc:  # noqa: BLE001 - the asker's own code failed: its own to hear
            _raise_in(query.reply, exc)

    # -- deciding, committing, publishing ----------------------------------------------------------------

    def _serve(self, envelopes: list[Envelope]) -> bool:
        """Decide, and begin to commit; False if there was nothing to commit."""
        try:
            pending = self._decide(envelopes)
            if not pending.entries:
                _tell(pending)
                return False
            self._commit(pending)
        except BaseException as exc:  # noqa: BLE001 - the state may have run ahead of the log: it must not be used again
            self._break(envelopes, exc)
        return True

    def _break(self, envelopes: list[Envelope], cause: BaseException) -> None:
        """End because of something that should not have happened; nobody waits for an answer in vain."""
        self._refuse(envelopes, cause)
        self._end(cause)
        if not isinstance(cause, Exception | asyncio.CancelledError):
            raise cause  # somebody stops the process

    def _refuse(self, envelopes: list[Envelope], cause: BaseException) -> None:
        told = self._why or (cause if isinstance(cause, EverywordError) else AgentStopped(UNLOADED))
        for envelope in envelopes:
            _fail(envelope.reply, told)

    def _decide(self, envelopes: list[Envelope]) -> _Pending:
        pending, before = _Pending(envelopes, self._clock.now()), self._state.tree.revision
        for envelope in envelopes:
            try:
                events = decide(self._state, envelope.command, pending.at, self._rules)
            except Exception as exc:
                if not isinstance(exc, Rejected):
                    log.error("%r could not decide %s", self.agent, type(envelope.command).__name__, exc_info=exc)
                if envelope.reply is not None:
                    pending.replies.append((envelope.reply, exc))
                continue
            self._apply(pending, events)
            pending.is_quiet = pending.is_quiet and type(envelope.command) is EmitChunks
            if envelope.reply is not None:
                pending.replies.append((envelope.reply, events))
        is_unchanged = self._state.tree.revision == before  # an approval request is shown at once
        pending.is_quiet = pending.is_quiet and is_unchanged
        if pending.entries and not pending.is_quiet:
            pending.work = wanted(self._state, pending.at)
            if (turn := self.begins(self._state, pending.work)) is not None:
                begun = decide(self._state, BeginAttempt(turn, calls=random_request_id()), pending.at, self._rules)
                self._apply(pending, begun)
                if type(begun[-1]) is AttemptStarted:  # what was wanted is what runs now
                    self.begun = turn
                else:
                    pending.work = wanted(self._state, pending.at)
        return pending

    def _apply(self, pending: _Pending, events: list[Event]) -> None:
        state, at, entries, committed = self._state, pending.at, pending.entries, pending.committed
        tree = state.tree
        first = self.tail.head + len(entries) + 1
        for seq, event in zip(cast(Iterable[Seq], count(first)), events):  # noqa: B905 - numbers do not end
            before = tree.revision
            evolve(state, event, at)
            body = encode_event(event)
            committed.append(Committed(seq, at, event, len(body)))
            if type(event) is Chunk:  # nearly all of them
                entries.append(Entry("chunk", event.turn, body))
                if tree.revision == before:
                    continue  # it changes no row; asking again would be a fiftieth of all that a chunk costs
            else:
                entries.append(Entry(kind_of(event), turn_of(event), body, event))
            for row in project(state, event):
                _keep(pending.rows, row)

    def _commit(self, pending: _Pending) -> None:
        first, rows = pending.committed[0].seq, [*pending.rows.values()]
        wake = UNCHANGED if pending.work is None else self._changed_wake(pending.work)
        batch = Batch(self.agent, self._epoch, first, pending.at, pending.entries, rows, wake)
        begun = self._store.append(batch)  # commit …
        appending = begun if isinstance(begun, Receipt) else receipt_for(begun)
        self._flight = pending, appending
        if self.on_append is not None:
            self.on_append(batch, appending)
        appending.then(self._appended, self._context)

    def _appended(self, appending: Receipt) -> None:
        failure = appending.error
        if not self._is_served or self._flight is None:
            return None
        pending, _ = self._flight
        if failure is None:
            try:
                if pending.work is not None:
                    self._on_change(self._state, pending.work)
                elif self.on_commit is not None:
                    self.on_commit(self._state)
                self.tail.publish(pending.committed)  # … then visible
                self._flight = None
                if pending.replies:
                    _tell(pending)
            except BaseException as exc:  # noqa: BLE001 - as in `_serve`
                failure = exc
        if failure is not None:
            return self._break(pending.envelopes, failure)
        # A mailbox that is closed is not empty: `_work` ends what there is nothing more for.
        return None if self._mailbox.is_empty else self._work()

    def _changed_wake(self, work: Wanted) -> Millis | Unchanged | None:
        if work.wake == self._wake:
            return UNCHANGED
        self._wake = work.wake
        return work.wake


def _keep(rows: dict[object, Row], row: Row) -> None:
    """Collect a batch's rows: a whole row replaces the one before, a removal takes out what it removes."""
    match row:
        case AgentRow():
            rows.pop("agent", None)
            rows["agent"] = row
        case TurnRow():
            rows["turn", row.turn] = row
        case MessageRow():
            rows["message", row.node] = row
        case KeptRow():
            rows["kept", row.kind, row.key] = row
        case RowsRemoved():
            for node in row.nodes:
                rows.pop(("message", node), None)
            rows["removed", tuple(row.nodes)] = row
        case RowsCleared():
            for key in [key for key in rows if isinstance(key, tuple) and key[0] in ("message", "removed")]:
                del rows[key]
            rows["cleared"] = row


def _tell(pending: _Pending) -> None:
    for reply, answer in pending.replies:
        _settle(reply, answer)


def _nobody() -> None:
    """Stands where an actor was."""


def _settle(reply: asyncio.Future[Any], answer: list[Event] | Exception) -> None:
    if reply.done():
        return  # the asker went away
    if isinstance(answer, Exception):
        _raise_in(reply, answer)
    else:
        reply.set_result(answer)


def _raise_in(future: asyncio.Future[Any], exc: BaseException) -> None:
    """Let whoever awaits the future have the exception, as a coroutine would raise it."""
    if future.done():
        return
    if isinstance(exc, asyncio.CancelledError):
        future.cancel()
    elif isinstance(exc, StopIteration):
        failure = RuntimeError("a command raised StopIteration")
        failure.__cause__ = exc
        future.set_exception(failure)
    else:
        future.set_exception(exc)


def _fail(reply: asyncio.Future[Any] | None, exc: Exception) -> None:
    if reply is not None:
        _settle(reply, exc)

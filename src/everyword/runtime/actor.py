"""The one writer of one agent: takes commands from its mailbox, decides them, and publishes what was committed.

An actor does not commit: `commit_loop` calls `decide`, hands the batch to the store, and calls `committed`. An actor
whose batch cannot be committed is dropped (R-27): nothing of it was shown, the state that ran ahead is thrown away, and
the next activation loads what the log really has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, Protocol, TypeVar

from ..core.commands import Command, Emitted
from ..core.state import Rules, State
from ..core.wanted import Wanted
from ..errors import AgentStopped, EverywordError
from ..events import Event
from ..ids import AgentId, Attempt, Epoch, Millis, Seq, TurnId
from ..log.base import UNCHANGED, Batch, Unchanged
from ..log.receipt import Receipt
from .clock import Clock
from .decided_batch import DecidedBatch, decide_batch
from .mailbox import Envelope, Mailbox, Query
from .tail import Tail

__all__ = ["Actor", "ActorHooks"]

T = TypeVar("T")

BATCH = 1024
"""Commands in one batch at most: bounds the memory of a batch, not its latency."""

UNLOADED = "unable to answer; the agent was unloaded. Reconnect and ask again."


class ActorHooks(Protocol):
    """What an actor calls while it decides and after a commit, before any reader sees the events."""

    def begins(self, state: State, work: Wanted) -> TurnId | None:
        """Return the turn whose first attempt may begin as part of the batch that is being decided."""
        ...

    def changed(self, state: State, work: Wanted) -> None:
        """Called after a commit that may have changed what should be running."""
        ...

    def streamed(self, state: State) -> None:
        """Called after a commit of nothing but chunks."""
        ...


class Actor:
    """One loaded agent. Run `run()` in a task; it returns when the actor was stopped and raises when it failed.

    The task only waits for the end. `decide` and `committed` are plain calls of the commit loop: waking a task for
    each, and putting it to sleep again, costs more than the words of a chat do.
    """

    def __init__(
        self,
        agent: AgentId,
        state: State,
        *,
        epoch: Epoch,
        head: Seq,
        clock: Clock,
        rules: Rules,
        schedule: Callable[[Actor], None],
        mailbox: Mailbox | None = None,
        last_at: Millis = Millis(0),
    ) -> None:
        self.agent, self.epoch, self.tail = agent, epoch, Tail(head)
        self.hooks: ActorHooks
        """Set before `run`, by the object that starts and stops what the state calls for."""
        self.context = Context()
        """`decide` and `committed` run in it: what starts because of a commit belongs to the agent, not to a caller."""
        self.receipt: Receipt | None = None
        """The store's receipt of the batch that is under way; set by the commit loop."""
        self.begun: TurnId | None = None
        """The turn that began with the last commit, or with the one that is under way, until it is run."""
        self._state, self._clock, self._rules = state, clock, rules
        self._last_at = last_at
        """The time of the last batch: the times of one agent's events never go back, whatever its owners' clocks do."""
        self._mailbox = mailbox if mailbox is not None else Mailbox()
        self._mailbox.on_mail = self._has_mail
        self.offer: Callable[[TurnId, Attempt, list[Emitted]], bool] = self._mailbox.offer
        """Adds a runner's chunks; False if there is no room. Chunks of a stale attempt are dropped without an error."""
        self._wake: Millis | Unchanged | None = UNCHANGED
        self._schedule = schedule
        self._is_scheduled = False
        """True while the commit loop has this actor on its list."""
        self._under_way: DecidedBatch | None = None
        """The batch that is being committed; meanwhile nothing else is decided."""
        self._life = _Life()

    @property
    def is_halted(self) -> bool:
        return self._life.halted_by is not None

    # -- asking ------------------------------------------------------------------------------------------

    async def ask(self, command: Command) -> list[Event]:
        """Decide a client's command; return the committed events that it caused, none if there was nothing to do.

        Raises:
            Rejected: the rules said no, the mailbox is full, or the agent was unloaded.
            LogError: nothing was committed.
        """
        return await self.post(command)

    async def insist(self, command: Command) -> list[Event]:
        """As `ask`, for commands that must fit even into a full mailbox: cancel, clear, ends of turns."""
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
        """Wait until the mailbox may have room for chunks again."""
        await self._mailbox.room()

    async def inspect(self, ask: Callable[[State], T]) -> T:
        """Ask about the committed state, in order with the commands before; `ask` must not keep or change it."""
        if self._life.is_served and self._under_way is None and self._mailbox.is_empty:
            return ask(self._state)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._mailbox.force(Query(ask, future))
        return await future

    def force(self, envelope: Envelope) -> None:
        """Post a command that always fits."""
        self._mailbox.force(envelope)

    def take_begun(self, turn: TurnId) -> bool:
        """Tell whether the turn began with the last commit; True once, for the runner that is to run it."""
        is_begun, self.begun = self.begun == turn, None
        return is_begun

    def stop(self) -> None:
        """Take no more commands; `run` returns when those inside are committed."""
        self._mailbox.close()

    def halt(self, why: AgentStopped, last: asyncio.Task[Any] | None = None) -> None:
        """Take no more commands and drop those that wait: the agent is not to be written any more.

        The tail is closed when the task `last` is done, so that what it sends to clients still gets there.
        """
        self._life.halted_by, self._life.last_task = why, last
        for left in self._mailbox.drain(why):
            _fail(left.reply, why)

    # -- deciding, called by the commit loop ---------------------------------------------------------------

    def _has_mail(self) -> None:
        if not self._is_scheduled and self._life.is_served and self._under_way is None:
            self._is_scheduled = True
            self._schedule(self)

    def decide(self) -> Batch | None:
        """Answer queries and decide commands, up to the first batch that has something to commit."""
        self._is_scheduled = False
        if not self._life.is_served or self._under_way is not None:  # a query that posts schedules the actor once more
            return None
        while (mail := self._mailbox.take(BATCH)) is not None:
            if isinstance(mail, Query):
                self._answer(mail)
            elif (batch := self._decide(mail)) is not None:
                return batch
        if self._mailbox.is_over:
            self._end()
        return None

    def _answer(self, query: Query) -> None:
        if query.reply.done():
            return
        try:
            query.reply.set_result(query.ask(self._state))
        except Exception as exc:  # noqa: BLE001 - the caller's own code failed: the caller gets the error
            _raise_in(query.reply, exc)

    def _decide(self, envelopes: list[Envelope]) -> Batch | None:
        try:
            at = self._last_at = max(self._clock.now(), self._last_at)
            decided = decide_batch(
                self.agent, self._state, self.tail.head, envelopes, at, self._rules, self.hooks.begins
            )
            if not decided.entries:
                _reply(decided)
                return None
            if decided.begun is not None:
                self.begun = decided.begun
            self._under_way, self.receipt = decided, None
            first, rows = decided.committed[0].seq, [*decided.rows.values()]
            wake = UNCHANGED if decided.work is None else self._changed_wake(decided.work)
            return Batch(self.agent, self.epoch, first, decided.at, decided.entries, rows, wake)
        except BaseException as exc:  # noqa: BLE001 - the state may have run ahead of the log: it must not be used again
            self._break(envelopes, exc)
            return None

    def _changed_wake(self, work: Wanted) -> Millis | Unchanged | None:
        if work.wake == self._wake:
            return UNCHANGED
        self._wake = work.wake
        return work.wake

    # -- publishing, called by the commit loop -------------------------------------------------------------

    def committed(self, receipt: Receipt) -> None:
        """Make the batch visible, or end if it was not committed; then go on with the mail that came meanwhile."""
        decided = self._under_way
        if not self._life.is_served or decided is None:
            return
        failure = receipt.error
        if failure is None:
            try:
                if decided.work is not None:
                    self.hooks.changed(self._state, decided.work)
                else:
                    self.hooks.streamed(self._state)
                self.tail.publish(decided.committed)
                self._under_way = self.receipt = None
                if decided.replies:
                    _reply(decided)
            except BaseException as exc:  # noqa: BLE001 - as in `_decide`
                failure = exc
        if failure is not None:
            self._break(decided.envelopes, failure)
        elif not self._mailbox.is_empty:  # a mailbox that is closed is not empty: `decide` ends the actor then
            self._has_mail()

    # -- the actor's own life ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Serve the mailbox until stopped; raises what made it impossible to go on."""
        self.context = copy_context()
        self._life.begin()
        try:
            if not self._mailbox.is_empty:
                self._has_mail()
            await self._life.until_over()
        finally:
            writing = self.receipt.writing if self.receipt is not None else None
            self._leave()
            if writing is not None:
                await asyncio.wait([writing])  # it was cancelled: it has undone what it undoes before we go

    def _end(self, failure: BaseException | None = None) -> None:
        """Let `run` return, or raise; callers that come from now on find no agent, instead of this actor."""
        self._life.is_served = False
        if self._life.last_task is None:
            self._leave()
        self._life.end(failure)

    def _leave(self) -> None:
        """Refuse everything that waits for an answer, and stop what goes on here. Idempotent."""
        self._life.is_served = False
        why = self._life.halted_by or AgentStopped(UNLOADED)
        if self._under_way is not None:
            if self.receipt is not None:
                self.receipt.cancel(self.committed)
            self._refuse(self._under_way.envelopes, why)
        self.tail.close(self._life.halted_by)
        for left in self._mailbox.drain():
            _fail(left.reply, why)
        self._mailbox.on_mail = _ignore_mail  # so that the mailbox does not keep the actor in memory

    def _break(self, envelopes: list[Envelope], cause: BaseException) -> None:
        """End because of a failure; every caller gets an error."""
        self._refuse(envelopes, cause)
        self._end(cause)
        if not isinstance(cause, Exception | asyncio.CancelledError):
            raise cause  # Ctrl-C or SystemExit

    def _refuse(self, envelopes: list[Envelope], cause: BaseException) -> None:
        why = self._life.halted_by or (cause if isinstance(cause, EverywordError) else AgentStopped(UNLOADED))
        for envelope in envelopes:
            _fail(envelope.reply, why)


class _Life:
    """Whether an actor is served, and how that ends."""

    def __init__(self) -> None:
        self.is_served = False
        self.halted_by: AgentStopped | None = None
        self.last_task: asyncio.Task[Any] | None = None
        self._over: asyncio.Future[None] | None = None

    def begin(self) -> None:
        self._over, self.is_served = asyncio.get_running_loop().create_future(), True

    async def until_over(self) -> None:
        assert self._over is not None
        await self._over
        if self.last_task is not None:
            await asyncio.wait([self.last_task])

    def end(self, failure: BaseException | None) -> None:
        assert self._over is not None
        if failure is not None:
            _raise_in(self._over, failure)
        elif not self._over.done():
            self._over.set_result(None)


def _reply(decided: DecidedBatch) -> None:
    for reply, answer in decided.replies:
        _settle(reply, answer)


def _ignore_mail() -> None:
    """Replaces `Actor._has_mail` once the actor is gone."""


def _settle(reply: asyncio.Future[Any], answer: list[Event] | Exception) -> None:
    if reply.done():
        return  # the caller went away
    if isinstance(answer, Exception):
        _raise_in(reply, answer)
    else:
        reply.set_result(answer)


def _raise_in(future: asyncio.Future[Any], exc: BaseException) -> None:
    """Raise the exception where the future is awaited, as a coroutine would."""
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

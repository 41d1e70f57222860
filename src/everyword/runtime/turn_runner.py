"""One attempt of one turn: call the responder, pass its chunks to the actor, record how it ended."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, assert_never

import msgspec

from ..core.accept import is_steered
from ..core.attempt_limits import may_try_again, why_given_up
from ..core.commands import (
    BeginAttempt,
    DelayAttempt,
    FinishTurn,
    PlaceMessages,
    RecordCallStart,
    RequestApproval,
)
from ..core.continuations import is_held
from ..core.state import Rules, State
from ..core.tree import Node
from ..errors import AgentStopped, ChatError, Rejected, StaleAttempt, Stalled, UsageError
from ..events import AttemptCause, AttemptStarted, Identity, Outcome, TurnAccepted, TurnEnded, TurnKind, to_raw
from ..ids import Attempt, CallId, Millis, NodeId, TurnId
from ..messages.chunks import as_chunk
from ..messages.lazy_messages import LazyMessages
from ..messages.message import Chunk, UIMessage
from ..messages.normaliser import Normaliser
from ..messages.stream_closing import closing
from ..principals import act_for
from ..traces import full_text, has_outside_frames
from .actor import Actor
from .answer_files import end_turn
from .api import ApprovalDetails, CancelToken, Evaluate, Responder, TurnCall
from .chunk_feed import ChunkFeed
from .clock import Clock
from .mailbox import Envelope
from .random_ids import random_request_id
from .recovery import Continue, DecidesRecovery, Decision, Recovery, Retry, Stop, Wait, backoff, recovery_of
from .stall_watchdog import StallWatchdog

__all__ = ["TurnRunner", "TurnStart"]

log = logging.getLogger("everyword.runtime")

BREATH, LONG_BREATH = 8, 128
"""After this many pieces the event loop runs other tasks. An answer that never waits (a list, a cache) would else
delay its own first chunk, and all other conversations, until its buffer is full. Each breath is twice as long as the
last, up to LONG_BREATH: the first chunk comes soon, and the rest is written in few commits."""

NAMED = 5
"""How many skipped parts of a conversation are named in the log line of a turn."""


class TurnStart(msgspec.Struct, frozen=True):
    """What a runner needs to know of the turn that it starts, besides what the log says."""

    cause: AttemptCause
    """Why an attempt is made after the first one."""
    evaluate: Evaluate | None = None
    """Gives a deferred turn its messages."""
    has_failed: bool = False
    """True when an attempt of this process failed: the next one comes after a pause."""
    has_begun: bool = False
    """True when the first attempt began with the commit that accepted the turn."""
    last_word_of_runs: Callable[[TurnId], Awaitable[Millis | None]] | None = None
    """Returns when a sub-agent that the turn waits for last said something."""
    principal: Identity | None = None


class TurnRunner:
    """Runs one turn's next attempt. `run` never raises for what the responder does: that is the turn's outcome."""

    def __init__(
        self,
        actor: Actor,
        turn: TurnId,
        responder: Responder,
        *,
        start: TurnStart,
        clock: Clock,
        rules: Rules,
    ) -> None:
        self.turn = turn
        self.retry_as: AttemptCause | None = None
        """Set when the attempt failed in a way that may pass: the turn stays open and is to be tried again."""
        self.is_finishing = False
        """Set before the end is posted: from then on this runner need not be stopped."""
        self.attempt: Attempt | None = Attempt(1) if start.has_begun else None
        """The attempt that runs right now, or is about to begin."""
        self.is_paused = False
        """Whether it waits before the next attempt: a shutdown need not wait for that."""
        self.is_put_off = False
        """Set when approved calls have to run before its turn: it is to be begun again after them."""
        self.cancelled_at: Millis | None = None
        """When it was last cancelled; set by the supervisor."""
        self._actor, self._responder, self._clock, self._rules = actor, responder, clock, rules
        self._start = start
        self.usage: Any = None
        """The usage that the model reported so far."""
        self._cancelled = CancelToken()
        self._patience = StallWatchdog(clock, rules.stall_after)
        self._was_steered = False
        """True when the answer's own code was told to end here, for another question."""

    @property
    def is_cancelled(self) -> bool:
        """True when the runtime cancelled this runner."""
        return self._cancelled.is_set()

    def cancel(self) -> None:
        """Tell the responder's code to stop; the caller cancels the task as well."""
        self._cancelled.set()

    async def run(self) -> None:
        """Begin, stream, finish. Cancelling it ends nothing: the turn stays open until its end is recorded."""
        act_for(self._start.principal)
        try:
            if self._start.has_begun:
                call, feed = await self._actor.inspect(self._call)
                return await self._attempt(Attempt(call.attempt), call, feed)
            if not await self._ready():
                return None
            recovery = await self._actor.inspect(self._recovery)
            heard_at = await self._last_word_of_runs() if recovery is not None else None
            fresh = await self._recovers(recovery, heard_at)
            if fresh is None:
                return None
            self.is_finishing = True  # the command may end the turn, and its hooks must not be cancelled then
            self.attempt = Attempt(recovery.attempt if recovery is not None else 1)
            begun = await self._actor.insist(
                BeginAttempt(self.turn, self._start.cause, fresh, heard_at, random_request_id())
            )
            started = next((event for event in begun if isinstance(event, AttemptStarted)), None)
            if started is None:  # the rules ended it instead: skipped, or tried too often; or calls come first
                self.is_put_off = isinstance(begun[-1], TurnAccepted)
                if any(isinstance(event, TurnEnded) and event.reason == "attempts-exhausted" for event in begun):
                    await self._tell_exhausted(recovery)
                return None
            self.is_finishing = False
            call, feed = await self._actor.inspect(partial(self._call, is_fresh=started.fresh))
            await self._attempt(started.attempt, call, feed)
        except Rejected as exc:
            log.debug("turn %d of %r goes no further here: %s", self.turn, self._actor.agent, exc)

    async def _last_word_of_runs(self) -> Millis | None:
        ask = self._start.last_word_of_runs
        return await ask(self.turn) if ask is not None else None

    async def _ready(self) -> bool:
        """Give a deferred turn its messages (R-10); False when the turn cannot be run."""
        deferred, messages = await self._actor.inspect(self._deferred)
        if not deferred:
            return True
        try:
            if self._start.evaluate is None:
                raise RuntimeError("the process that knew its messages is gone")
            await self._actor.insist(PlaceMessages(self.turn, await self._start.evaluate(messages)))
        except Exception as exc:  # noqa: BLE001 - the evaluated function is user code
            await self._finish(Attempt(0), Outcome.ERROR, exc=exc)
            return False
        return True

    # -- trying again (R-17) --------------------------------------------------------------------------------

    async def _recovers(self, recovery: Recovery | None, heard_at: Millis | None) -> bool | None:
        """Return True if the next attempt starts from the beginning, None if there is no next attempt."""
        if recovery is None:
            return False
        if await self._actor.inspect(self._is_finished):
            # Everything was said; only its end is missing.
            self.usage = await self._actor.inspect(self._usage_said)
            await self._finish(Attempt(recovery.attempt - 1), Outcome.COMPLETED)
            return None
        if await self._actor.inspect(partial(self._is_exhausted, heard_at)):
            return False  # the rules end it when it is to begin
        if self._start.has_failed:
            await self._delay(recovery, backoff(recovery.tries + 1))
        while isinstance(decision := await self._decided(recovery), Wait):
            await self._delay(recovery, round(decision.seconds * 1000))
        match decision:
            case Continue():
                return False
            case Retry():
                return True
            case Stop(text, forget):
                outcome = Outcome.ABORTED if text is None else Outcome.ERROR
                attempt = Attempt(recovery.attempt - 1)
                await self._finish(attempt, outcome, text, reason="recovery-stopped", is_forgotten=forget)
                return None
            case _:
                assert_never(decision)

    async def _delay(self, recovery: Recovery, milliseconds: int) -> None:
        """Wait before the next attempt; clients see meanwhile that the turn is being recovered."""
        until = Millis(self._clock.now() + milliseconds)
        await self._actor.insist(DelayAttempt(self.turn, Attempt(recovery.attempt - 1), self._start.cause))
        self.is_paused = True
        try:
            await self._clock.sleep_until(until)
        finally:
            self.is_paused = False

    async def _decided(self, recovery: Recovery) -> Decision:
        if not isinstance(self._responder, DecidesRecovery):
            return Continue()
        try:
            return await self._responder.on_recovery(recovery)
        except Exception:
            log.exception("on_chat_recovery of %r raised for turn %d; going on", self._actor.agent, self.turn)
            return Continue()

    async def _tell_exhausted(self, recovery: Recovery | None) -> None:
        if recovery is None or not isinstance(self._responder, DecidesRecovery):
            return
        try:
            await self._responder.on_exhausted(recovery)
        except Exception:
            log.exception("on_chat_recovery of %r raised for turn %d, which is given up", self._actor.agent, self.turn)

    async def _attempt(self, attempt: Attempt, call: TurnCall, feed: ChunkFeed) -> None:
        self.attempt = attempt
        try:
            async with self._patience, closing(self._responder.stream(call)) as stream:
                ending = await self._pump(stream, feed)
        except AgentStopped:
            raise
        except (Exception, asyncio.CancelledError) as exc:
            if _was_told_to_stop(exc):
                raise
            about = {"agent": call.agent, "turn": self.turn, "request": call.request, "attempt": attempt}
            may_pass = isinstance(exc, Stalled) or getattr(exc, "retryable", False) is True
            self.attempt = None
            if may_pass and await self._may_retry():
                self.retry_as = "stall" if isinstance(exc, Stalled) else "retry"
                text = full_text(exc)
                log.warning("turn %d of %r is tried again: %s", self.turn, self._actor.agent, text, extra=about)
                return
            # Raised on purpose, or about an item of the stream: the text says enough.
            is_said = isinstance(exc, ChatError) or (isinstance(exc, UsageError) and not has_outside_frames(exc))
            trace, text = None if is_said else exc, full_text(exc)
            log.warning("turn %d of %r failed: %s", self.turn, self._actor.agent, text, exc_info=trace, extra=about)
            recovery = await self._actor.inspect(self._recovery) if may_pass else None
            await self._finish(attempt, Outcome.ERROR, exc=exc)
            await self._tell_exhausted(recovery)
            return
        finally:
            self._report(call, feed.normaliser)
        reason = "steered" if self._was_steered and ending[0] is Outcome.COMPLETED else None
        await self._finish(attempt, *ending, reason=reason)

    async def _may_retry(self) -> bool:
        return await self._actor.inspect(self._is_worth_another)

    async def _is_steered(self) -> bool:
        self._was_steered = await self._actor.inspect(self._is_overtaken)
        return self._was_steered

    async def _pump(
        self, stream: AsyncIterator[str | Chunk | msgspec.Struct], feed: ChunkFeed
    ) -> tuple[Outcome, str | None]:
        """Hand chunks over until the stream ends; return how it ended and the text of an error that it carried."""
        breath = left = BREATH
        is_watched = self._rules.stall_after is not None
        async for given in stream:
            if is_watched:
                self._patience.heard()
            left -= 1
            if not left:
                breath = left = min(2 * breath, LONG_BREATH)
                await asyncio.sleep(0)
                if self.is_cancelled:
                    raise asyncio.CancelledError  # its code ignored the cancellation; its chunks are dropped
            if type(given) is str:  # nearly always, and then in few steps, and without a coroutine of its own
                if not feed.offer_text(given):
                    await feed.add(given)
                continue
            item = given if isinstance(given, (str, dict)) else as_chunk(given)
            if isinstance(item, dict):
                self._note_usage(given)
                if item.get("type") == "error":
                    return Outcome.ERROR, str(item.get("errorText", "The answer failed."))
                if item.get("type") == "abort":
                    return Outcome.ABORTED, None
            await feed.add(item)
        await feed.add(None)
        return Outcome.COMPLETED, None

    def _note_usage(self, item: object) -> None:
        """Keep what the model said that it used: it is recorded with the turn's end."""
        if isinstance(item, dict) and item.get("type") in ("finish", "message-metadata"):
            metadata = item.get("messageMetadata")
            if isinstance(metadata, dict) and "usage" in metadata:
                self.usage = metadata["usage"]

    async def _start_call(self, attempt: Attempt, call: str, tool: str, is_idempotent: bool) -> bool:
        try:
            await self._actor.insist(RecordCallStart(self.turn, attempt, CallId(call), tool, is_idempotent))
        except AgentStopped:
            raise
        except Rejected as exc:
            log.info("turn %d of %r: %s", self.turn, self._actor.agent, exc)
            return False
        return True

    def _request_approval(self, attempt: Attempt, about: ApprovalDetails) -> None:
        if not self._rules.has_list_events:
            return
        expires_at = None if about.expires_after is None else Millis(self._clock.now() + about.expires_after)
        command = RequestApproval(
            self.turn,
            attempt,
            CallId(about.call),
            about.tool,
            summary=about.summary,
            risk=about.risk,
            approvers=about.approvers,
            expires_at=expires_at,
        )
        # Not awaited: the chunk that asks comes next, and both are committed together. An answer that comes between
        # the two would be lost.
        self._actor.force(Envelope(command))

    async def _finish(
        self,
        attempt: Attempt,
        outcome: Outcome,
        error: str | None = None,
        *,
        exc: BaseException | None = None,
        reason: str | None = None,
        is_forgotten: bool = False,
    ) -> None:
        self.is_finishing = True
        detail = None
        if exc is not None:
            error, detail = self._public_text(exc), f"{type(exc).__name__}: {full_text(exc)}"
            if isinstance(exc, Stalled):
                error = self._rules.exhausted_text
        usage = to_raw(self.usage)
        forget = self._start.cause if is_forgotten else None
        end = FinishTurn(self.turn, attempt, outcome, reason, error=error, detail=detail, usage=usage, forget=forget)
        await end_turn(self._actor, self._responder, end)

    def _public_text(self, exc: BaseException) -> str:
        try:
            return self._responder.error_text(exc)
        except Exception:
            log.exception("unable to ask %r for an error text", self._actor.agent)
            return "The answer failed."

    def _report(self, call: TurnCall, normaliser: Normaliser) -> None:
        for problem in normaliser.problems:
            log.warning("turn %d of %r: %s", self.turn, self._actor.agent, problem)
        skipped = call.messages.skipped if isinstance(call.messages, LazyMessages) else []
        if skipped:
            named = ", ".join(skipped[:NAMED]) + (f" and {len(skipped) - NAMED} more" if len(skipped) > NAMED else "")
            log.warning("turn %d of %r skipped stored parts that cannot be read: %s", self.turn, call.agent, named)

    # -- reading the committed state -----------------------------------------------------------------------

    def _deferred(self, state: State) -> tuple[bool, Sequence[UIMessage]]:
        turn = state.open.get(self.turn)
        if turn is None or not turn.accepted.deferred:
            return False, []
        return True, _messages(state, turn.accepted.parent)

    def _recovery(self, state: State) -> Recovery | None:
        return recovery_of(state, self.turn, self._start.cause, self._clock.now())

    def _is_exhausted(self, heard_at: Millis | None, state: State) -> bool:
        turn = state.open.get(self.turn)
        return turn is not None and why_given_up(turn, heard_at, self._clock.now(), self._rules) is not None

    def _is_worth_another(self, state: State) -> bool:
        turn = state.open.get(self.turn)
        return turn is not None and may_try_again(turn, self._rules)

    def _is_overtaken(self, state: State) -> bool:
        turn = state.open.get(self.turn)
        return turn is not None and is_steered(state, turn, self._rules)

    def _is_held(self, state: State) -> bool:
        turn = state.open.get(self.turn)
        return turn is not None and is_held(state, turn)

    def _is_finished(self, state: State) -> bool:
        turn = state.open.get(self.turn)
        return turn is not None and turn.fold is not None and turn.chunks > 0 and turn.fold.is_finished

    def _usage_said(self, state: State) -> Any:
        """Return the usage that the answer reports; for a continuation, only if it is not that of the answer before."""
        turn = state.open.get(self.turn)
        if turn is None or turn.fold is None:
            return None
        node = state.tree.nodes.get(turn.node) if turn.extends else None
        base = UIMessage.decode(node.body) if node is not None and node.body is not None else None
        said = _usage_of(turn.fold.message())
        return said if base is None or said != _usage_of(base) else None

    def _partial(self, state: State) -> UIMessage | None:
        turn = state.open.get(self.turn)
        message = turn.fold.message() if turn is not None and turn.fold is not None else None
        return message if message is not None and message.parts else None

    def _call(self, state: State, *, is_fresh: bool = False) -> tuple[TurnCall, ChunkFeed]:
        """Return the call for the responder, and the feed for its chunks, set to continue what was streamed."""
        turn = state.open.get(self.turn)
        if turn is None:
            raise StaleAttempt(f"unable to run turn {self.turn}; it has ended meanwhile")
        accepted = turn.accepted
        has_begun = turn.fold is not None and ((turn.chunks > 0 and not is_fresh) or turn.extends)
        base = turn.fold.message() if turn.fold is not None and has_begun else None
        begun = base if base is not None and base.parts else None
        attempt = Attempt(turn.attempt)
        # An attempt that died before its first chunk left nothing to go on from: a continuation still owes its step.
        normaliser = Normaliser(accepted.message_id, base=base, first_attempt=turn.chunks == 0 or is_fresh)
        feed = ChunkFeed(self._actor, self.turn, attempt, normaliser)
        call = TurnCall(
            agent=self._actor.agent,
            turn=self.turn,
            request=accepted.request,
            message_id=accepted.message_id,
            attempt=attempt,
            trigger=accepted.trigger,
            is_continuation=turn.is_continuation,
            messages=_messages(state, accepted.parent, begun),
            partial=begun,
            body=_decoded(accepted.body),
            client_tools=_decoded(accepted.client_tools),
            cancelled=self._cancelled,
            write=feed.add,
            message=lambda: self._actor.inspect(self._partial),
            start_call=partial(self._start_call, attempt),
            announce_approval=partial(self._request_approval, attempt),
            working=self._patience.working,
            is_steered=self._is_steered,
            may_retry=self._may_retry,
            is_held=lambda: self._actor.inspect(self._is_held),
            is_calls_only=accepted.kind is TurnKind.CALLS,
            principal=accepted.principal,
            trace=accepted.trace,
            approver=lambda call: self._actor.inspect(lambda state: _approver(state, call)),
        )
        return call, feed


def _approver(state: State, call: str) -> Identity | None:
    approved = state.approvals.get(CallId(call))
    return approved.by if approved is not None else None


def _usage_of(message: UIMessage) -> Any:
    return message.metadata.get("usage") if isinstance(message.metadata, dict) else None


def _was_told_to_stop(exc: BaseException) -> bool:
    """Return True if the runtime cancelled the task. A CancelledError of the responder's own code is a failure."""
    task = asyncio.current_task()
    return isinstance(exc, asyncio.CancelledError) and task is not None and task.cancelling() > 0


def _messages(state: State, leaf: NodeId | None, partial: UIMessage | None = None) -> LazyMessages:
    path = state.tree.shown_path(leaf) if leaf is not None else ()
    return LazyMessages(_Bodies(path), partial)


class _Bodies(Collection[bytes]):
    """What a branch says, message by message: many answers never look, and it may be long."""

    def __init__(self, path: Sequence[tuple[NodeId, Node]]) -> None:
        self._path = path

    def __iter__(self) -> Iterator[bytes]:
        return (body for _, node in self._path if (body := node.shown))

    def __len__(self) -> int:
        return len(self._path)

    def __contains__(self, body: object) -> bool:
        return any(body == each for each in self)


def _decoded(raw: msgspec.Raw) -> Any:
    return msgspec.json.decode(bytes(raw))

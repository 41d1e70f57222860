"""Watching runs: each open run of an agent has a task that sets its sub-agent to work and records how that ended.

Start, restart after a crash and taking up again are one thing: the sub-agent's turn has the run's request id, and a
turn of a known request id is not started twice. What the sub-agent says is not looked at here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, assert_never

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from ...core.commands import AnswerToolCall, CancelTurns, EndRun, MarkRunTold
from ...core.runs import RUN_REQUEST
from ...core.state import RunState, State
from ...core.usage import total_usage
from ...core.wanted import Wanted
from ...errors import AgentGone, AgentStopped, LogError, Rejected, is_public, public_text
from ...events import ABSENT, Identity, Outcome, RunStarted, to_raw
from ...ids import AgentId, Millis, RequestId, RunId, TurnId, sub_agent_id
from ...messages.json_values import encode_json
from ...messages.tool_calls import ApprovalAnswer
from ...principals import act_for
from ...rows import ApprovalRecord
from ...trace_context import run_in_trace
from ..actor import Actor
from ..api import WITHDRAWN, AnswersRuns, HasRunHook, Responder, RunCall, RunRecord, TurnResult
from ..random_ids import random_request_id
from ..turn_requests import run_turn

if TYPE_CHECKING:
    from ..directory import Directory

__all__ = ["AgentToolRuns", "child_of", "record_of", "request_of"]

log = logging.getLogger("everyword.runtime")

DETACHED_PATIENCE: Final = 60 * 60 * 1000
"""Milliseconds without output after which a detached run is no longer watched."""

LOOK: Final = 2.0
"""Seconds that looking at sub-agents may take when an attempt begins: one that hangs must not keep its parent."""

TURN_ENDED: Final = "The turn that asked for it has ended."
DESTROYED: Final = "The sub-agent was destroyed."
SKIPPED: Final = "The run was skipped, because the sub-agent's conversation was cleared."


def child_of(parent: AgentId, started: RunStarted) -> AgentId:
    """Return the sub-agent of a run: it is named like the run."""
    return sub_agent_id(parent, started.kind, started.run)


def request_of(run: RunId) -> RequestId:
    """Return the request id of a run's turn."""
    return RequestId(f"{RUN_REQUEST}{run}")


def record_of(run: RunState) -> RunRecord:
    """Return a run as it stands."""
    started, ended = run.started, run.ended
    return RunRecord(
        run=started.run,
        kind=started.kind,
        status=ended.status if ended is not None else "running",
        call=started.call,
        input=msgspec.json.decode(bytes(started.input)),
        preview=started.preview,
        order=started.order,
        display=msgspec.json.decode(bytes(started.display)),
        is_detached=started.is_detached,
        summary=ended.summary if ended is not None else None,
        output=msgspec.json.decode(bytes(ended.output)) if ended is not None else None,
        error=ended.error if ended is not None else None,
        reason=ended.reason if ended is not None else None,
        is_child_running=ended.is_child_running if ended is not None else None,
        started_at=run.started_at,
        ended_at=run.ended_at,
    )


class AgentToolRuns:
    """What one loaded agent has at work as tools."""

    def __init__(self, directory: Directory, actor: Actor, responder: Responder, patience: int | None) -> None:
        self._directory, self._actor, self._responder, self._patience = directory, actor, responder, patience
        self._watches: dict[RunId, _RunWatcher] = {}
        self._hooks: dict[RunId, asyncio.Task[None]] = {}
        self._awaited: dict[RunId, list[asyncio.Future[RunRecord]]] = {}
        self.look_again: Callable[[], None] = lambda: None
        """Reconciles once more; set by the reconciler."""

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [*(watch.task for watch in self._watches.values()), *self._hooks.values()]

    @property
    def is_busy(self) -> bool:
        """Whether a sub-agent works for this one: then its silence means nothing."""
        return bool(self._watches)

    def reconcile(self, state: State, work: Wanted, *, may_start: bool) -> None:
        """Start and stop what the committed state calls for."""
        self._tell_ends(state)
        for run in work.stopped_runs:
            self.stop(run, TURN_ENDED)
        if not may_start:
            return
        for run in work.runs:
            if run not in self._watches:
                self._watch(state.runs[run].started)
                if run in work.stopped_runs:
                    self.stop(run, TURN_ENDED)
        for run in work.run_hooks:
            if run not in self._hooks:
                self._tell(record_of(state.runs[run]), state.runs[run].started.principal)

    def stop(self, run: RunId, reason: str) -> None:
        """Stop a run's sub-agent; its end is recorded when it has."""
        watch = self._watches.get(run)
        if watch is not None and watch.reason is None:
            watch.reason = reason
            watch.stopped.set()

    def ending(self, state: State, run: RunId) -> asyncio.Future[RunRecord]:
        """Return a future of how the run ends; call it from an query, with the committed state."""
        future: asyncio.Future[RunRecord] = asyncio.get_running_loop().create_future()
        self._awaited.setdefault(run, []).append(future)
        self._tell_ends(state)
        return future

    def abandon(self, why: Exception) -> None:
        """Raise in every caller that waits for an end: this process will not see it."""
        for futures in self._awaited.values():
            for future in futures:
                if not future.done():
                    future.set_exception(why)
        self._awaited.clear()

    async def last_word(self, turn: TurnId) -> Millis | None:
        """Return when a sub-agent that the turn waits for last said something; None if none has."""
        started = await self._actor.inspect(lambda state: [run.started for run in state.runs.values() if run.is_open])
        words: list[Millis] = []
        with suppress(TimeoutError, AgentStopped, LogError):
            async with asyncio.timeout(LOOK):
                for each in (each for each in started if each.within == turn):
                    async with self._directory.attach(child_of(self._actor.agent, each)) as loaded:
                        words.append(await loaded.actor.inspect(_last_word))
        return max(words, default=None)

    def _watch(self, started: RunStarted) -> None:
        patience = self._patience
        if started.is_detached and patience is not None:
            patience = max(patience, DETACHED_PATIENCE)
        watch = self._watches[started.run] = _RunWatcher(self._directory, self._actor, started, patience)
        watch.task.add_done_callback(lambda task: self._watch_done(started.run, task))

    def _watch_done(self, run: RunId, task: asyncio.Task[None]) -> None:
        del self._watches[run]
        if not task.cancelled() and task.exception() is None:
            self.look_again()  # the run may have been resumed meanwhile

    def _tell_ends(self, state: State) -> None:
        for run in [run for run in self._awaited if run not in state.runs or not state.runs[run].is_open]:
            found = state.runs.get(run)
            for future in self._awaited.pop(run):
                if future.done():
                    continue
                if found is None:
                    future.set_exception(Rejected(f"unable to wait for run {run!r}; there is none"))
                else:
                    future.set_result(record_of(found))

    def _tell(self, record: RunRecord, principal: Identity | None) -> None:
        work = self._run_hook(record, principal)
        task = asyncio.create_task(work, name=f"end of run {record.run} of {self._actor.agent}")
        self._hooks[record.run] = task
        task.add_done_callback(lambda _: self._hooks.pop(record.run, None))

    async def _run_hook(self, record: RunRecord, principal: Identity | None) -> None:
        act_for(principal)
        try:
            if isinstance(self._responder, HasRunHook):
                await self._responder.on_run_finished(record)
        except Exception:
            log.exception("on_agent_tool_finish of %r raised for run %s", self._actor.agent, record.run)
        try:
            await self._actor.insist(MarkRunTold(record.run))
        except (AgentStopped, LogError):
            log.info("the hook for the end of run %s will be called again", record.run)


class _RunWatcher:
    """One open run: starts its sub-agent, and records how that ended."""

    def __init__(self, directory: Directory, actor: Actor, started: RunStarted, patience: int | None) -> None:
        self.stopped = asyncio.Event()
        self.reason: str | None = None
        """Why it was stopped."""
        self._directory, self._actor, self._started, self._patience = directory, actor, started, patience
        self._child, self._request = child_of(actor.agent, started), request_of(started.run)
        self.task = asyncio.create_task(self._run(), name=f"run {started.run} of {actor.agent}")

    async def _run(self) -> None:
        act_for(self._started.principal)
        run_in_trace(self._started.trace)
        working = asyncio.create_task(self._work(), name=f"wait for {self._child}")
        stopping = asyncio.create_task(self.stopped.wait())
        silence = asyncio.create_task(self._silence())
        try:
            await asyncio.wait({working, stopping, silence}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                end = working.result()
            elif stopping.done():
                await _over(working)
                end = await self._stop()
            else:
                end = self._interrupted()
        except AgentGone:
            end = EndRun(self._started.run, "aborted", reason=DESTROYED)
        except (AgentStopped, LogError):
            raise  # the next owner of the agent watches the run
        except Exception as exc:  # noqa: BLE001 - a mistake of ours; callers must not wait for ever
            end = self._failed(exc, "The run could not be watched.")
        finally:
            for task in (working, stopping, silence):
                task.cancel()  # all of them first: this task may be cancelled before it has waited for the rest
            for task in (working, stopping, silence):
                await _over(task)
        await self._actor.insist(end)

    async def _work(self) -> EndRun:
        """Set the sub-agent to work, or find it at work, and wait for its end."""
        run, taker = self._started.run, await self._taker()
        if not isinstance(taker, AnswersRuns):
            return EndRun(run, "error", error=f"The sub-agent {self._started.kind!r} does not answer questions.")
        given = msgspec.json.decode(bytes(self._started.input))
        try:
            question = await taker.run_question(RunCall(run, given, self._started.expects))
        except Exception as exc:  # noqa: BLE001 - the sub-agent's own code
            return self._failed(exc, "The sub-agent could not be asked.")
        result = await run_turn(
            self._directory, self._child, question.messages, body=question.body, request=self._request
        )
        return replace(await self._end_of(result), usage=to_raw(total_usage(result.usage)))

    async def _taker(self) -> object:
        """Load the sub-agent, however long the store fails, and return what answers for it."""
        while True:
            try:
                async with self._directory.attach(self._child) as loaded:
                    return loaded.responder
            except (AgentStopped, LogError) as exc:
                await self._wait_for_child(exc)

    async def _wait_for_child(self, why: Exception) -> None:
        """Wait a while for a sub-agent that cannot be used right now."""
        if self._directory.is_closed or isinstance(why, AgentGone):
            raise why
        log.warning("run %s of %r waits for its sub-agent: %s", self._started.run, self._actor.agent, why)
        clock, settings = self._directory.clock, self._directory.settings
        await clock.sleep_until(Millis(clock.now() + settings.retry_after))

    async def _end_of(self, result: TurnResult) -> EndRun:
        """Return the end that the sub-agent's own result is; nothing else has a say."""
        run = self._started.run
        await self._withdraw_requests()
        match result.outcome:
            case Outcome.ERROR:
                return EndRun(run, "error", error=result.error or "The sub-agent failed.")
            case Outcome.SKIPPED:
                return EndRun(run, "error", error=SKIPPED)
            case Outcome.ABORTED:
                return EndRun(run, "aborted", reason=self.reason or result.reason)
            case Outcome.COMPLETED:
                return await self._completed(result)
            case _:
                assert_never(result.outcome)

    async def _withdraw_requests(self) -> None:
        """Deny the calls of the turn that still wait for an approval: the parent would not use their results."""
        denied = ApprovalAnswer(approved=False, reason=WITHDRAWN)
        while True:
            try:
                async with self._directory.attach(self._child) as loaded:
                    for asked in await loaded.actor.inspect(self._waiting):
                        request = random_request_id()
                        command = AnswerToolCall(asked.call, denied, request, auto_continue=False, asked=asked)
                        await loaded.actor.insist(command)
                return
            except (AgentStopped, LogError) as exc:
                await self._wait_for_child(exc)

    def _waiting(self, state: State) -> list[ApprovalRecord]:
        turn = state.by_request(self._request)
        return [each for each in state.waiting.values() if turn is not None and each.turn == turn.id]

    async def _completed(self, result: TurnResult) -> EndRun:
        taker = await self._taker()
        assert isinstance(taker, AnswersRuns)
        call = RunCall(self._started.run, msgspec.json.decode(bytes(self._started.input)), self._started.expects)
        try:
            answer = await taker.run_answer(call, result)
            output = ABSENT if answer.output is None else Raw(encode_json(answer.output))
        except Exception as exc:  # noqa: BLE001 - the sub-agent's own code
            return self._failed(exc, "The sub-agent's answer could not be used.")
        return EndRun(self._started.run, "completed", summary=answer.summary, output=output)

    def _failed(self, exc: Exception, text: str) -> EndRun:
        trace = None if is_public(exc) else exc
        log.warning("run %s of %r: %s", self._started.run, self._actor.agent, exc, exc_info=trace)
        return EndRun(self._started.run, "error", error=public_text(exc, text))

    async def _stop(self) -> EndRun:
        """Stop the sub-agent's turn, if it has come to one, and wait for its end."""
        while True:
            try:
                if not await self._cancelled():
                    return EndRun(self._started.run, "aborted", reason=self.reason)
                return await self._work()
            except (AgentStopped, LogError) as exc:
                await self._wait_for_child(exc)

    async def _cancelled(self) -> bool:
        """Ask the sub-agent to stop; False when it was never asked to begin."""
        try:
            async with self._directory.attach(self._child) as loaded:
                if await loaded.actor.inspect(lambda state: self._request in state.requests):
                    await loaded.actor.insist(CancelTurns(self._request))
                    return True
        except AgentStopped:
            if self._directory.is_closed:
                raise
        return await self._directory.store.find_turn(self._child, self._request) is not None

    async def _silence(self) -> None:
        """Return when the sub-agent's log has not grown for too long, and no agent below it is at work either."""
        if self._patience is None:
            await asyncio.Event().wait()
        clock, patience = self._directory.clock, self._patience or 0
        head, heard = None, clock.now()
        while clock.now() - heard < patience:
            await clock.sleep_until(Millis(clock.now() + max(patience // 4, 1)))
            loaded = self._directory.peek(self._child)
            grown = loaded.actor.tail.head if loaded is not None else None
            if grown != head or (loaded is not None and loaded.reconciler.runs.is_busy):
                head, heard = grown, clock.now()

    def _interrupted(self) -> EndRun:
        seconds = (self._patience or 0) // 1000
        text = f"The sub-agent gave no sign of life for {seconds} s and is not waited for any longer."
        return EndRun(self._started.run, "interrupted", error=text, reason="no-progress", is_child_running=True)


async def _over(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _last_word(state: State) -> Millis:
    return max((turn.progressed_at for turn in state.open.values()), default=Millis(0))

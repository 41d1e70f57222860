"""The one entry point of calls: `MethodCalls` over the directory of this process.

A call is a record that could be sent elsewhere. What comes back are bytes, or an error by class and text.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from itertools import islice
from typing import Any, Final, Protocol

import msgspec

from ..core.erasure import Target
from ..errors import AgentGone, AgentStopped, EverywordError, LogError, OwnedElsewhere, UsageError
from ..ids import AgentId, parent_id
from ..trace_context import current_trace, run_in_trace
from .agent_erasure import erase_from_agent, stop_work_of
from .api.calls import AnswersCalls, MethodCall, StreamItem
from .api.erasures import AgentErased
from .call_errors import describe_failure, revive_failure
from .directory import Directory, LoadedAgent, own_context, starting_agents
from .listings import Listings
from .personal_data import PersonalData

__all__ = ["CallsElsewhere", "MethodCalls"]

log = logging.getLogger("everyword.runtime")

ON_ERASE: Final = "everyword.on_erase"
"""The operation that calls an agent's own `on_erase`."""


class CallsElsewhere(Protocol):
    """Runs calls on the nodes that own their agents."""

    async def call(self, call: MethodCall) -> bytes | None:
        """Run a method; None if this node may run it."""
        ...

    async def stream(self, call: MethodCall) -> AsyncGenerator[StreamItem, None] | None:
        """Run an async generator; None if this node may run it."""
        ...

    async def destroy(self, agent: AgentId) -> bool:
        """Destroy an agent; False if this node may do it."""
        ...

    async def erase(self, agent: AgentId, target: Target) -> AgentErased | None:
        """Erase a principal from an agent; None if this node may do it."""
        ...


class MethodCalls:
    """Calls of agents' methods by code that has a handle, over the directory that the app runs with.

    With `elsewhere`, calls of agents that other nodes own are run there.
    """

    def __init__(self, running: Callable[[], Directory], elsewhere: CallsElsewhere | None = None) -> None:
        self._running, self._elsewhere = running, elsewhere

    @property
    def lists(self) -> Listings:
        """Lists of conversations and approvals, over all agents."""
        return Listings(self._running)

    @property
    def personal_data(self) -> PersonalData:
        """What is stored about principals."""
        return PersonalData(self._running)

    async def call(self, call: MethodCall) -> bytes:
        """Run a method in the loaded agent, wherever that is; see `call_here`."""
        call = replace(call, starting=starting_agents(), trace=current_trace())
        while True:
            try:
                return await self.call_here(call)
            except OwnedElsewhere:
                if self._elsewhere is None:
                    raise
                if (result := await self._elsewhere.call(call)) is not None:
                    return result

    async def stream(self, call: MethodCall) -> AsyncIterator[StreamItem]:
        """Run an async generator in the loaded agent, wherever that is; see `stream_here`."""
        call = replace(call, starting=starting_agents(), trace=current_trace())
        items = self.stream_here(call)
        while True:
            try:
                async with aclosing(items):
                    async for item in items:
                        yield item
                return
            except OwnedElsewhere:
                if self._elsewhere is None:
                    raise
            items = await self._elsewhere.stream(call) or self.stream_here(call)

    async def destroy(self, agent: AgentId) -> None:
        """Delete the agent, all that it stored and every agent below it, wherever it lives."""
        while True:
            try:
                return await self.destroy_here(agent)
            except OwnedElsewhere:
                if self._elsewhere is None:
                    raise
                if await self._elsewhere.destroy(agent):
                    return None

    async def erase(self, agent: AgentId, target: Target) -> AgentErased:
        """Erase a principal from an agent, wherever it lives; see `erase_here`."""
        while True:
            try:
                return await self.erase_here(agent, target)
            except OwnedElsewhere:
                if self._elsewhere is None:
                    raise
                if (erased := await self._elsewhere.erase(agent, target)) is not None:
                    return erased

    async def erase_here(self, agent: AgentId, target: Target) -> AgentErased:
        """Stop the principal's work in an agent, run its `on_erase`, and rewrite its log."""
        directory = self._running()
        async with directory.erasing:
            return await self._erase_here(directory, agent, target)

    async def _erase_here(self, directory: Directory, agent: AgentId, target: Target) -> AgentErased:
        problem = None
        try:
            await stop_work_of(directory, agent, target.principal)
            arguments = msgspec.json.encode([[], {"principal": target.principal}])
            await self.call_here(MethodCall(agent, ON_ERASE, arguments))
        except (AgentGone, OwnedElsewhere):
            raise
        except AgentStopped as exc:  # its class is not served any more, or cannot be loaded: so nothing of it runs
            problem = f"on_erase did not run: {exc}"
        except EverywordError as exc:
            problem = f"on_erase failed: {exc}"
        erased = await erase_from_agent(directory, agent, target)
        return msgspec.structs.replace(erased, problem=problem or erased.problem)

    async def call_here(self, call: MethodCall) -> bytes:
        """Run a method in the loaded agent, as its own code; return its result as JSON.

        The result is given out when the states that the call set are committed. The method goes on if the caller is
        cancelled.

        Raises:
            EverywordError: what the method raised, by class and text.
            CallFailed: it raised something else. The text of that is in the log only.
            AgentGone: the agent was destroyed meanwhile.
            AgentStopped: the agent or the process was stopped meanwhile.
            OwnedElsewhere: another node owns the agent.
        """
        was_lost = False
        while True:
            directory = self._running()
            try:
                async with directory.attach(call.agent) as loaded:
                    was_lost = call.is_repeatable
                    return await _Answer(directory, loaded, call).wait()
            except (AgentGone, OwnedElsewhere):
                raise  # the agent of that name is another one now
            except (AgentStopped, LogError):
                if not was_lost or directory.is_closed:
                    raise
                await directory.loaded_again(call.agent)

    async def stream_here(self, call: MethodCall) -> AsyncGenerator[StreamItem, None]:
        """Run an async generator in the loaded agent; closing the iterator closes it at its next value."""
        directory = self._running()
        async with directory.attach(call.agent) as loaded:
            feed = _Feed(directory, loaded, call)
            try:
                while (item := await feed.next()) is not None:
                    yield item
            finally:
                feed.leave()

    async def destroy_here(self, agent: AgentId) -> None:
        """Delete the agent, all that it stored and every agent below it."""
        await self._running().destroy(agent)

    async def exists(self, agent: AgentId) -> bool:
        """Tell whether the agent is loaded, or anything of it is stored."""
        names = self._running().stored_ids
        return await names.is_stored(await names.find(agent))

    async def page(self, prefix: str, after: str, limit: int) -> Sequence[AgentId]:
        """Return up to `limit` ids, by id, of agents that are stored or loaded and are not sub-agents."""
        directory = self._running()
        found: list[AgentId] = []
        while True:
            stored = await directory.store.agents_named(prefix, after=after, limit=limit)
            end = stored[-1] if len(stored) == limit else None
            loaded = sorted(
                each
                for each in (loaded.actor.agent for loaded in directory.loaded())
                if each.startswith(prefix) and each > after and (end is None or each <= end)
            )
            merged = dict.fromkeys(heapq.merge(stored, loaded))
            found += islice((each for each in merged if parent_id(each) is None), limit - len(found))
            if len(found) == limit or end is None:
                return found
            after = end


class _Answer:
    """One call while it runs in its agent."""

    def __init__(self, directory: Directory, loaded: LoadedAgent, call: MethodCall) -> None:
        self._loaded, self._call = loaded, call
        self._done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._task = _spawn(directory, loaded, call, self._run())
        self._task.add_done_callback(self._ended)

    async def wait(self) -> bytes:
        try:
            return await self._done
        except asyncio.CancelledError:
            if self._call.ends_with_caller:
                self._task.cancel()
            raise

    async def _run(self) -> None:
        run_in_trace(self._call.trace)
        try:
            result = await _callee(self._loaded).answer_call(self._call)
            await self._loaded.pending_states.committed()  # the result may depend on states that are not committed yet
        except Exception as exc:  # noqa: BLE001 - mostly the agent's own code
            failure = await _failure_of(self._loaded, self._call, exc)
            if not self._done.done():
                self._done.set_exception(failure)
            return
        if not self._done.done():
            self._done.set_result(result)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._done.done():  # cancelled, with its agent or by its own code
            self._done.set_exception(_lost(self._loaded, self._call))


class _Feed:
    """One stream while it runs in its agent, at most one value ahead of its reader."""

    def __init__(self, directory: Directory, loaded: LoadedAgent, call: MethodCall) -> None:
        self._loaded, self._call = loaded, call
        self._item: StreamItem | None = None
        self._failure: EverywordError | None = None
        self._has_ended = self._has_left = False
        self._changed = asyncio.Event()
        self._task = _spawn(directory, loaded, call, self._run())
        self._task.add_done_callback(self._ended)

    async def next(self) -> StreamItem | None:
        """Return the next value; None at the end."""
        while self._item is None and not self._has_ended:
            self._changed.clear()
            await self._changed.wait()
        item, self._item = self._item, None
        self._changed.set()
        if item is None and self._failure is not None:
            raise self._failure
        return item

    def leave(self) -> None:
        """Note that the caller has stopped reading: the generator is closed when it has its next value."""
        self._has_left = True
        self._changed.set()

    async def _run(self) -> None:
        run_in_trace(self._call.trace)
        try:
            values: Any = _callee(self._loaded).answer_stream(self._call)
            async with aclosing(values):
                async for item in values:
                    await self._loaded.pending_states.committed()
                    if not await self._offer(item):
                        break
        except Exception as exc:  # noqa: BLE001 - mostly the agent's own code
            self._failure = await _failure_of(self._loaded, self._call, exc)
        self._has_ended = True

    async def _offer(self, item: StreamItem) -> bool:
        """Wait until the reader has taken the value before, and put this one in its place; False if it has left."""
        while self._item is not None and not self._has_left:
            self._changed.clear()
            await self._changed.wait()
        self._item = item
        self._changed.set()
        return not self._has_left

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._failure = _lost(self._loaded, self._call)
        self._changed.set()


def _spawn(directory: Directory, loaded: LoadedAgent, call: MethodCall, work: Any) -> asyncio.Task[None]:
    """Run a call as the agent's own work, in a context of its own: nothing of the caller's but what the call says."""
    context = own_context(directory, call.starting)
    return loaded.reconciler.begin(work, f"{call.method} of {call.agent}", context=context, is_wait=call.is_wait)


def _callee(loaded: LoadedAgent) -> AnswersCalls:
    if not isinstance(loaded.responder, AnswersCalls):
        raise UsageError(f"unable to call {loaded.actor.agent!r}; it is no agent with methods")
    return loaded.responder


async def _failure_of(loaded: LoadedAgent, call: MethodCall, exc: Exception) -> EverywordError:
    """Return the error for the caller, once the states that were set before it are committed."""
    if not isinstance(exc, EverywordError):
        log.warning("%s of %r raised", call.method, loaded.actor.agent, exc_info=exc)
    described = describe_failure(exc, call.method)
    with suppress(Exception):
        await loaded.pending_states.committed()
    return revive_failure(described)


def _lost(loaded: LoadedAgent, call: MethodCall) -> AgentStopped:
    agent = loaded.actor.agent
    if loaded.is_destroyed:
        return AgentGone(f"unable to finish {call.method} of {agent!r}; the agent was destroyed meanwhile")
    return AgentStopped(f"unable to finish {call.method} of {agent!r}; it was stopped before it was done")

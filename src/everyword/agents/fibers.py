"""Fibers: background work that is recorded before it begins, saves checkpoints, and is recovered after a crash."""

from __future__ import annotations

import inspect
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..errors import Rejected, UsageError
from ..ids import FiberId
from ..runtime.agent_runtime import AgentRuntime
from ..runtime.api import FiberRecord, RunningFiber
from .execution_context import set_current_agent

__all__ = ["Fiber", "FiberContext", "Fibers", "HasFibers", "recover_fiber"]

T = TypeVar("T")
log = logging.getLogger("everyword.agents")

_within: ContextVar[FiberContext | None] = ContextVar("everyword_fiber", default=None)
"""The fiber whose code is running."""
_recovered: ContextVar[FiberContext | None] = ContextVar("everyword_recovered_fiber", default=None)
"""The fiber that is being recovered."""


@dataclass(frozen=True, slots=True)
class Fiber:
    """A fiber as it is now. Times are seconds since 1970.

    `status` is running, done, failed, cancelled, interrupted (its process died, and `on_fiber_recovered` did not
    continue it) or set-aside (its processes died too often).
    """

    id: str
    name: str
    status: str
    snapshot: Any
    started_at: float
    attempts: int
    detail: str | None = None
    ended_at: float | None = None


class FiberContext:
    """What a fiber's function is given: the fiber's data, and `stash` to save checkpoints.

    `snapshot` is the last checkpoint, None before the first. `attempts` is 1 until the fiber is recovered.
    """

    def __init__(self, runtime: AgentRuntime, record: FiberRecord) -> None:
        self.id, self.name = str(record.id), record.name
        self.snapshot: Any = record.snapshot
        self.started_at, self.attempts = record.started_at / 1000, record.attempts
        self._runtime = runtime

    async def stash(self, value: Any) -> None:
        """Replace the checkpoint by a JSON value; returns when it is committed."""
        await self._runtime.fibers.stash(FiberId(self.id), value)
        self.snapshot = value

    def __repr__(self) -> str:
        return f"FiberContext({self.id!r}, {self.name!r})"


Work = Callable[[FiberContext], Awaitable[T]] | Callable[[], Awaitable[T]]


class _Agent(Protocol):
    @property
    def _runtime(self) -> AgentRuntime: ...


class Fibers:
    """Background work of an agent, as `self.fibers`. Functions are given a `FiberContext`, if they take a parameter.

    A fiber keeps the agent loaded, and continues when the code that started it has ended. If its process dies,
    `on_fiber_recovered` is called with its last checkpoint when the agent is loaded again; when a server starts, that
    is at once.
    """

    __slots__ = ("_agent",)

    def __init__(self, agent: _Agent) -> None:
        self._agent = agent

    async def start(self, name: str, work: Work[Any], *, fiber_id: str | None = None) -> str:
        """Start a function in the background; return the fiber's id when the start is committed.

        With your own `fiber_id` it happens once: an id that was used before starts nothing.
        """
        fiber = _id_of(name, fiber_id)
        # A new context, because the fiber outlives the turn or the call that started it.
        started: RunningFiber | FiberRecord = await self._agent._runtime.fibers.start(
            fiber, name, _working(self._agent, work), Context()
        )
        del started
        return fiber

    async def list(self, name: str | None = None, status: str | None = None) -> Sequence[Fiber]:
        """Return the running fibers and the hundred that ended last, oldest first; optionally of one name or status."""
        found = [_fiber(record) for record in await self._agent._runtime.fibers.all()]
        return [each for each in found if name in (None, each.name) and status in (None, each.status)]

    async def get(self, fiber_id: str) -> Fiber | None:
        """Return one fiber; None if there is no such fiber, or it ended long ago."""
        records = await self._agent._runtime.fibers.all()
        return next((_fiber(record) for record in records if record.id == fiber_id), None)

    async def cancel(self, fiber_id: str, reason: str | None = None) -> bool:
        """Cancel a fiber: its code is stopped, and its callers get FiberCancelled. False if it has ended already."""
        return await self._agent._runtime.fibers.cancel(FiberId(fiber_id), reason)


class HasFibers:
    """The fibers of an agent."""

    _runtime: AgentRuntime

    @property
    def fibers(self) -> Fibers:
        """Background work: start, list, get and cancel it."""
        return Fibers(self)

    async def run_fiber(self, name: str, work: Work[T], *, fiber_id: str | None = None) -> T:
        """Run a function in the background and wait for its result; it continues if the caller is cancelled.

        In `on_fiber_recovered`, the name or the id of the recovered fiber continues that fiber. With your own
        `fiber_id`, a fiber that is running is waited for and not started again.

        Raises:
            FiberCancelled: the fiber was cancelled.
            Rejected: a fiber of this id has ended.
        """
        fiber = _id_of(name, fiber_id)
        if (within := _within.get()) is not None and within.id == fiber:
            raise UsageError(f"unable to wait for fiber {name!r} inside of it; it would wait for itself")
        started = await self._runtime.fibers.start(fiber, name, _working(self, work))
        if isinstance(started, FiberRecord):
            raise Rejected(f"unable to run fiber {fiber!r} again; it has ended ({started.outcome}). Use another id.")
        result: T = await started.result()
        return result

    async def on_fiber_recovered(self, ctx: FiberContext) -> None:
        """Called with a fiber whose process died: start it again by its name, or return to let it end as interrupted.

        If this raises, it is called again after a pause. After five attempts the fiber is set aside.
        """
        log.warning("fiber %s (%s) of %r was interrupted; define on_fiber_recovered to go on", ctx.id, ctx.name, self)


async def recover_fiber(agent: Any, record: FiberRecord) -> None:
    """Call the agent's `on_fiber_recovered` with a fiber."""
    ctx = FiberContext(agent._runtime, record)
    _recovered.set(ctx)
    await agent.on_fiber_recovered(ctx)


def _id_of(name: str, given: str | None) -> FiberId:
    recovered = _recovered.get()
    if given is None and recovered is not None and recovered.name == name:
        return FiberId(recovered.id)
    return FiberId(given if given is not None else secrets.token_urlsafe(9))


def _working(agent: Any, work: Work[Any]) -> Callable[[FiberRecord], Awaitable[Any]]:
    if not callable(work):
        raise UsageError(f"unable to run {work!r} as a fiber; give a function, not what it returns")

    async def run(record: FiberRecord) -> Any:
        ctx = FiberContext(agent._runtime, record)
        set_current_agent(agent)
        _within.set(ctx)
        _recovered.set(None)
        given: Any = work(ctx) if _takes_one(work) else work()  # type: ignore[call-arg]
        return await given if inspect.isawaitable(given) else given

    return run


def _takes_one(work: Callable[..., Any]) -> bool:
    parameters = inspect.signature(work).parameters.values()
    return any(each.kind is not each.KEYWORD_ONLY and each.kind is not each.VAR_KEYWORD for each in parameters)


def _fiber(record: FiberRecord) -> Fiber:
    ended = record.ended_at / 1000 if record.ended_at is not None else None
    return Fiber(
        record.id,
        record.name,
        record.outcome or "running",
        record.snapshot,
        record.started_at / 1000,
        record.attempts,
        record.detail,
        ended,
    )

"""The one connection that writes: what waits while a transaction is under way is the next transaction.

Each transaction is a single call of a function of the database, so it ends whatever becomes of this process. If the
connection is lost during a call, its outcome is not known: the leases of its agents are dropped, and taking them again
tells. A new connection first takes the node's fence, which ends the calls of the old one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final

from ...errors import EverywordError, Fenced, LogUnavailable
from ..base import Batch
from ..receipt import Receipt, settle
from .agent_leases import AgentLease, AgentLeases
from .connection import DRIVER_ERRORS, LOST_FENCE, Connector, refusal
from .days import Days
from .node_lease import NodeLease
from .pending_write import PendingWrite

__all__ = ["Fence", "PostgresWriter", "Work"]

MOST_BATCHES: Final = 2000
"""Batches of one transaction at most, so that it stays far below the time that a statement may take."""

MOST_SHARED: Final = 16
"""Requests of one call at most: agents are loaded with their conversations."""

LANE: Final = 0
"""The row of the node's fence that this connection locks."""

Fence = tuple[int, int]
"""Proof that a call is made by this node and its newest connection: incarnation and generation."""

Work = Callable[[Any, Fence], Awaitable[Any]]
"""Something other than an append that is written in its turn: takes the connection and the fence."""


SharedWork = Callable[[Any, Fence, Sequence[Any]], Awaitable[Sequence[Any]]]
"""Something that one call does for several requests: takes them, too, and returns a result or an error for each. If it
raises, nothing was written."""


class _Job(Receipt, eq=False):
    """One batch, or other work, and its receipt."""

    batch: Batch | None = None
    work: Work | None = None
    shared: SharedWork | None = None
    request: Any = None
    doing: str = ""


class PostgresWriter:
    """Belongs to the event loop that starts it."""

    def __init__(self, connector: Connector, node: NodeLease, leases: AgentLeases, days: Days) -> None:
        self._connector, self._node, self._leases, self._days = connector, node, leases, days
        self._waiting: deque[_Job] = deque()
        self._news = asyncio.Event()
        self._connection: Any = None
        self._fence: Fence = (0, 0)
        self._is_stopping = False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._connect()
        self._task = asyncio.create_task(self._serve(), name="writer of the store")

    async def stop(self) -> None:
        """Write what was accepted, then close the connection. Idempotent."""
        self._is_stopping = True
        self._news.set()
        if self._task is not None:
            await asyncio.shield(self._task)
        if self._connection is not None:
            with suppress(*DRIVER_ERRORS):
                await self._connection.close(timeout=1)

    def abort(self) -> None:
        """Fail what is under way: the node has lost its lease."""
        if self._connection is not None:
            self._connection.terminate()

    def append(self, batches: Sequence[Batch]) -> Sequence[Receipt]:
        """Queue the batches; see `LogStore.append`."""
        return [self._queue(_Job(batch=batch, doing=f"append to {batch.agent!r}")) for batch in batches]

    def submit(self, doing: str, work: Work) -> Receipt:
        """Queue something else; the receipt has what it returns."""
        return self._queue(_Job(work=work, doing=doing))

    def submit_shared(self, doing: str, work: SharedWork, request: Any) -> Receipt:
        """Queue a request; those that wait at the same time are one call."""
        return self._queue(_Job(shared=work, request=request, doing=doing))

    def _queue(self, job: _Job) -> _Job:
        if self._is_stopping:
            job.error, job.is_done = LogUnavailable(f"unable to {job.doing}; the store is closed"), True
        else:
            self._waiting.append(job)
            self._news.set()
        return job

    async def _serve(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._waiting:
                jobs = [self._waiting.popleft() for _ in range(min(len(self._waiting), MOST_BATCHES))]
                await self._write(jobs)
                settle(jobs)
            if self._is_stopping:
                return

    async def _write(self, jobs: Sequence[_Job]) -> None:
        """Write the jobs in order, each run of appends as one transaction; every job gets its result or error."""
        try:
            await self._connect()
        except EverywordError as exc:
            for job in jobs:
                if job.batch is not None and self._leases.get(job.batch.agent, job.batch.epoch) is None:
                    job.error = Fenced(f"unable to {job.doing}; {exc}")
            self._fail(jobs, exc)
            return
        for run in _runs(jobs):
            if run[0].batch is not None:
                await self._append(run)
            elif run[0].shared is not None:
                await self._run_shared(run)
            else:
                await self._run_work(run[0])

    async def _run_work(self, job: _Job) -> None:
        assert job.work is not None
        try:
            job.result = await job.work(self._connection, self._fence)
        except Exception as exc:  # noqa: BLE001 - whatever it is, its caller waits, and so do the jobs behind it
            job.error = self._refused(job, exc)

    async def _run_shared(self, jobs: Sequence[_Job]) -> None:
        work = jobs[0].shared
        assert work is not None
        try:
            results = await work(self._connection, self._fence, [job.request for job in jobs])
        except Exception as exc:  # noqa: BLE001 - as above
            if len(jobs) > 1 and not self._connection.is_closed() and hasattr(exc, "sqlstate"):
                for job in jobs:  # one of them may be what the database refused, or too large
                    await self._run_shared([job])
                return
            for job in jobs:
                job.error = self._refused(job, exc)
            return
        for job, result in zip(jobs, results, strict=True):
            if isinstance(result, Exception):
                job.error = self._refused(job, result)
            else:
                job.result = result

    async def _connect(self) -> None:
        """Have a connection that may write for the present incarnation of the node."""
        if not self._node.is_valid:
            raise LogUnavailable("this node has no lease in the database; it writes again when it has one")
        is_current = self._fence[0] == self._node.incarnation
        if is_current and self._connection is not None and not self._connection.is_closed():
            return
        if self._connection is None or self._connection.is_closed():
            self._connection = await self._connector.connect()
        incarnation = self._node.incarnation
        try:
            generation = await self._connection.fetchval(self._connector.sql["take_fence"], incarnation, LANE)
        except DRIVER_ERRORS as exc:
            self._connection.terminate()
            raise refusal("take the node's fence", exc) from exc
        if generation is None:
            self._node.look_again()
            raise LogUnavailable("this node was declared gone; it registers again in a moment")
        self._fence = incarnation, generation

    async def _append(self, jobs: Sequence[_Job]) -> None:
        """Write batches in one transaction; those that the database refuses are found by halving."""
        pending, good = PendingWrite(self._days), list[_Job]()
        for job in jobs:
            assert job.batch is not None
            lease = self._leases.get(job.batch.agent, job.batch.epoch)
            try:
                _check(job.batch, lease)
                assert lease is not None
                pending.add(lease, job.batch)
            except (Fenced, LogUnavailable) as exc:
                job.error = exc
                continue
            good.append(job)
        if good:
            await self._commit(pending, good)

    async def _commit(self, pending: PendingWrite, jobs: Sequence[_Job]) -> None:
        try:
            lost = await self._call(pending)
        except Exception as exc:  # noqa: BLE001 - whatever it is, the callers wait, and so does everything behind them
            pending.undo()
            await self._after_failure(jobs, exc)
            return
        if lost is None:
            return
        pending.undo()
        self._leases.drop_keys(lost)
        left = [job for job in jobs if job.batch and self._leases.get(job.batch.agent, job.batch.epoch) is not None]
        for job in jobs:
            if job not in left:
                job.error = Fenced(f"unable to {job.doing}; it has another owner now")
        await self._append(left)

    async def _call(self, pending: PendingWrite) -> Sequence[int] | None:
        arguments = [*self._fence, *pending.fence_arguments(), *pending.events]
        name = "append"
        if not pending.rows.is_empty or pending.states[0]:
            name = "append_with_rows"
            arguments += [*pending.states, *pending.rows.arguments()]
        lost: Sequence[int] | None = await self._connection.fetchval(self._connector.sql[name], *arguments)
        return lost

    async def _after_failure(self, jobs: Sequence[_Job], exc: BaseException) -> None:
        if self._connection.is_closed() or not hasattr(exc, "sqlstate"):
            # The outcome is not known: the agents are to be taken again, which tells.
            self._connection.terminate()
            for job in jobs:
                assert job.batch is not None
                self._leases.drop(job.batch.agent)
            self._fail(jobs, exc)
        elif len(jobs) == 1:
            jobs[0].error = self._refused(jobs[0], exc)
        else:
            half = len(jobs) // 2
            await self._append(jobs[:half])
            await self._append(jobs[half:])

    def _fail(self, jobs: Sequence[_Job], exc: BaseException) -> None:
        for job in jobs:
            if job.error is None:
                job.error = LogUnavailable(f"unable to {job.doing}; {exc}")
                job.error.__cause__ = exc

    def _refused(self, job: _Job, exc: BaseException) -> EverywordError:
        if getattr(exc, "sqlstate", None) == LOST_FENCE:
            # Declared gone; or the call of an older connection that took the fence arrived late, after this one's.
            self._fence = (0, 0)
            self._node.look_again()
        elif isinstance(exc, DRIVER_ERRORS) and not hasattr(exc, "sqlstate"):
            self._connection.terminate()  # it may refuse everything from now on
        return refusal(job.doing, exc)


def _runs(jobs: Sequence[_Job]) -> Iterator[list[_Job]]:
    """Cut the jobs, in their order, into what is one call of the database each."""
    run: list[_Job] = []
    for job in jobs:
        is_full = bool(run) and run[0].shared is not None and len(run) >= MOST_SHARED
        if run and (is_full or job.work is not None or job.work != run[0].work or job.shared != run[0].shared):
            yield run
            run = []
        run.append(job)
    if run:
        yield run


def _check(batch: Batch, lease: AgentLease | None) -> None:
    """Raise unless the batch has the lease and begins at the head."""
    if lease is None:
        raise Fenced(f"unable to append to {batch.agent!r}; epoch {batch.epoch} no longer holds its lease")
    if batch.first != lease.head + 1:
        raise LogUnavailable(
            f"unable to append to {batch.agent!r}; its log ends at {lease.head}, the batch begins at {batch.first}"
        )

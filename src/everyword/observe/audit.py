"""The audit trail: decisions about clients and committed actions, as records for a file or a function."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from os import PathLike
from typing import Final, NamedTuple, cast

from ..errors import NotRecorded, UsageError
from ..ids import Millis
from .api import AccessDecision, Happened, Observer
from .audit_file import AuditFile, encode_record
from .audit_records import RECORDED, AuditRecord, record_of_decision, record_of_event

__all__ = ["Audit", "AuditSink"]

log = logging.getLogger("everyword.audit")

AuditSink = Callable[[AuditRecord], Awaitable[None] | None]
"""Takes one record. A plain function runs in a thread."""

AT_ONCE: Final = 256
"""Records that are written to a file together. A function is called for each, and may fail for one of them."""

CLOSE_LIMIT: Final = 5.0
"""Seconds that the sink has for the last records when the app is closed."""


class _Waiting(NamedTuple):
    record: AuditRecord
    written: asyncio.Future[None] | None


class Audit(Observer):
    """Records who read, asked, approved, changed, exported and erased: `Everyword(observe=[Audit("audit.jsonl")])`.

    Decisions about clients are recorded at most once: they are lost if the process is killed before they are written.
    Committed events are recorded at most once, too, but they are in the log: `everyword audit` prints them again.

    Args:
        sink: A file for lines of JSON, or a function that takes an `AuditRecord`.
        required: Let no client do anything before the decision about it is written. If it cannot be written, the client
            is refused with 503.
        fsync: For a file: write each group of records to the disk, so that they survive a loss of power.
        arguments: Record the arguments of calls that were approved, summaries and reasons.
        room: Records that may wait for the sink. Further ones are dropped and counted in `missed`, and the next record
            that is written says how many.
    """

    kinds = RECORDED

    def __init__(
        self,
        sink: str | PathLike[str] | AuditSink,
        *,
        required: bool = False,
        fsync: bool = False,
        arguments: bool = True,
        room: int = 10_000,
    ) -> None:
        is_path = isinstance(sink, str | PathLike)
        self._file = AuditFile(sink, fsync=fsync) if isinstance(sink, str | PathLike) else None
        self._sink = cast(AuditSink, sink) if not is_path else None
        self.required, self._arguments, self._room = required, arguments, room
        self.missed = 0
        """Number of records that were not written: there was no room, or the sink failed."""
        self._unsaid = 0
        """Missed records that no `miss` record has counted yet."""
        self._waiting: deque[_Waiting] = deque()
        self._task: asyncio.Task[None] | None = None

    # -- records -----------------------------------------------------------------------------------------------------

    def decided(self, decision: AccessDecision) -> Awaitable[None] | None:
        return self._add(record_of_decision(decision, self.node_name))

    def happened(self, happened: Happened) -> None:
        given = happened.agent, happened.seq, happened.at, happened.event
        record = record_of_event(*given, self.node_name, arguments=self._arguments)
        if record is not None:
            self._queue(record, None)

    def record(self, record: AuditRecord) -> Awaitable[None] | None:
        """Write a record of your own. With `required`, await the result.

        Raises:
            UsageError: it is for a file, and its fields are not JSON.
            NotRecorded: when awaited, with `required`: the sink failed, or too many records wait.
        """
        if self._file is not None:
            try:
                encode_record(record)  # or it would be lost later, together with records of others
            except (TypeError, ValueError) as exc:
                raise UsageError(f"unable to record {record.action!r}; its fields are not JSON ({exc})") from None
        return self._add(record)

    def _add(self, record: AuditRecord) -> Awaitable[None] | None:
        written = asyncio.get_running_loop().create_future() if self.required else None
        self._queue(record, written)
        return written

    # -- the queue ---------------------------------------------------------------------------------------------------

    def _queue(self, record: AuditRecord, written: asyncio.Future[None] | None) -> None:
        if len(self._waiting) >= self._room:
            self._miss([_Waiting(record, written)], "the sink is too slow")
            return
        self._waiting.append(_Waiting(record, written))
        if self._task is None:
            # In a context of its own: the sink does not run for the client whose record happens to be the first.
            self._task = asyncio.create_task(self._write_all(), name="audit", context=contextvars.Context())

    async def _write_all(self) -> None:
        """Write the records that wait. The task ends when there are none."""
        while self._waiting:
            at_once = AT_ONCE if self._file is not None else 1
            group = [self._waiting.popleft() for _ in range(min(at_once, len(self._waiting)))]
            try:
                if (unsaid := self._unsaid) > 0:
                    await self._write([self._gap(group[0].record.time)])
                    self._unsaid -= unsaid  # more may have been missed meanwhile
                await self._write([each.record for each in group])
            except asyncio.CancelledError:
                self._miss([*group, *self._waiting], "the app was closed")
                self._waiting.clear()
                raise
            except Exception as exc:  # noqa: BLE001 - a sink that fails must not stop the server
                self._miss(group, f"the sink failed: {exc!r}")
                continue
            for each in group:
                if each.written is not None and not each.written.done():
                    each.written.set_result(None)
        self._task = None

    async def _write(self, records: Sequence[AuditRecord]) -> None:
        if self._file is not None:
            await asyncio.to_thread(self._file.append, records)
            return
        sink = self._sink
        assert sink is not None
        for record in records:
            if inspect.iscoroutinefunction(sink) or inspect.iscoroutinefunction(getattr(sink, "__call__", None)):  # noqa: B004
                await cast(Awaitable[None], sink(record))
                continue
            result = await asyncio.to_thread(sink, record)
            if inspect.isawaitable(result):
                await result

    def _gap(self, at: Millis) -> AuditRecord:
        return AuditRecord(at, "miss", "done", "", "", what={"records": self._unsaid}, node=self.node_name)

    def _miss(self, group: Sequence[_Waiting], why: str) -> None:
        if self._unsaid == 0:
            log.error("audit records are lost; %s. `missed` of Audit counts them", why)
        self.missed += len(group)
        self._unsaid += len(group)
        for each in group:
            if each.written is not None and not each.written.done():
                each.written.set_exception(NotRecorded(f"unable to record the request; {why}"))
                each.written.exception()  # a client that is gone does not ask any more

    async def aclose(self) -> None:
        """Write the records that wait, and close the file."""
        if (task := self._task) is not None:
            with suppress(TimeoutError, asyncio.CancelledError):
                async with asyncio.timeout(CLOSE_LIMIT):
                    await asyncio.shield(task)
            if not task.done():
                task.cancel()
                await asyncio.wait([task])
            self._task = None
        if self._file is not None:
            await asyncio.to_thread(self._file.close)
